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
            **flat(record(row)),
            **facts,
        }
        for row in rows
    )


def record(row: Contrast) -> dict[str, Any]:
    """The facts of a contrast by name; ``seed_groups``, ``_low`` and ``_high`` are by block."""
    facts = {name: value for name, value in asdict(row).items() if name != "group"}
    units = facts.pop("units")
    block = units.get("block", {"groups": 0, "low": float("nan"), "high": float("nan")})
    seeds = {f"seed_{name}": block[name] for name in ("groups", "low", "high")}
    return {**facts, **seeds, "units": units}


def flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A record for one row of a table: ``draw_low`` for the lower end by draw, and so on."""
    units = {
        f"{unit}_{name}": value
        for unit, found in facts["units"].items()
        for name, value in found.items()
    }
    return {**{name: value for name, value in facts.items() if name != "units"}, **units}


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
