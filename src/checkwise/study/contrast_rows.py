"""The rows of a comparison: contrasts split by columns of the run key, as records and frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from checkwise.errors import InputError, naming_extras
from checkwise.statistics import LEVEL, RESAMPLES, SEED
from checkwise.study.compare import Contrast, Differences, by_units, contrasts
from checkwise.study.outcome import KEY_COLUMNS, key_labels

if TYPE_CHECKING:
    import pandas


def check_columns(by: Sequence[str]) -> None:
    """Refuse to split by anything but columns of the run key."""
    if isinstance(by, str) or any(name not in KEY_COLUMNS for name in by):
        raise InputError(
            f"Expected `by` to list columns among {', '.join(KEY_COLUMNS)}, but got {by!r}.",
            code="unknown",
        )


def contrasts_by(
    table: Differences,
    by: Sequence[str] = (),
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[Contrast]:
    """One contrast per metric for every combination of the columns ``by``, with all units."""
    labels = key_labels(table.keys, by)
    rows: list[Contrast] = []
    for group in sorted(set(labels)):
        part = table.among(np.array([label == group for label in labels]))
        over_runs = contrasts(part, group=group, level=level, resamples=resamples, seed=seed)
        rows += by_units(part, over_runs, level)
    return rows


@naming_extras()
def compared_frame(
    rows: Sequence[Contrast], by: Sequence[str], facts: Mapping[str, Any]
) -> pandas.DataFrame:
    """One row per contrast, after the columns it was split by; ``facts`` close every row."""
    import pandas

    return pandas.DataFrame(
        {**dict(zip(by, row.group, strict=True)), **flat(record(row)), **facts} for row in rows
    )


def record(row: Contrast) -> dict[str, Any]:
    """The facts of a contrast by name; ``seed_groups``, ``_low`` and ``_high`` are by block."""
    facts = {name: value for name, value in asdict(row).items() if name != "group"}
    units = facts.pop("units")
    block = units.get("block", {"groups": 0, "low": float("nan"), "high": float("nan")})
    seeds = {f"seed_{name}": block[name] for name in ("groups", "low", "high")}
    return {**facts, **seeds, "units": units}


def flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A record for one row of a table: ``draw_low`` for the lower end by draw, and so on.

    ``place_low`` and ``place_high`` are of the mean over places.
    """
    units = {
        f"{unit}_{name}": value
        for unit, interval in facts["units"].items()
        for name, value in interval.items()
    }
    places = {
        name if name == "places" else f"place_{name}": value
        for name, value in (facts.get("places") or {}).items()
    }
    nested = ("units", "places", "over_runs")
    plain = {name: value for name, value in facts.items() if name not in nested}
    runs = facts.get("over_runs") or (facts["low"], facts["high"])
    return {**plain, **units, **places, "run_low": runs[0], "run_high": runs[1]}
