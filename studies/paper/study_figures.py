"""Draw the overview figures of study/claims.md.

    python -m studies.paper.study_figures [COHORT NAME=PATH]

Those of all 540 runs come from packed journals, and ``make pages`` draws them. What they show is
kept beside them in numbers, so that a test can tell when a picture is out of date. Cases of single
images need the runs of pacs-erm or pacs-full with their weights, and the images: a folder and
``PACS=PATH``. ``cohort_figures.py`` draws single cohorts, ``process_figure.py`` one choice.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from checkwise.study import Cohort, Pool
from checkwise.study.figures import (
    algorithm_changes,
    distance_points,
    rank_agreements,
    write_figures,
)
from checkwise.study.sweep import read_roots
from studies.page import DOCS
from studies.paper.cohort_facts import plain
from studies.paper.packed import packed_cohorts
from studies.paper.tables import COHORTS

IMAGES = DOCS / "study" / "images"
PAPERS_RUN = "OfficeHome-VREx-Art-h0-t0"  # the one that the paper shows
OVER_RUNS: dict[str, Callable[[Pool], Any]] = {
    "distance": distance_points,
    "algorithms": algorithm_changes,
    "kendall": rank_agreements,
}
FACTS = IMAGES / "overview.json"
# Cohort → picture → run, the first of its domain. The image of the cartoons' run bears a watermark
# and is not shown.
CASES = {
    "pacs-erm": {
        "case-art_painting": "PACS-ERM-art_painting-h0-t0",
        "case-sketch": "PACS-ERM-sketch-h0-t0",
    },
    "pacs-full": {"case-all-layers": "PACS-ERM-art_painting-h1-t555660795"},
}
PREDICTIONS = ("confident-errors", "shared-errors")


def over_runs() -> None:
    """The paper's overview figures on the runs of its design."""
    with packed_cohorts(COHORTS) as cohorts, tempfile.TemporaryDirectory() as folder:
        pool = Pool(list(cohorts.values()))
        _draw(pool, tuple(OVER_RUNS), folder, "overview")
        _draw(pool, ("trajectory",), folder, "overview", PAPERS_RUN)
        FACTS.write_text(json.dumps(overview(pool), indent=1) + "\n")


def overview(pool: Pool) -> dict[str, Any]:
    """What the overview figures show, as plain values."""
    return {name: plain(facts(pool)) for name, facts in OVER_RUNS.items()}


def cases(path: str, data: str) -> None:
    """One image of a few runs, and all predictions of the first run of pacs-erm."""
    cohort = Cohort.open(path)
    pool = Pool([cohort])
    with tempfile.TemporaryDirectory() as folder:
        for prefix, run in CASES[cohort.name].items():
            _draw(pool, ("occlusion",), folder, prefix, run, data)
            if prefix == next(iter(CASES["pacs-erm"])):
                _draw(pool, PREDICTIONS, folder, "case", run, data)


def _draw(
    pool: Pool, only: Sequence[str], folder: str, prefix: str, run: str = "", *data: str
) -> None:
    """Draw into an empty folder and keep the pictures."""
    out = Path(folder) / prefix
    key = next((key for key in pool.keys if str(key) == run), None)
    for name, _ in write_figures(pool, out, only=only, run=key, roots=read_roots(data)):
        print(name)
    for picture in out.glob("*.png"):
        with Image.open(picture) as image:  # fewer colours would change the maps
            image.convert("RGB").save(IMAGES / f"{prefix}-{picture.name}", optimize=True)
        picture.unlink()


if __name__ == "__main__":
    over_runs()
    if sys.argv[1:]:
        cases(*sys.argv[1:])
