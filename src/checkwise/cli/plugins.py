"""Rules and metrics of one's own on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Annotated

import typer

from checkwise.errors import CheckwiseError, InputError

Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", help="A Python file or module with rules or metrics of your own."),
]


def load_plugins(names: list[str] | None) -> None:
    """Import files or modules whose decorators register rules and metrics."""
    for name in names or ():
        try:
            if name.endswith(".py"):
                _import_file(Path(name))
            else:
                importlib.import_module(name)
        except CheckwiseError:
            raise
        except Exception as error:
            raise InputError(
                f"Expected --plugin to name a Python file or module, but {name!r} cannot be "
                f"loaded: {type(error).__name__}: {error}."
            ) from None


def _import_file(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
