"""Before and after: a chosen checkpoint, its calibrator, and what that changes.

Kinds of "after" on the source side are kept apart. ``source`` is on the very examples that the
calibrator was fitted on. ``source, cross-fitted`` calibrates every example with a fit to other
folds of the same domains, ``source, left out`` every domain with a fit to the other domains. The
held-out domains are measured with what would be deployed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from checkwise.calibrators.calibrator import Calibrator, Fitted, entries_after
from checkwise.calibrators.cross_fit import Change, cross_fitted, mean_change
from checkwise.calibrators.examples import (
    Groups,
    Logits,
    count_errors,
    entries,
    nll_of,
    together,
)
from checkwise.calibrators.refined import REFINED_METRICS
from checkwise.calibrators.registry import DEFAULT, get_calibrator
from checkwise.calibrators.ts import TS_LIMIT
from checkwise.errors import InputError
from checkwise.records.refined import with_refined
from checkwise.selection import Selection, select
from checkwise.selection.calibrated import CalibratedChoice, logits_digest
from checkwise.store import layout
from checkwise.store.attempts import latest
from checkwise.store.done import finished
from checkwise.store.logits import mean_metrics, source_groups, source_logits
from checkwise.store.run import read_trajectory
from checkwise.study.cohort import Cohort
from checkwise.study.heldout import OutputsOf

Metrics = Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Calibrated:
    """One run: the selection, how its checkpoint was calibrated, and metrics before and after.

    ``places`` maps "source", "source, cross-fitted", "source, left out" (with several source
    domains) and every held-out domain to metrics before and after. ``change`` is the cross-fitted
    change of the NLL. ``oracle`` maps held-out domains to the temperature fitted on them, which no
    one could deploy, and the metrics it gives. ``again`` says that logits were made from saved
    weights. ``sizes`` has examples and errors of every source domain, ``digest`` is that of their
    logits and labels. ``closed`` says why no held-out domain is among the places.
    """

    name: str
    selection: Selection
    calibration: Fitted
    change: Change
    places: Mapping[str, tuple[Metrics, Metrics]]
    oracle: Mapping[str, tuple[float, Metrics]]
    sizes: Mapping[str, tuple[int, int]]
    digest: str
    again: bool = False
    closed: str = ""

    @property
    def choice(self) -> CalibratedChoice:
        """The calibrator, and what it rests on."""
        return CalibratedChoice(self.calibration, self.change, self.sizes, self.digest)


def calibrate_selection(
    selection: Selection,
    source: Logits,
    *,
    name: str,
    groups: Groups | None = None,
    calibrator: str | Calibrator = DEFAULT,
    force: bool = False,
    oracle: bool = False,
    held_out: Callable[[], Logits] = dict,
    again: bool = False,
    closed: str = "",
) -> Calibrated:
    """Fit a calibrator for a chosen checkpoint on its source-validation logits, and compare.

    ``groups`` are the independent units of the examples: whole groups are in one fold, and the
    interval resamples them. ``held_out`` is called once, to see what the calibrator does elsewhere.
    """
    settings = selection.trajectory.metric_settings
    known = get_calibrator(calibrator)
    fitted = known.fit(source, force=force)
    before = _plain(source, settings)
    crossed: Any = cross_fitted(source, known, force=force, groups=groups)
    places = {
        "source": (before, _after(fitted, source, settings)),
        "source, cross-fitted": (
            before,
            mean_metrics(entries_after(source, crossed, known, **settings).values()),
        ),
    }
    if len(source) > 1:
        places["source, left out"] = (before, _left_out(source, fitted, settings))
    best: dict[str, tuple[float, Metrics]] = {}
    for domain, pair in held_out().items():
        held = {domain: pair}
        places[domain] = (_plain(held, settings), _after(fitted, held, settings))
        if oracle:
            limit = TS_LIMIT.fit(held, force=True)
            assert limit.temperature is not None
            best[domain] = (limit.temperature, _after(limit, held, settings))
    z, y = together(source)
    return Calibrated(
        name=name,
        selection=selection,
        calibration=fitted,
        change=mean_change(nll_of(together(crossed)[0], y) - nll_of(z, y), groups),
        places=places,
        oracle=best,
        sizes={domain: (len(y), count_errors(z, y)) for domain, (z, y) in source.items()},
        digest=logits_digest(source),
        again=again,
        closed=closed,
    )


def calibrate_run(
    folder: Path,
    rule: str | None,
    *,
    outputs: OutputsOf | None = None,
    how: Mapping[str, Any],
    **params: Any,
) -> Calibrated:
    """Choose a checkpoint of a run that checkwise trained, and calibrate it.

    ``how`` has the options of :func:`calibrate_selection`, ``params`` those of the rule.
    """
    run = read_trajectory(folder)
    if set(params.get("objectives", ())) & set(REFINED_METRICS):
        groups = source_groups(folder, int(run.steps[0]))
        run = with_refined(run, partial(source_logits, folder), groups=groups)
    assert run.key is not None
    selection = select(run, rule, guard=False, **params)
    checkpoint = (outputs or OutputsOf())(folder, run.key, selection.step)
    return calibrate_selection(
        selection,
        checkpoint.source,
        name=str(run.key),
        groups=checkpoint.groups,
        held_out=checkpoint.held_out,
        again=checkpoint.again,
        closed=checkpoint.closed,
        **how,
    )


def calibrate_all(
    path: Path,
    rule: str | None,
    *,
    roots: Mapping[str, str] | None = None,
    how: Mapping[str, Any],
    **params: Any,
) -> tuple[Calibrated, ...]:
    """Every usable run of a cohort, or the one run of a folder.

    ``roots`` says where data lie, for runs that kept weights but no logits.
    """
    outputs = OutputsOf(roots)
    if (latest(path) / layout.RUN).is_file():
        if not finished(path):
            raise InputError(
                f"Expected a finished run, but {path} is still being trained: wait for it.",
                code="busy",
            )
        return (calibrate_run(path, rule, outputs=outputs, how=how, **params),)
    cohort = Cohort.open(path)
    if not cohort.usable:
        raise InputError(
            f"Expected at least one finished run in {path}, but got none: train it.", code="empty"
        )
    folders = [cohort.runs.folder(key) for key in cohort.usable]
    return tuple(calibrate_run(f, rule, outputs=outputs, how=how, **params) for f in folders)


def _plain(logits: Logits, settings: Mapping[str, Any]) -> Metrics:
    return mean_metrics(entries(logits, **settings).values())


def _after(fitted: Fitted, logits: Logits, settings: Mapping[str, Any]) -> Metrics:
    return mean_metrics(fitted.metrics(logits, **settings).values())


def _left_out(logits: Logits, fitted: Fitted, settings: Mapping[str, Any]) -> Metrics:
    """Each source domain under the calibrator fitted on the others.

    What was refused on all domains changes nothing; what was not is fitted on each part of them.
    """
    by_domain: list[dict[str, Any]] = []
    for domain, pair in logits.items():
        others = {name: other for name, other in logits.items() if name != domain}
        refused = fitted.params is None
        part = fitted if refused else fitted.calibrator.fit(others, force=True)
        by_domain.append(part.metrics({domain: pair}, **settings)[domain])
    return mean_metrics(by_domain)
