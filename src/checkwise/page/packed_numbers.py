"""The numbers that the page computes with: exact where a rule reads them, packed to be small.

What a rule reads is kept bit for bit: right answers as whole numbers, metrics as float64. Where all
metrics of all domains would make a page too large, the less used ones are kept as the equal means
over domains, which serve every rule but not other weights.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics import METRICS, metric_title
from checkwise.records import RunKey, Trajectory
from checkwise.selection import RANDOM_SEED, Columns, Directions, draw, is_loss, known_direction

FloatArray = NDArray[np.float64]

BUDGET = 4_200_000  # bytes before packing; a page of 540 runs stays below 6 MB
MAIN = ("accuracy", "nll", "ece", "cwece")


@dataclass(frozen=True)
class Plan:
    """Which metrics are kept in which detail."""

    by_domain: frozenset[str]
    held_out: tuple[str, ...]


@dataclass
class _Packed:
    """Arrays one after the other, and the short lists that runs share."""

    floats: list[FloatArray] = field(default_factory=list)
    whole: list[NDArray[np.int64]] = field(default_factory=list)
    shared: dict[str, list[Any]] = field(
        default_factory=lambda: {"steps": [], "domains": [], "counts": [], "columns": []}
    )
    places: dict[str, int] = field(default_factory=dict)

    def index(self, kind: str, value: Any) -> int:
        known = self.shared[kind]
        name = f"{kind} {value!r}"
        if name not in self.places:
            self.places[name] = len(known)
            known.append(value)
        return self.places[name]


def payload(
    runs: Mapping[str, Trajectory],
    held_out: Sequence[Mapping[str, FloatArray]] = (),
    *,
    budget: int = BUDGET,
    directions: Directions | None = None,
) -> dict[str, Any]:
    """Everything ``runs.js`` unpacks.

    Args:
        runs: name → run, in the order in which the page lists them.
        held_out: for each run metric → value at every step, the mean over its held-out domains.
        budget: bytes that the numbers may take.
        directions: of scores that are no registered metrics, where their names do not say it.
    """
    plan = plan_for(list(runs.values()), held_out, budget)
    packed = _Packed()
    entries = [_entry(name, run, plan, packed) for name, run in runs.items()]
    whole = np.concatenate(packed.whole) if packed.whole else np.zeros(0, dtype=np.int64)
    kind = _smallest(whole)
    names = list(dict.fromkeys(name for run in runs.values() for name in run.metrics))
    return {
        "schema": 1,
        "metrics": [
            metric_facts(name, directions) for name in dict.fromkeys((*names, *plan.held_out))
        ],
        "runs": entries,
        **packed.shared,
        "floats": _text(packed.floats, "<f8"),
        "kind": kind,
        "whole": _text([whole], f"<{kind}"),
        "held": {
            "metrics": list(plan.held_out),
            "values": _text([run[name] for run in held_out for name in plan.held_out], "<f8"),
        }
        if held_out
        else None,
    }


def plan_for(
    runs: Sequence[Trajectory], held_out: Sequence[Mapping[str, FloatArray]], budget: int
) -> Plan:
    """The most detail that fits; the least is one mean per metric."""
    every = frozenset(name for run in runs for name in run.metrics)
    measured = tuple(name for name in METRICS if held_out and all(name in h for h in held_out))
    first = tuple(name for name in measured if name in MAIN)
    plans = (
        Plan(every, measured),
        Plan(every & set(MAIN), measured),
        Plan(every & set(MAIN), first),
        Plan(frozenset(), first),
    )
    return next((plan for plan in plans if _size(plan, runs) <= budget), plans[-1])


def _size(plan: Plan, runs: Sequence[Trajectory]) -> int:
    total = 0
    for run in runs:
        cells = len(run) * len(run.domains)
        detailed = sum(name in plan.by_domain for name in run.values if name != "accuracy")
        means = len(run.metrics) - 1 - detailed
        total += 2 * cells + 8 * (detailed * cells + (means + len(plan.held_out)) * len(run))
    return total


def _entry(name: str, run: Trajectory, plan: Plan, packed: _Packed) -> dict[str, Any]:
    means = Columns.of(run)
    by_domain = [m for m in run.values if m in plan.by_domain and m != "accuracy"]
    pooled = [m for m in run.metrics if m not in by_domain and m != "accuracy"]
    exact = run.correct is not None
    if not exact:
        by_domain.append("accuracy")
    packed.floats += [run.values[m].ravel() for m in by_domain]
    packed.floats += [means[m] for m in pooled]
    if run.correct is not None:
        packed.whole.append(run.correct.ravel())
    return {
        "name": name,
        "key": key_facts(run.key),
        "steps": packed.index("steps", run.steps.tolist()),
        "domains": packed.index("domains", list(run.domains)),
        "counts": None if run.counts is None else packed.index("counts", run.counts.tolist()),
        "columns": packed.index("columns", {"values": by_domain, "pooled": pooled}),
        "exact": exact,
        "diverged": np.flatnonzero(run.diverged).tolist(),
        "endsEarly": run.ends_early,
        "beginsLate": run.begins_late,
        "evaluated": run.evaluated,
        "loss": is_loss(run),
        "draw": f"{draw(RANDOM_SEED, run.identity):x}",
    }


def key_facts(key: RunKey | None) -> dict[str, Any] | None:
    """What the page splits and sorts runs by."""
    if key is None:
        return None
    return {
        "dataset": key.dataset,
        "algorithm": key.algorithm,
        "held_out": " + ".join(key.held_out),
        "hparams_seed": key.hparams_seed,
        "trial_seed": key.trial_seed,
    }


def metric_facts(name: str, directions: Directions | None = None) -> dict[str, Any]:
    """How a metric is called, shown and compared; ``unknown``: nobody said which way is better."""
    known = METRICS.get(name)
    direction = known_direction(name, directions)
    return {
        "name": name,
        "title": metric_title(name),
        "higher": direction == "higher",
        "scale": known.scale if known else 1,
        "decimals": known.decimals if known else 3,
        "percent": known is not None and known.in_percent,
        **({} if direction else {"unknown": True}),
    }


def _smallest(whole: NDArray[np.int64]) -> str:
    """The type that holds these numbers exactly in the fewest bytes."""
    largest = int(whole.max(initial=0))
    return "u2" if largest < 2**16 else "u4" if largest < 2**32 else "f8"


def _text(arrays: Sequence[NDArray[Any]], kind: str) -> str:
    """Little-endian numbers in base64: first all their first bytes, then the second, deflated.

    Exponents vary little, so planes of equal bytes compress where whole numbers do not.
    """
    joined = (np.concatenate(arrays) if arrays else np.zeros(0)).astype(kind)
    planes = joined.view(np.uint8).reshape(len(joined), joined.itemsize).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode()
