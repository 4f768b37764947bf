"""The page of a run, and showing a page in the reader's browser."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

from checkwise.cli import printing
from checkwise.selection import Selection


def write_page(selection: Selection, page: Path | None, *, opened: bool) -> list[str]:
    """Write the page of one run, to a temporary file where none is named, and show it if asked."""
    from checkwise.study.report import write_report

    place = page or Path(tempfile.mkdtemp(prefix="checkwise-")) / "report.html"
    write_report(selection, place)
    if opened:
        show(place)
        return []
    return [f"The page is {place.resolve()}"]


def show(page: Path) -> None:
    """Open a page; where there is no browser, say where it is."""
    opened = webbrowser.open(page.resolve().as_uri())
    said = "The page is" if opened else "There is no browser here. Open this page elsewhere:"
    printing.console(stderr=True).print(f"{said} {page.resolve()}")
