"""What a rule or method gave on one run, and, once the study opens them, its held-out results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from checkwise.calibrators import Fitted
from checkwise.errors import InputError, MissingMetricError, naming_extras
from checkwise.metrics import METRICS
from checkwise.records import RunKey, Trajectory, outside
from checkwise.selection import Columns, Selection
from checkwise.study.folder import AGAIN

if TYPE_CHECKING:
    import pandas

FloatArray = NDArray[np.float64]
KEY_COLUMNS = ("dataset", "algorithm", "held_out", "hparams_seed", "trial_seed")


class RunColumns(dict[str, FloatArray]):
    """Columns by name; one that the runs lack, as imported logs may, is refused in a sentence."""

    def __missing__(self, name: str) -> FloatArray:
        raise MissingMetricError(
            f"Expected a metric that the runs carry, but got {name!r}. They carry "
            f"{', '.join(self)}."
        )


@dataclass(frozen=True)
class Outcome:
    """One rule or method on one run; metrics are fractions."""

    key: RunKey  # the run that rows are paired by
    # the chosen step, every feasible one for a mean over the feasible set, or the steps that were
    # averaged
    steps: tuple[int, ...]
    source: Mapping[str, float]  # metric → mean over source domains (and over ``steps``)
    gap_pp: float  # points of source accuracy below the best checkpoint
    eligible: int  # how many checkpoints the rule could have chosen
    score: float  # what the rule minimised; nan for a mean over the feasible set
    # held-out domain → metric → value. Empty unless evaluated.
    targets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # where the model comes from, if hyperparameters were chosen among several runs
    run: RunKey | None = None
    calibration: Fitted | None = None  # how its logits are calibrated, if they are
    in_sample: bool = False  # whether ``source`` is on the examples that something was fitted on
    seconds: float = float("nan")  # what the choice took, measured; nan if unknown
    # the choice itself, where it is one of this run's own checkpoints
    selection: Selection | None = field(default=None, repr=False, compare=False)

    @property
    def deployed(self) -> RunKey:
        """The run that the model comes from."""
        return self.run or self.key

    @property
    def target(self) -> dict[str, float]:
        """Means over the held-out domains of the metrics that all of them have."""
        domains = list(self.targets.values())
        if len(domains) == 1:
            return dict(domains[0])
        shared = [name for name in domains[0] if all(name in d for d in domains)] if domains else []
        return {name: float(np.mean([d[name] for d in domains])) for name in shared}

    @property
    def row(self) -> dict[str, float]:
        """Its numbers by name, fractions and means over domains; of several steps their mean."""
        return {
            "gap_pp": self.gap_pp,
            "eligible": self.eligible,
            "step": sum(self.steps) / len(self.steps) if self.steps else float("nan"),
            **{f"source_{name}": value for name, value in self.source.items()},
            **{f"target_{name}": value for name, value in self.target.items()},
        }


def columns_over(outcomes: Mapping[RunKey, Outcome], keys: Sequence[RunKey]) -> RunColumns:
    """The rows of outcomes over some runs, in their order; nan for a run without an outcome."""
    return as_columns([outcomes[key].row if key in outcomes else {} for key in keys])


def as_columns(rows: Sequence[Mapping[str, Any]]) -> RunColumns:
    """One column per name over the rows; nan where a row has none."""
    names = dict.fromkeys(name for row in rows for name in row)
    return RunColumns(
        {
            column: np.array([row.get(column, np.nan) for row in rows], dtype=np.float64)
            for column in names
        }
    )


def outcome_at(key: RunKey, run: Trajectory, steps: tuple[int, ...], columns: Columns) -> Outcome:
    rows = np.searchsorted(run.steps, steps)
    metrics = [name for name in run.metrics if name in columns]
    return Outcome(
        key=key,
        steps=steps,
        source={name: mean_of(columns[name][rows]) for name in metrics},
        gap_pp=mean_of(columns["gap_pp"][rows]),
        eligible=0,
        score=float("nan"),
        run=run.key if run.key is not None and run.key != key else None,
    )


def mean_of(values: NDArray[Any]) -> float:
    """The mean; a single value is just read."""
    return float(values[0] if len(values) == 1 else values.mean(dtype=np.float64))


def entry_metrics(entry: Mapping[str, Any], path: Path) -> dict[str, float]:
    """The metrics of one entry of a derived result; nan where the model diverged."""
    diverged = bool(entry.get("diverged"))
    known = [name for name in METRICS if name in entry]
    for name in () if diverged else known:
        value = entry[name]
        if type(value) not in (int, float) or outside(np.array(value, float), name):
            raise InputError(
                f"Expected a possible value of {name}, but got {value!r:.40} in {path}: {AGAIN}.",
                code="damaged",
            )
    return {name: float("nan") if diverged else float(entry[name]) for name in known}


def timed(outcomes: tuple[Outcome, ...], seconds: float) -> tuple[Outcome, ...]:
    """Outcomes that together took ``seconds``, each with its share on top of what it has."""
    share = seconds / max(len(outcomes), 1)
    return tuple(
        replace(o, seconds=share if np.isnan(o.seconds) else o.seconds + share) for o in outcomes
    )


def key_columns(key: RunKey) -> dict[str, Any]:
    return {**key.as_dict(), "held_out": "+".join(key.held_out)}


def key_labels(keys: Iterable[RunKey], by: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(str(key_columns(key)[name]) for name in by) for key in keys]


@naming_extras()
def choice_frame(outcomes: Iterable[Outcome]) -> pandas.DataFrame:
    """One row per run: what was chosen, from source validation alone."""
    import pandas

    return pandas.DataFrame([_choice(outcome) for outcome in outcomes])


@naming_extras()
def evaluated_frame(outcomes: Iterable[Outcome]) -> pandas.DataFrame:
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


def _choice(outcome: Outcome) -> dict[str, Any]:
    return {
        **key_columns(outcome.key),
        "step": outcome.steps[0] if len(outcome.steps) == 1 else None,
        **{f"source_{name}": value for name, value in outcome.source.items()},
        "gap_pp": outcome.gap_pp,
        "eligible": outcome.eligible,
        "score": outcome.score,
        "deployed": str(outcome.deployed),
        "temperature": 1.0 if outcome.calibration is None else outcome.calibration.temperature,
        "in_sample": outcome.in_sample,
    }
