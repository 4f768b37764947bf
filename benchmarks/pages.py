"""The page of 5,000 runs, beside that of 540: is it as quick a run?"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.rows import Row, show
from benchmarks.study import DATASETS, make_cohort
from checkwise.study.report import write_report

FEW, MANY = 540, 5_000


def per_run(folder: Path, seeds: int) -> tuple[int, float]:
    """The number of runs, and processor seconds of the page for each."""
    path = make_cohort(folder / f"cohort-{seeds}", dict.fromkeys(DATASETS, "evaluation"), seeds)
    runs = len(list((path / "runs").iterdir()))
    start = time.process_time()
    write_report(path, folder / "report.html")
    return runs, (time.process_time() - start) / runs


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        per_run(folder, 1)  # imports everything
        few, first = per_run(folder, 3)
        many, later = per_run(folder, 28)
        _, again = per_run(folder / "again", 3)
    assert (few, many) == (FEW, 5_040)
    show(
        [
            Row(
                f"the page of {many:,} runs, per run",
                f"that of {few} runs, per run",
                later / min(first, again),
                1.2,
            )
        ]
    )


if __name__ == "__main__":
    main()
