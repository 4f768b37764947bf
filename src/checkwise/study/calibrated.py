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
from checkwise.study.outputs import OutputsOf
from checkwise.weights.calibration import Calibration, calibrate
from checkwise.weights.logits import Logits, entries, mean_metrics

Metrics = Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Calibrated:
    """One run: the chosen step, how it was calibrated, and metrics before and after.

    ``places`` maps "source", "source, left out" and every held-out domain to metrics before and
    after. ``oracle`` maps held-out domains to the temperature fitted on them, which no one could
    deploy, and the metrics it gives. ``again`` says that logits were made from saved weights.
    """

    key: RunKey
    step: int
    calibration: Calibration
    places: Mapping[str, tuple[Metrics, Metrics]]
    oracle: Mapping[str, tuple[float, Metrics]]
    again: bool = False


def calibrate_run(
    folder: Path,
    rule: str,
    *,
    variant: str = "pooled",
    oracle: bool = False,
    outputs: OutputsOf | None = None,
    **params: Any,
) -> Calibrated:
    """Choose a checkpoint of a run, fit its temperature on source validation, and compare."""
    run = read_trajectory(folder)
    assert run.key is not None
    step = select(run, get_rule(rule), **params).step
    found = (outputs or OutputsOf())(folder, run.key, step)
    settings: dict[str, Any] = {"bins": run.bins or 15, "bandwidth": run.bandwidth or 0.1}
    fitted = calibrate(found.source, variant)
    before = _plain(found.source, settings)
    places = {"source": (before, _after(fitted, found.source, settings))}
    if len(found.source) > 1:
        places["source, left out"] = (before, _left_out(found.source, variant, settings))
    best: dict[str, tuple[float, Metrics]] = {}
    for domain, pair in found.held_out().items():
        held = {domain: pair}
        places[domain] = (_plain(held, settings), _after(fitted, held, settings))
        if oracle:
            limit = calibrate(held)
            best[domain] = (limit.mean, _after(limit, held, settings))
    return Calibrated(run.key, step, fitted, places, best, found.again)


def calibrate_all(
    path: Path, rule: str, *, roots: Mapping[str, str] | None = None, **options: Any
) -> tuple[Calibrated, ...]:
    """Every usable run of a cohort, or the one run of a folder.

    ``roots`` says where data lie, for runs that kept weights but no logits.
    """
    outputs = OutputsOf(roots)
    if (path / layout.RUN).is_file():
        if not finished(path):
            raise InputError(
                f"Expected a finished run, but {path} is still being trained: let it finish."
            )
        return (calibrate_run(path, rule, outputs=outputs, **options),)
    cohort = Cohort.open(path)
    if not cohort.usable:
        raise InputError(f"Expected at least one finished run in {path}, but got none: train it.")
    folders = [cohort.runs.folder(key) for key in cohort.usable]
    return tuple(calibrate_run(f, rule, outputs=outputs, **options) for f in folders)


def _plain(logits: Logits, settings: Mapping[str, Any]) -> Metrics:
    return mean_metrics(entries(logits, **settings).values())


def _after(calibration: Calibration, logits: Logits, settings: Mapping[str, Any]) -> Metrics:
    return mean_metrics(calibration.metrics(logits, **settings).values())


def _left_out(logits: Logits, variant: str, settings: Mapping[str, Any]) -> Metrics:
    """Each source domain under the calibration fitted on the others."""
    found: list[dict[str, Any]] = []
    for domain in logits:
        others = {name: pair for name, pair in logits.items() if name != domain}
        found.append(
            calibrate(others, variant).metrics({domain: logits[domain]}, **settings)[domain]
        )
    return mean_metrics(found)
