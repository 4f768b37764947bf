"""Runs the code of one page as a reader would, in an empty folder.

``python -m tests.docs.run_page PAGE``

Python blocks run in order in this interpreter, every command in a process of its own. Where a page
shows what a command prints, that is what it has to print; `…` ends what is shown of a line, and on
a line of its own stands for one line or more. Where a page shows a refusal (`checkwise: …`), the
command has to be refused with these words.

``<!-- laid out: tests/… as NAME -->`` on a page puts material of the tests there beforehand.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.command_server import checkwise
from tests.material.laid_out import lay_out

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ checkwise (.*)\n((?:(?!\$ checkwise ).*\n)*)", re.MULTILINE)
LAID_OUT = re.compile(r"^<!-- laid out: (\S+) as (\S+) -->$", re.MULTILINE)
REFUSAL = "checkwise: "


@dataclass(frozen=True)
class Answer:
    """A command of a page and what it did.

    Args:
        command: what stands after `checkwise`.
        shown: what the page shows of its output; empty where it shows none.
        start: where ``shown`` begins in the page.
        code: the exit code.
        output: what it printed; for a refusal, the refusal.
    """

    command: str
    shown: str
    start: int
    code: int
    output: str

    @property
    def ended_as_shown(self) -> bool:
        """Whether it was refused where the page shows a refusal, and else answered."""
        return self.code == (2 if self.shown.startswith(REFUSAL) else 0)

    def fault(self) -> str:
        """What is not as the page shows it; nothing where all is."""
        if not self.ended_as_shown:
            return f"`checkwise {self.command}` ended with {self.code}: {self.output}"
        if self.shown and not prints(self.output, self.shown):
            return f"`checkwise {self.command}` printed\n{self.output}\nbut shown is\n{self.shown}"
        return ""


def run_page(page: Path) -> None:
    """Run every block; ends with the first fault."""
    for answer in answers(page):
        if fault := answer.fault():
            sys.exit(fault)


def answers(page: Path) -> Iterator[Answer]:
    """Run every block in the current folder, and give what its commands did."""
    text = page.read_text(encoding="utf-8")
    for source, target in LAID_OUT.findall(text):
        lay_out(source, Path(target))
    names: dict[str, object] = {"__name__": "page"}
    for block in BLOCK.finditer(text):
        if block[1] == "python":
            line = text.count("\n", 0, block.start(2))
            exec(compile("\n" * line + block[2], str(page), "exec"), names)
            continue
        for match in COMMAND.finditer(text, block.start(2), block.end(2)):
            code, output, errors = checkwise(shlex.split(match[1], comments=True))
            yield Answer(match[1], match[2], match.start(2), code, errors if code else output)


def prints(output: str, shown: str) -> bool:
    """Whether an output is what a page shows of it."""
    return re.fullmatch("".join(map(_pattern, _lines(shown))), "".join(_lines(output))) is not None


def _lines(text: str) -> list[str]:
    return [f"{line.rstrip()}\n" for line in text.rstrip("\n").split("\n")]


def _pattern(line: str) -> str:
    if line == "…\n":
        return r"(?:.*\n)+"
    begin, ellipsis, _ = line.rpartition("…\n")
    return re.escape(begin) + r".*\n" if ellipsis else re.escape(line)


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
