"""What trackers are told of a selection: the metrics of every checkpoint, and the choice.

`checkwise select` reads ``checkwise/<domain>/<metric>`` again from what a tracker kept, and chooses
by the settings in the name of ``checkwise/settings/…``.
"""

from __future__ import annotations

from typing import Any, Final

from checkwise.records import Trajectory
from checkwise.selection.result import Selection
from checkwise.selection.set_as import settings_name

PREFIX: Final = "checkwise"
STEP: Final = f"{PREFIX}/step"  # where a tracker counts its own calls


def measured(run: Trajectory, row: int) -> dict[str, float]:
    """``<domain>/<metric>`` of one checkpoint and its counts; nothing of one that diverged."""
    if run.diverged[row]:
        return {}
    metrics = {
        f"{domain}/{metric}": float(values[row, column])
        for metric, values in run.values.items()
        for column, domain in enumerate(run.domains)
    }
    counts = () if run.counts is None else zip(run.domains, run.counts.tolist(), strict=True)
    return {**metrics, **{f"{domain}/n": float(n) for domain, n in counts}}


def history(selection: Selection) -> dict[int, dict[str, float]]:
    """Step → its metrics, and whether it is feasible and chosen, as 1 or 0; and the settings."""
    run = selection.trajectory
    settings = settings_name(selection.settings)
    return {
        step: {
            settings: 1.0,
            **{f"{PREFIX}/{name}": value for name, value in measured(run, row).items()},
            f"{PREFIX}/feasible": float(selection.ranking.eligible[row]),
            f"{PREFIX}/chosen": float(row == selection.index),
        }
        for row, step in enumerate(run.steps.tolist())
    }


def choice(selection: Selection) -> dict[str, Any]:
    """The choice in a few facts, under the names of a summary."""
    facts = {
        "choice": selection.step,
        "rule": selection.rule,
        "score": selection.score,
        "accuracy": selection.accuracy,
        "gap_pp": selection.gap_pp,
        "path": selection.path,
    }
    return {f"{PREFIX}/{name}": value for name, value in facts.items() if value is not None}


def as_markdown(selection: Selection) -> str:
    """Why this checkpoint, and the ranked table."""
    table = selection.table
    rows = [table.columns.tolist(), ["---"] * len(table.columns), *table.values.tolist()]
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join([selection.explain(), "", *lines])


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")
