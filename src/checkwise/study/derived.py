"""Results that methods left beside the runs, as outcomes that pair with those of rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.records import RunKey, Trajectory
from checkwise.selection import Columns
from checkwise.store import layout
from checkwise.study.baselines import (
    SOURCE,
    Derived,
    digest_of,
    folder_of,
    read_record,
    read_source,
)
from checkwise.study.lodo import Scope, families
from checkwise.study.outcome import Outcome, entry_metrics


def derived_outcomes(
    path: Path, usable: Mapping[RunKey, Trajectory], method: str, *, scope: Scope = "run"
) -> tuple[Outcome, ...]:
    """The source side of a method's results, for the runs that it was applied to.

    In the scope ``hparams-acc`` only the one of highest source accuracy in every family.
    """
    outcomes = []
    for key, run in usable.items():
        record = read_record(path, method, key)
        if record is not None:
            _check_current(path, record)
            outcomes.append(_outcome(path, run, record, key))
    if not outcomes:
        raise InputError(
            f"Expected results of {method} beside the runs of {path}, but there are none: "
            f"`checkwise study derive {path} --method {method}` makes them.",
            code="missing",
        )
    if scope == "run":
        return tuple(outcomes)
    return _best_of_families(outcomes, families(usable), method, scope)


def _best_of_families(
    outcomes: list[Outcome], members: Mapping[RunKey, list[RunKey]], method: str, scope: Scope
) -> tuple[Outcome, ...]:
    if scope != "hparams-acc":
        raise InputError(
            f"Expected a rule in the scope {scope}, but {method} makes one model per run, with no "
            "checkpoints to rank: use the scope hparams-acc.",
            code="unsupported",
        )
    by_key = {outcome.key: outcome for outcome in outcomes}
    best = []
    for key, runs in members.items():
        present = [by_key[run] for run in runs if run in by_key]
        if present:
            winner = max(present, key=lambda outcome: outcome.source["accuracy"])
            best.append(replace(winner, key=key, run=winner.key))
    return tuple(best)


def _check_current(path: Path, record: Derived) -> None:
    """Refuse a result that was made from other records than its runs have now."""
    if not record.files:
        raise InputError(
            f"Expected checksums of what {record.method} wrote for {record.run}, but an earlier "
            f"version of checkwise wrote none: `checkwise study derive {path} --method "
            f"{record.method}` makes it again.",
            code="damaged",
        )
    digests, members = record.inputs.get(layout.SOURCE_FILE, []), record.inputs.get("members", [])
    if isinstance(digests, str):
        digests, members = [digests], [str(record.run)]
    if digests and not _fit(digests, members):
        raise InputError(
            f"Expected the runs that {record.method} was made from, but got {members!r:.80} for "
            f"{record.run}: `checkwise study derive {path} --method {record.method} --force` makes "
            "it again.",
            code="differs",
        )
    for member, digest in zip(members if digests else [], digests, strict=True):
        if digest != digest_of(path, f"{layout.RUNS_FOLDER}/{member}/{layout.SOURCE_FILE}"):
            raise InputError(
                f"Expected {record.method} to be made from the records of {member}, but they have "
                f"changed: `checkwise study derive {path} --method {record.method}` makes it "
                "again.",
                code="differs",
            )


def _fit(digests: Any, members: Any) -> bool:
    """Whether there is one digest for every run that went into a result."""
    lists = isinstance(digests, list) and isinstance(members, list)
    return lists and len(digests) == len(members) and all(isinstance(m, str) for m in members)


def _outcome(path: Path, run: Trajectory, record: Derived, key: RunKey) -> Outcome:
    entry, place = read_source(path, record.method, key), folder_of(path, record.method, key)
    domains = [
        entry_metrics({**metrics, "diverged": entry["diverged"]}, place / SOURCE)
        for metrics in entry["domains"].values()
    ]
    source = {name: float(np.mean([d[name] for d in domains])) for name in domains[0]}
    best = float(np.nanmax(Columns.of(run)["accuracy"]))
    steps = tuple(record.inputs.get("steps", ()))
    return Outcome(
        key=key,
        steps=steps,
        source=source,
        gap_pp=100 * (best - source["accuracy"]),
        eligible=len(steps),
        score=float("nan"),
        seconds=record.seconds,
    )
