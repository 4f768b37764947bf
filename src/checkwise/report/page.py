"""``write_report``: one self-contained file for a cohort or for a single run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.records import Trajectory
from checkwise.report.cohort_page import cohort_page
from checkwise.report.facts import cohort_facts
from checkwise.report.run_facts import run_facts
from checkwise.report.run_page import run_page
from checkwise.store.atomic import write_text
from checkwise.store.cohort import is_cohort
from checkwise.store.faults import writing
from checkwise.store.layout import RUN
from checkwise.store.run import read_trajectory
from checkwise.study import Cohort


def write_report(source: Cohort | Trajectory | str | Path, out: str | Path, **asked: Any) -> Path:
    """Write the page and return where it is.

    Args:
        source: a cohort, a run, or the folder of either.
        out: the file to write; it appears whole or not at all.
        asked: for a cohort ``rules`` (the first leads) and ``reference``, for a run ``rule``; and
            parameters of the rules such as ``delta_pp``.
    """
    if isinstance(source, str | Path):
        source = _open(Path(source))
    if isinstance(source, Trajectory):
        page = run_page(run_facts(source, **asked))
    else:
        page = cohort_page(cohort_facts(source, **asked))
    out = Path(out)
    with writing(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_text(out, page)
    return out


def _open(path: Path) -> Cohort | Trajectory:
    if is_cohort(path):
        return Cohort.open(path)
    if (path / RUN).is_file():
        return read_trajectory(path)
    raise InputError(
        f"Expected the folder of a cohort or of one of its runs, but {path} is neither: read logs "
        "and tables with checkwise.load and pass the trajectory."
    )
