"""Results that methods left beside the runs, as outcomes that pair with those of rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.records import RunKey, Trajectory
from checkwise.selection.columns import Columns
from checkwise.store import heldout, layout
from checkwise.study.outcome import Outcome
from checkwise.study.scopes import blocks
from checkwise.weights.derived import (
    Derived,
    digest_of,
    folder_of,
    heldout_path,
    read_record,
    read_source,
)

_COMMANDS = {"swad": "checkwise swad {path}"}


def derived_outcomes(
    path: Path, usable: Mapping[RunKey, Trajectory], method: str, *, scope: str = "run"
) -> tuple[Outcome, ...]:
    """The source side of a method's results, for the runs that it was applied to.

    In the scope ``hparams-acc`` only the one of highest source accuracy in every block.
    """
    found = []
    for key, run in usable.items():
        record = read_record(path, method, key)
        if record is not None:
            _check_current(path, record)
            found.append(_outcome(path, run, record, key))
    if not found:
        command = _COMMANDS.get(method, f"checkwise derive {{path}} --method {method}")
        raise InputError(
            f"Expected results of {method} beside the runs of {path}, but there are none: "
            f"`{command.format(path=path)}` makes them."
        )
    return tuple(found) if scope == "run" else _best(found, blocks(usable), method, scope)


def _best(
    found: list[Outcome], members: Mapping[RunKey, list[RunKey]], method: str, scope: str
) -> tuple[Outcome, ...]:
    if scope != "hparams-acc":
        raise InputError(
            f"Expected a rule in the scope {scope}, but {method} makes one model per run, with no "
            "checkpoints to rank: use the scope hparams-acc."
        )
    by_key = {outcome.key: outcome for outcome in found}
    best = []
    for key, runs in members.items():
        present = [by_key[run] for run in runs if run in by_key]
        if present:
            winner = max(present, key=lambda outcome: outcome.source["accuracy"])
            best.append(replace(winner, key=key, run=winner.key))
    return tuple(best)


def with_targets(path: Path, method: str, outcome: Outcome) -> Outcome:
    """The outcome with the method's held-out results."""
    folder = folder_of(path, method, outcome.deployed)
    targets = {
        domain: _metrics(heldout.read_entry(heldout_path(folder, domain)))
        for domain in outcome.key.held_out
    }
    return replace(outcome, targets=targets)


def _check_current(path: Path, record: Derived) -> None:
    """Refuse a result that was made from other records than its runs have now."""
    noted = record.inputs.get(layout.SOURCE)
    if noted is None:
        return
    one = isinstance(noted, str)
    members = [str(record.run)] if one else record.inputs["members"]
    for member, digest in zip(members, [noted] if one else noted, strict=True):
        if digest != digest_of(path, f"{layout.RUNS}/{member}/{layout.SOURCE}"):
            raise InputError(
                f"Expected {record.method} to be made from the records of {member}, but they have "
                f"changed: `checkwise derive {path} --method {record.method}` makes it again."
            )


def _outcome(path: Path, run: Trajectory, record: Derived, key: RunKey) -> Outcome:
    entry = read_source(path, record.method, key)
    domains = [_metrics({**e, "diverged": entry["diverged"]}) for e in entry["domains"].values()]
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


def _metrics(entry: Mapping[str, Any]) -> dict[str, float]:
    lost = bool(entry.get("diverged"))
    return {name: float("nan") if lost else float(entry[name]) for name in METRICS if name in entry}
