"""Lightning under either of its names: `lightning` or `pytorch_lightning`.

The two packages hold the same code as different classes, and a Trainer recognises only the
callbacks of its own package. So the class of a callback is completed when the first one is made:
by then a program has imported the package of its modules.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.extras import require

PACKAGES: Final = ("lightning.pytorch", "pytorch_lightning")


def package_in_use(name: str | None = None) -> str:
    """The package that the program has imported, or the one that is installed.

    Args:
        name: the package that the user asked for.
    """
    if name is not None:
        if name not in (*PACKAGES, "lightning"):
            raise InputError(
                f"Expected package 'lightning' or 'pytorch_lightning', but got {name!r}."
            )
        return PACKAGES[0] if name == "lightning" else name
    imported = [package for package in PACKAGES if package in sys.modules]
    if len(imported) == 2:
        raise InputError(
            "Expected a program that imports lightning or pytorch_lightning, but it imports both: "
            "pass package='lightning' or package='pytorch_lightning', the one of your Trainer."
        )
    if imported:
        return imported[0]
    if find_spec("lightning") is None and find_spec("pytorch_lightning") is not None:
        return PACKAGES[1]
    require("lightning")
    return PACKAGES[0]


@cache
def completed(callback: type[Any], package: str) -> type[Any]:
    """A callback class on top of the `ModelCheckpoint` of a package."""
    base = import_module(f"{package}.callbacks").ModelCheckpoint
    body = {"__module__": callback.__module__, "__doc__": callback.__doc__, "package": package}
    return type(callback.__name__, (callback, base), body)


def blank(callback: type[Any], package: str) -> Any:
    """An instance without content, which unpickling fills."""
    bare: Any = callback
    whole: Any = completed(bare, package)
    return whole.__new__(whole)
