"""The user's function from checkpoint and domain to outputs, loaded because the user named it.

The current folder is never added to where Python looks for modules. The folder of a named file is,
in the worker only and after everything that is installed: a neighbour of the file can be imported,
and cannot take the place of an installed module.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from checkwise.errors import InputError

Function = Callable[[str, str], Any]


@dataclass(frozen=True)
class FunctionName:
    """Where a function is: the absolute path of a file, or a module; and what it is called there.

    Example:
        >>> FunctionName("/home/me/evaluate.py", "outputs").short
        'evaluate.py:outputs'
    """

    source: str
    attribute: str

    @classmethod
    def parse(cls, text: str) -> FunctionName:
        """``file.py:function`` or ``module:function``."""
        source, _, attribute = text.rpartition(":")
        if not source or not attribute.isidentifier():
            raise InputError(
                f"Expected --function file.py:function or module:function, but got {text!r}: "
                "write, for example, --function evaluate.py:outputs."
            )
        if source.endswith(".py"):
            if not Path(source).is_file():
                raise InputError(
                    f"Expected a Python file for --function, but there is none at {source}: check "
                    "the path.",
                    code="missing",
                )
            source = str(Path(source).absolute())
        return cls(source, attribute)

    @property
    def is_file(self) -> bool:
        """Whether it is in a file of its own rather than an installed module."""
        return self.source.endswith(".py")

    @property
    def short(self) -> str:
        """The name without the folder of the file."""
        return f"{Path(self.source).name if self.is_file else self.source}:{self.attribute}"

    def load(self) -> tuple[Function, str]:
        """Import the function; with its file's SHA-256. Errors in the file go to the caller."""
        path = Path(self.source) if self.is_file else _origin(self.source)
        content = path.read_bytes()
        module = _run_file(path, content) if self.is_file else importlib.import_module(self.source)
        function = getattr(module, self.attribute, None)
        if not callable(function):
            raise InputError(
                f"Expected a function {self.attribute} in {self.source}, but got "
                f"{'none' if function is None else type(function).__name__}: check its name.",
                code="unknown",
            )
        return function, hashlib.sha256(content).hexdigest()


def _origin(module: str) -> Path:
    try:
        spec = importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise InputError(
            f"Expected an installed module for --function, but found none called {module}: the "
            "current folder is not searched; for a file write --function file.py:function.",
            code="missing",
        )
    return Path(spec.origin)


def _run_file(path: Path, content: bytes) -> ModuleType:
    """The module of a file: what was hashed is what runs.

    Under its own name, if that is free, other processes of the function's can import it again.
    """
    taken = not path.stem.isidentifier() or importlib.util.find_spec(path.stem) is not None
    module = ModuleType(f"checkwise_function_{path.stem}" if taken else path.stem)
    module.__file__ = str(path)
    sys.path.append(str(path.parent))
    sys.modules[module.__name__] = module
    exec(compile(content, str(path), "exec"), module.__dict__)
    return module
