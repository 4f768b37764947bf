"""Write what commands print into the pages that show it.

    python -m docs.build.outputs [PAGE…]

Run by ``make pages``; ``tests/docs`` checks that the commands print what a page shows. Of a long
ranking the first rows are shown, of a long line the beginning, and refusals as they are.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.docs.run_page import REFUSAL, answers

DOCS = Path(__file__).parents[1]
PAGES = (DOCS.parent / "README.md", DOCS / "logs.md", DOCS / "select.md")
ROWS = 3
WIDTH = 110
RANKING = "rank "


def rewritten(page: Path) -> str:
    """The page with the outputs that its commands have when they are run in an empty folder."""
    page, before = page.absolute(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            shown = [answer for answer in answers(page) if answer.shown]
        finally:
            os.chdir(before)
    text = page.read_text(encoding="utf-8")
    for answer in reversed(shown):
        if not answer.ended_as_shown:
            raise SystemExit(answer.fault())
        end = answer.start + len(answer.shown)
        text = f"{text[: answer.start]}{shortened(answer.output)}{text[end:]}"
    return text


def shortened(output: str) -> str:
    """An output as pages show it."""
    lines = [line.rstrip() for line in output.rstrip("\n").split("\n")]
    return "".join(f"{_begin(line)}\n" for line in _first_rows(lines))


def _first_rows(lines: list[str]) -> Iterator[str]:
    """Without the rows of a ranking beyond the first few."""
    rows: int | None = None  # of the ranking that the line is in
    for line in lines:
        if line.startswith(RANKING):
            rows = 0
        elif rows is not None and line[: len(RANKING)].strip().isdigit():
            rows += 1
            if rows > ROWS:
                if rows == ROWS + 1:
                    yield "…"
                continue
        else:
            rows = None
        yield line


def _begin(line: str) -> str:
    if len(line) <= WIDTH or line.startswith(REFUSAL):
        return line
    return f"{line[: WIDTH - 2].rsplit(' ', 1)[0]} …"


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:] or PAGES):
        page.write_text(rewritten(page), encoding="utf-8")
