"""Make the pictures of the README and of the pages from a demo cohort.

    python -m docs.build.pictures out/demo

Writes demo-report.html (the page), images/report.png (the page in a browser) and
images/trajectory.png (one run, as the page draws it).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from checkwise.study import Cohort
from checkwise.study.report import write_report

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "demo-report.html"
PICTURE, TRAJECTORY = DOCS / "images" / "report.png", DOCS / "images" / "trajectory.png"
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


def browse(page: Path, *asked: str) -> str:
    """What Chromium prints about a page."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Expected Chromium for pictures of the page, but `chromium` is not installed.")
    with tempfile.TemporaryDirectory() as profile:
        command = [chromium, *FLAGS, f"--user-data-dir={profile}", *asked, page.resolve().as_uri()]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return done.stdout


def photograph(page: Path, picture: Path, *, width: int, height: int, sharpness: int = 1) -> None:
    """What a browser shows of a page."""
    browse(
        page,
        f"--window-size={width},{height}",
        f"--force-device-scale-factor={sharpness}",
        f"--screenshot={picture}",
    )


def only_drawing(page: Path) -> str:
    """The drawing that the page's script makes of a run, alone on a page of the same style.

    It is the median run of those where the rules differ: no held-out result decided which.
    """
    drawn = browse(page, "--dump-dom")
    style = drawn[drawn.index("<style>") : drawn.index("</style>")]
    start = drawn.index(">", drawn.index('id="figure"')) + 1
    figure = drawn[start : drawn.index("</svg></div>", start)]
    return f"<!doctype html>{style}</style><main>{figure}</svg></main>"


def main(path: str) -> None:
    PICTURE.parent.mkdir(exist_ok=True)
    write_report(Cohort.open(path), PAGE, stages=True)
    photograph(PAGE, PICTURE, width=1000, height=1960)
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder) / "trajectory.html"
        alone.write_text(only_drawing(PAGE), "utf-8")
        photograph(alone, TRAJECTORY, width=900, height=660, sharpness=2)


if __name__ == "__main__":
    main(sys.argv[1])
