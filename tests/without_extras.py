"""Runs every command in one process in which packages cannot be imported; prints what they say.

``python -m tests.without_extras PACKAGE,PACKAGE < commands.json`` in a folder that holds what the
commands read.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys


def hide(*packages: str) -> None:
    """Nobody finds these packages from here on, as where they are not installed."""
    sys.modules.update(dict.fromkeys(packages))  # type: ignore[arg-type]


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
    hide(*sys.argv[1].split(","))
    print(json.dumps({name: answer(words) for name, words in json.load(sys.stdin).items()}))
