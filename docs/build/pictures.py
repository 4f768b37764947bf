"""Draw the pictures of the README and of the pages from a demo cohort.

    python docs/build/pictures.py out/demo

Writes images/trajectory.svg (one run), images/report.png (the page in a browser) and
demo-report.html (the page itself).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from checkwise.page import write_report
from checkwise.page.facts import cohort_facts
from checkwise.page.picture import trajectory_picture
from checkwise.study import Cohort

DOCS = Path(__file__).parents[1]
TRAJECTORY, PICTURE, PAGE = (
    DOCS / "images" / "trajectory.svg",
    DOCS / "images" / "report.png",
    DOCS / "demo-report.html",
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=5000",  # until the page's script has drawn
)
SMALL = 330_000  # bytes of numbers: the page in the repository stays below 600 kB


def trajectory(cohort: Cohort) -> str:
    """The run with the median feasible set: no result decided which one is shown."""
    return trajectory_picture(cohort_facts(cohort).example)


def photograph(page: Path, picture: Path, size: str = "1000,1960") -> None:
    """What a browser shows of a page."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Expected Chromium for the picture of the page, but `chromium` is not installed.")
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                chromium,
                *FLAGS,
                f"--user-data-dir={profile}",
                f"--window-size={size}",
                f"--screenshot={picture}",
                page.resolve().as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )


def main(path: str) -> None:
    cohort = Cohort.open(path)
    TRAJECTORY.parent.mkdir(exist_ok=True)
    TRAJECTORY.write_text(trajectory(cohort), "utf-8")
    write_report(cohort, PAGE, budget=SMALL)
    photograph(PAGE, PICTURE)


if __name__ == "__main__":
    main(sys.argv[1])
