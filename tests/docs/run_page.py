"""Runs the code of one page as a reader would, in an empty folder.

``python -m tests.docs.run_page PAGE``

Python blocks run in order in this interpreter, every command in a process of its own. Where a page
shows what a command prints, that is what it has to print; `…` ends what is shown of a line.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.docs.command_server import CommandServer

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = "$ checkwise "


def run_page(page: Path) -> None:
    """Run every block; ends with the first fault."""
    text = page.read_text()
    names: dict[str, object] = {"__name__": "page"}
    with CommandServer() as server:
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start(2))
            if block[1] == "python":
                exec(compile("\n" * line + block[2], str(page), "exec"), names)
                continue
            for command, shown in commands(block[2]):
                code, output, errors = server.run(shlex.split(command, comments=True))
                if code:
                    sys.exit(f"`checkwise {command}` ended with {code}: {errors}")
                if shown and not prints(output, shown):
                    sys.exit(f"`checkwise {command}` printed\n{output}\nbut shown is\n{shown}")


def commands(code: str) -> Iterator[tuple[str, list[str]]]:
    """Every command of a console block, with the lines shown below it."""
    for part in code.split(PROMPT)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        yield command, shown


def prints(output: str, shown: list[str]) -> bool:
    """Whether the lines of an output are those of a page."""
    lines = [line.rstrip() for line in output.rstrip("\n").split("\n")]
    return len(lines) == len(shown) and all(
        line.startswith(wanted[:-1]) if wanted.endswith("…") else line == wanted
        for line, wanted in zip(lines, shown, strict=True)
    )


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
