"""Showing a page in the reader's browser."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkwise.cli import printing
from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.selection import Selection


def show_run(
    chosen: Mapping[RunKey, Selection], rule: str | None, asked: Mapping[str, Any]
) -> None:
    """Write the page of the only run to a temporary file, and show it."""
    from checkwise.page import write_report

    if len(chosen) != 1:
        raise InputError(
            f"Expected one run for --open, but there are {len(chosen)}: give the folder of one, or "
            "write a page about all with `checkwise report`.",
            code="ambiguous",
        )
    (selection,) = chosen.values()
    page = Path(tempfile.mkdtemp(prefix="checkwise-")) / "report.html"
    write_report(selection.trajectory, page, rule=rule, **asked)
    show(page)


def show(page: Path) -> None:
    """Open a page; where there is no browser, say where it is."""
    opened = webbrowser.open(page.resolve().as_uri())
    said = "The page is" if opened else "There is no browser here. Open this page elsewhere:"
    printing.console(stderr=True).print(f"{said} {page.resolve()}")
