"""Outcomes and contrasts as data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from checkwise.study.outcome import Outcome, key_columns
from checkwise.study.paired import Contrast

if TYPE_CHECKING:
    import pandas


def choices(outcomes: Sequence[Outcome]) -> pandas.DataFrame:
    """One row per run: what was chosen, from source validation alone."""
    import pandas

    return pandas.DataFrame([_choice(outcome) for outcome in outcomes])


def evaluated(outcomes: Sequence[Outcome]) -> pandas.DataFrame:
    """One row per run and held-out domain."""
    import pandas

    return pandas.DataFrame(
        {
            **_choice(outcome),
            "target": domain,
            **{f"target_{name}": value for name, value in values.items()},
        }
        for outcome in outcomes
        for domain, values in outcome.targets.items()
    )


def compared(
    rows: Sequence[Contrast], by: Sequence[str], facts: Mapping[str, Any]
) -> pandas.DataFrame:
    """One row per contrast, after the columns it was split by; ``facts`` close every row."""
    import pandas

    return pandas.DataFrame(
        {
            **dict(zip(by, row.group, strict=True)),
            **{name: value for name, value in asdict(row).items() if name != "group"},
            **facts,
        }
        for row in rows
    )


def _choice(outcome: Outcome) -> dict[str, Any]:
    alone = len(outcome.steps) == 1
    return {
        **key_columns(outcome.key),
        "step": outcome.steps[0] if alone else None,
        **{f"source_{name}": value for name, value in outcome.source.items()},
        "gap_pp": outcome.gap_pp,
        "eligible": outcome.eligible,
        "score": outcome.score,
        "deployed": str(outcome.deployed),
        "temperature": 1.0 if outcome.calibration is None else outcome.calibration.mean,
        "in_sample": outcome.in_sample,
    }
