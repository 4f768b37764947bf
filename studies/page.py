"""Parts of a page that a script writes: between ``<!-- name -->`` and ``<!-- /name -->``.

Such a part is on lines of its own, and each name marks one part of a page. What is written into
tables the same way on several pages is here, too.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

from checkwise.words import number

DOCS = Path(__file__).parents[1] / "docs"
NUMBER = re.compile(r"<!--([^ >][^>]*)-->(.*?)<!---->")
DATA = Path(__file__).parent / "data"  # packed cohorts, kept outcomes, what the paper prints


def fill(page: Path, name: str, content: str) -> None:
    """Replace one part of a page; everything else stays as it is, byte for byte."""
    before, _, after = _parts(page, name)
    begin, end = _marks(name)
    page.write_bytes(f"{before}{begin}\n{content}\n{end}{after}".encode())


def part(page: Path, name: str) -> str:
    """What one part of a page holds."""
    return _parts(page, name)[1].strip("\n")


def csv_of(text: str) -> str:
    """The Markdown table in a text as CSV, without marks; lines beside the table are left out."""
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line[:1] == "|"]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for line in (lines[0], *lines[2:]):
        writer.writerow(re.sub(r"[`*\\]", "", cell).strip() for cell in line)
    return file.getvalue()


def numbered(text: str, said: Callable[[str], str]) -> str:
    """A text with every number anew that follows its key: ``<!--key-->number<!---->``."""
    return NUMBER.sub(lambda found: f"<!--{found[1]}-->{said(found[1])}<!---->", text)


def markdown(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table, with a newline at its end."""
    lines = [header, ("---",) * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def interval(mean: float, low: float, high: float, decimals: int, *, signed: bool = True) -> str:
    """A mean with the ends of its interval; a change has its sign."""
    middle, *ends = (number(float(one), decimals, signed=signed) for one in (mean, low, high))
    return f"{middle} [{', '.join(ends)}]"


def _parts(page: Path, name: str) -> tuple[str, str, str]:
    text = page.read_bytes().decode()
    begin, end = _marks(name)
    before, _, rest = text.partition(begin)
    inside, _, after = rest.partition(end)
    if text.count(begin) != 1 or text.count(end) != 1 or end in before:
        raise SystemExit(f"Expected {begin} and then {end} once in {page}: mark the part to fill.")
    return before, inside, after


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->", f"<!-- /{name} -->"
