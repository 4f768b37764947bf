"""Runs every command in one process in which packages cannot be imported; prints what they say.

``python -m tests.without_extras PACKAGE,PACKAGE < commands.json`` in a folder that holds what the
commands read.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from importlib.abc import MetaPathFinder
from typing import Any


class Absent(MetaPathFinder):
    """Finds nothing, loudly, for the packages that are to be absent."""

    def __init__(self, packages: set[str]) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in self._packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def answer(arguments: list[str]) -> tuple[int, str]:
    """Exit code and standard error of one command."""
    from checkwise.cli import main

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            main(arguments)
        except SystemExit as stop:
            return int(stop.code or 0), said.getvalue()
    raise AssertionError("main ends with SystemExit")


if __name__ == "__main__":
    sys.meta_path.insert(0, Absent(set(sys.argv[1].split(","))))
    print(json.dumps({name: answer(words) for name, words in json.load(sys.stdin).items()}))
