"""The page in a real browser: drawn, silent, and asking nobody for anything."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from checkwise.report import write_report
from tests.requirements import requires
from tests.study.cohorts import demo_like

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
)
# What the browser itself asks for has no page behind it.
BROWSERS_OWN = "not an origin"

needs_chromium = requires("chromium", CHROMIUM is not None, "chromium is not installed")


@dataclass(frozen=True)
class Visit:
    console: list[str]
    requests: list[str]
    picture: bytes


def visit(page: Path, folder: Path, width: int = 1100) -> Visit:
    """Open a page and note what it says on the console and asks of the network."""
    assert CHROMIUM is not None
    picture, log = folder / f"{page.stem}.png", folder / f"{page.stem}.json"
    done = subprocess.run(
        [
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={folder / 'profile'}",
            f"--log-net-log={log}",
            f"--window-size={width},1600",
            f"--screenshot={picture}",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    events = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    return Visit(
        console=[line for line in done.stderr.splitlines() if ":CONSOLE" in line],
        requests=[e["url"] for e in events if e.get("initiator", BROWSERS_OWN) != BROWSERS_OWN],
        picture=picture.read_bytes(),
    )


@needs_chromium
@pytest.mark.parametrize("width", [1100, 500])
def test_a_cohorts_page_is_drawn_without_errors_or_requests(tmp_path: Path, width: int) -> None:
    folder = demo_like(tmp_path / "cohort", runs_per_algorithm=2)
    seen = visit(write_report(folder, tmp_path / "report.html"), tmp_path, width)
    assert seen.console == []
    assert seen.requests == []
    assert len(seen.picture) > 20_000


@needs_chromium
def test_a_runs_page_is_drawn_without_errors_or_requests(tmp_path: Path) -> None:
    folder = demo_like(tmp_path / "cohort", runs_per_algorithm=1)
    run = next(iter(sorted((folder / "runs").iterdir())))
    seen = visit(write_report(run, tmp_path / "run.html"), tmp_path)
    assert seen.console == []
    assert seen.requests == []


@needs_chromium
def test_a_page_that_misbehaves_would_be_noticed(tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<script>console.error('boom')</script><img src='http://127.0.0.1:9/x.png'>")
    seen = visit(bad, tmp_path)
    assert "boom" in seen.console[0]
    assert seen.requests == ["http://127.0.0.1:9/x.png"]
