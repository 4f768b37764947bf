"""``write_report``: one self-contained file for a cohort or for a single run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.page import BUDGET, explored, payload, selection_page
from checkwise.records import Trajectory
from checkwise.selection import REFERENCE, Selection, select
from checkwise.statistics import LEVEL
from checkwise.store import layout, read_run, write_text, writing
from checkwise.study import Cohort
from checkwise.study.folder import is_cohort
from checkwise.study.report.cohort_page import cohort_page
from checkwise.study.report.facts import RULES, CohortFacts, cohort_facts
from checkwise.study.report.stages import stage_facts


def write_report(
    source: Cohort | Trajectory | Selection | str | Path,
    out: str | Path,
    *,
    budget: int = BUDGET,
    **asked: Any,
) -> Path:
    """Write the page and return where it is.

    Args:
        source: a cohort, a run, the folder of either, or a selection from a run.
        out: the file to write; it appears whole or not at all.
        budget: bytes of numbers in the page; where metrics of every domain do not fit, the less
            used ones are kept as means over domains.
        asked: for a cohort ``rules`` (the first leads), ``reference`` and ``stages`` (True shows
            choosing, averaging, calibrating and deploying side by side, if they were made with
            ``checkwise study derive``), for a run ``rule``; and parameters such as ``delta_pp``.
    """
    if isinstance(source, Selection) and asked:
        raise InputError(
            f"Expected nothing beside a selection, but got {', '.join(asked)}: pass the "
            "run instead.",
            code="unsupported",
        )
    if isinstance(source, str | Path):
        source = _open(Path(source))
    if isinstance(source, Selection):
        page = selection_page(source)
    elif isinstance(source, Trajectory):
        page = selection_page(select(source, **asked))
    else:
        page = _cohort(source, budget=budget, **asked)
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
    budget: int,
    **params: Any,
) -> str:
    facts = cohort_facts(cohort, rules, reference, **params)
    data = _page_data(cohort, facts, budget)
    return cohort_page(facts, data, stage_facts(cohort, reference=reference) if stages else ())


def _page_data(cohort: Cohort, facts: CohortFacts, budget: int) -> dict[str, Any]:
    """What the script starts from; rules that it cannot compute bring the choices of the report."""
    keys = sorted(cohort.usable)
    runs = {str(key): cohort.usable[key] for key in keys}
    targets = [cohort.target_at(key, cohort.usable[key].steps.tolist()) for key in keys]
    by_rule = {name: [chosen[key] for key in keys] for name, chosen in facts.chosen.items()}
    first = keys.index(facts.example_key)
    data = payload(runs, targets, budget=budget)
    return {
        **explored(data, by_rule, facts.rules[0], facts.reference, first),
        "quantiles": quantiles(len(keys)),
    }


def quantiles(runs: int) -> list[float]:
    """Of Student's t at the level of the intervals: with 1, 2, … degrees of freedom."""
    from scipy.special import stdtrit

    return [float(stdtrit(df, (1 + LEVEL) / 2)) for df in range(1, runs)]


def _open(path: Path) -> Cohort | Trajectory:
    if is_cohort(path):
        return Cohort.open(path)
    if (layout.latest(path) / layout.RUN_FILE).is_file():
        return read_run(layout.latest(path)).trajectory()
    raise InputError(
        f"Expected the folder of a study or of one of its runs, but {path} is neither: read logs "
        "and tables with checkwise.load and pass the trajectory.",
        code="unsupported",
    )
