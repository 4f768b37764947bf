"""``write_report``: one self-contained file for a cohort or for a single run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.page import selection_page
from checkwise.records import Trajectory
from checkwise.selection import REFERENCE, Selection, Weights, select
from checkwise.store import RUN_FILE, latest_attempt, read_run, write_text, writing
from checkwise.study import Cohort
from checkwise.study.folder import is_cohort
from checkwise.study.report.cohort_page import cohort_page
from checkwise.study.report.facts import RULES, cohort_facts
from checkwise.study.report.page_data import cohort_data
from checkwise.study.report.stages import stage_facts


def write_report(
    source: Cohort | Trajectory | Selection | str | Path, out: str | Path, **asked: Any
) -> Path:
    """Write the page and return where it is.

    Args:
        source: a cohort, a run, the folder of either, or a selection from a run.
        out: the file to write; it appears whole or not at all.
        asked: for a cohort ``rules`` (the first leads), ``reference`` and ``stages`` (True shows
            choosing, averaging, calibrating and deploying side by side, if they were made with
            ``checkwise study derive``), for a run ``rule``; and parameters such as ``delta_pp``.
    """
    if isinstance(source, str | Path):
        source = _open(Path(source))
    if isinstance(source, Selection):
        page = selection_page(source, **asked)
    elif isinstance(source, Trajectory):
        page = selection_page(select(source, **asked))
    else:
        page = _cohort(source, **asked)
    out = Path(out)
    with writing(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_text(out, page)
    return out


def _cohort(
    cohort: Cohort,
    rules: Sequence[str] = RULES,
    reference: str = REFERENCE,
    *,
    stages: bool = False,
    weights: Weights = "equal",
    worst_domain: bool = False,
    **params: Any,
) -> str:
    domains: dict[str, Any] = {"weights": weights, "worst_domain": worst_domain}
    facts = cohort_facts(cohort, rules, reference, **domains, **params)
    data = cohort_data(cohort, facts, params, domains)
    return cohort_page(facts, data, stage_facts(cohort, reference=reference) if stages else ())


def _open(path: Path) -> Cohort | Trajectory:
    if is_cohort(path):
        return Cohort.open(path)
    if (latest_attempt(path) / RUN_FILE).is_file():
        return read_run(latest_attempt(path)).trajectory()
    raise InputError(
        f"Expected the folder of a study or of one of its runs, but {path} is neither: read logs "
        "and tables with checkwise.load and pass the trajectory.",
        code="unsupported",
    )
