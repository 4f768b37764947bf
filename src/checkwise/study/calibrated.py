"""Before and after: a chosen checkpoint, its source-fitted temperature, and what that changes.

Three kinds of "after" on the source side are kept apart. ``fitted`` is on the very examples the
temperature was fitted on. ``left out`` refits it for every source domain on the other ones, and
measures on that domain. The held-out domains are measured with the temperature that would be
deployed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.selection import get_rule, select
from checkwise.store import layout
from checkwise.store.run import finished, read_trajectory
from checkwise.study.cohort import Cohort
from checkwise.study.targets import Targets
from checkwise.weights.calibration import Calibration, calibrate
from checkwise.weights.logits import Logits, entries, mean_metrics, source_logits

Metrics = Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Calibrated:
    """One run: the chosen step, how it was calibrated, and metrics before and after.

    ``places`` maps "source", "source, left out" and every held-out domain to metrics before and
    after. ``oracle`` maps held-out domains to the temperature fitted on them, which no one could
    deploy, and the metrics it gives.
    """

    key: RunKey
    step: int
    calibration: Calibration
    places: Mapping[str, tuple[Metrics, Metrics]]
    oracle: Mapping[str, tuple[float, Metrics]]


def calibrate_run(
    folder: Path, rule: str, *, variant: str = "pooled", oracle: bool = False, **params: Any
) -> Calibrated:
    """Choose a checkpoint of a run, fit its temperature on source validation, and compare."""
    folder = Path(folder)
    run = read_trajectory(folder)
    assert run.key is not None
    step = select(run, get_rule(rule), **params).step
    logits = source_logits(folder, step)
    settings: dict[str, Any] = {"bins": run.bins or 15, "bandwidth": run.bandwidth or 0.1}
    fitted = calibrate(logits, variant)
    before = mean_metrics(entries(logits, **settings).values())
    places: dict[str, tuple[Metrics, Metrics]] = {
        "source": (before, mean_metrics(fitted.metrics(logits, **settings).values()))
    }
    if len(logits) > 1:
        places["source, left out"] = (before, _left_out(logits, variant, settings))
    found: dict[str, tuple[float, Metrics]] = {}
    targets = Targets(folder, run.key.held_out)
    if (folder / layout.PREDICTIONS / "heldout").is_dir():
        for domain in run.key.held_out:
            held = targets.logits(domain, step)
            plain = mean_metrics(entries(held, **settings).values())
            places[domain] = (plain, mean_metrics(fitted.metrics(held, **settings).values()))
            if oracle:
                best = calibrate(held)
                scaled = mean_metrics(best.metrics(held, **settings).values())
                found[domain] = (best.mean, scaled)
    return Calibrated(run.key, step, fitted, places, found)


def calibrate_all(path: Path, rule: str, **options: Any) -> tuple[Calibrated, ...]:
    """Every usable run of a cohort, or the one run of a folder."""
    if (Path(path) / layout.RUN).is_file():
        if not finished(Path(path)):
            raise InputError(
                f"Expected a finished run, but {path} is still being trained: let it finish."
            )
        return (calibrate_run(Path(path), rule, **options),)
    cohort = Cohort.open(path)
    if not cohort.usable:
        raise InputError(f"Expected at least one finished run in {path}, but got none: train it.")
    return tuple(calibrate_run(cohort.runs.folder(k), rule, **options) for k in cohort.usable)


def _left_out(logits: Logits, variant: str, settings: Mapping[str, Any]) -> Metrics:
    """Each source domain under the calibration fitted on the others."""
    found: list[dict[str, Any]] = []
    for domain in logits:
        others = {name: pair for name, pair in logits.items() if name != domain}
        found.append(
            calibrate(others, variant).metrics({domain: logits[domain]}, **settings)[domain]
        )
    return mean_metrics(found)
