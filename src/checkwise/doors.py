"""The door of a package: the names that other packages may use, each loaded when first asked for.

A package lists them once, in its ``__init__.pyi``, where type checkers and people look for them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_FROM = re.compile(r"^from (\S+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
_NAME = re.compile(r"(\w+)\s+as\s+(\w+)")


def door(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the stub beside its file.

    A module of the package that needs what is not installed says which extra brings it.
    """
    homes: dict[str, tuple[str, str]] = {}
    for match in _FROM.finditer(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")):
        for name, known_as in _NAME.findall(match[2] or match[3]):
            homes[known_as] = (match[1], name)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from checkwise.errors import naming_extras

        home, own_name = homes[name]
        with naming_extras():
            if home == package:  # a part, whose own door comes next
                return import_module(f"{package}.{own_name}")
            value = getattr(import_module(home), own_name)
        setattr(sys.modules[package], name, value)  # the next use is as quick as any name
        return value

    return load, lambda: sorted(homes), sorted(homes)
