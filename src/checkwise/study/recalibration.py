"""Before and after: a chosen checkpoint, its source-fitted temperature, and what that changes.

Three kinds of "after" on the source side are kept apart. ``fitted`` is on the very examples the
temperature was fitted on. ``left out`` refits it for every source domain on the other ones, and
measures on that domain. The held-out domains are measured with the temperature that would be
deployed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.calibrators.source_temperatures import (
    FROM_PREDICTIONS,
    Calibration,
    Logits,
    calibrate,
    entries,
)
from checkwise.calibrators.temperature import fit_temperature, scaled
from checkwise.errors import InputError
from checkwise.selection import Selection, select
from checkwise.store import layout
from checkwise.store.done import finished
from checkwise.store.logits import mean_metrics
from checkwise.store.run import read_trajectory
from checkwise.study.cohort import Cohort
from checkwise.study.heldout import OutputsOf

Metrics = Mapping[str, float]
HALVES = 20261116  # seed of the halves of a single validation set


@dataclass(frozen=True, eq=False)
class Calibrated:
    """One run: the selection, how its checkpoint was calibrated, and metrics before and after.

    ``places`` maps "source", "source, left out" (or "source, other half" of a single domain) and
    every held-out domain to metrics before and after. ``oracle`` maps held-out domains to the
    temperature fitted on them, which no one could deploy, and the metrics it gives. ``again`` says
    that logits were made from saved weights. ``sizes`` has examples and errors of every source
    domain, ``digest`` is that of their logits and labels. ``closed`` says why no held-out domain is
    among the places.
    """

    name: str
    selection: Selection
    calibration: Calibration
    places: Mapping[str, tuple[Metrics, Metrics]]
    oracle: Mapping[str, tuple[float, Metrics]]
    sizes: Mapping[str, tuple[int, int]]
    digest: str
    again: bool = False
    closed: str = ""


def calibrate_selection(
    selection: Selection,
    source: Logits,
    *,
    name: str,
    variant: str = "pooled",
    oracle: bool = False,
    held_out: Callable[[], Logits] = dict,
    again: bool = False,
    closed: str = "",
) -> Calibrated:
    """Fit a temperature for a chosen checkpoint on its source-validation logits, and compare.

    ``held_out`` is called once, to see what the temperature does elsewhere.
    """
    run = selection.trajectory
    settings = run.metric_settings
    fitted = calibrate(source, variant)
    before = _plain(source, settings)
    places = {"source": (before, _after(fitted, source, settings))}
    if len(source) > 1:
        places["source, left out"] = (before, _left_out(source, variant, settings))
    elif variant == "pooled" and fitted.n > 1:
        places["source, other half"] = (before, _other_half(source, settings))
    best: dict[str, tuple[float, Metrics]] = {}
    for domain, pair in held_out().items():
        held = {domain: pair}
        places[domain] = (_plain(held, settings), _after(fitted, held, settings))
        if oracle:
            limit = calibrate(held)
            best[domain] = (limit.mean, _after(limit, held, settings))
    sizes = {d: (len(y), int((z.argmax(axis=1) != y).sum())) for d, (z, y) in source.items()}
    return Calibrated(name, selection, fitted, places, best, sizes, _digest(source), again, closed)


def calibrate_run(
    folder: Path,
    rule: str | None,
    *,
    outputs: OutputsOf | None = None,
    variant: str = "pooled",
    oracle: bool = False,
    **params: Any,
) -> Calibrated:
    """Choose a checkpoint of a run that checkwise trained, and calibrate it."""
    run = read_trajectory(folder)
    assert run.key is not None
    selection = select(run, rule, **params)
    checkpoint = (outputs or OutputsOf())(folder, run.key, selection.step)
    return calibrate_selection(
        selection,
        checkpoint.source,
        name=str(run.key),
        variant=variant,
        oracle=oracle,
        held_out=checkpoint.held_out,
        again=checkpoint.again,
        closed=checkpoint.closed,
    )


def calibrate_all(
    path: Path, rule: str | None, *, roots: Mapping[str, str] | None = None, **options: Any
) -> tuple[Calibrated, ...]:
    """Every usable run of a cohort, or the one run of a folder.

    ``roots`` says where data lie, for runs that kept weights but no logits.
    """
    outputs = OutputsOf(roots)
    if (path / layout.RUN).is_file():
        if not finished(path):
            raise InputError(
                f"Expected a finished run, but {path} is still being trained: wait for it."
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
    by_domain: list[dict[str, Any]] = []
    for domain in logits:
        others = {name: pair for name, pair in logits.items() if name != domain}
        fitted = calibrate(others, variant)
        by_domain.append(fitted.metrics({domain: logits[domain]}, **settings)[domain])
    return mean_metrics(by_domain)


def _other_half(logits: Logits, settings: Mapping[str, Any]) -> Metrics:
    """A single domain: each half of its examples under the temperature fitted on the other."""
    ((domain, (z, y)),) = logits.items()
    first = np.random.default_rng(HALVES).permutation(len(y)) < len(y) // 2
    values = np.asarray(z, dtype=np.float64).copy()
    for half in (first, ~first):
        values[half] = scaled(z[half], fit_temperature(z[~half], y[~half]).value)
    rescaled: Any = {domain: (values, y)}
    after = entries(rescaled, **settings)[domain]
    plain = entries(logits, **settings)[domain]
    return mean_metrics([{**after, **{name: plain[name] for name in FROM_PREDICTIONS}}])


def _digest(logits: Logits) -> str:
    """SHA-256 of the logits and labels of every domain."""
    sha = hashlib.sha256()
    for domain in sorted(logits):
        for array in logits[domain]:
            values = np.ascontiguousarray(array)
            sha.update(f"{domain}\0{values.dtype}{values.shape}".encode() + values.tobytes())
    return sha.hexdigest()
