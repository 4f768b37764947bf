"""``checkwise calibrate``: calibrate the chosen checkpoint, and say what that changes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from checkwise.calibrators.calibrator import SCHEMA
from checkwise.calibrators.examples import Logits
from checkwise.calibrators.registry import DEFAULT, calibrators, get_calibrator
from checkwise.cli import printing
from checkwise.cli.input_options import InputOptions
from checkwise.cli.json_output import print_json
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import AsJson, Data
from checkwise.cli.rule_options import RuleName, RuleOptions
from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.readers import predictions_folder
from checkwise.readers.live_journal import journal_at
from checkwise.records.examples import groups_of
from checkwise.selection import Selection, select
from checkwise.selection.calibrated import done, folds, trust
from checkwise.store.atomic_write import write_text
from checkwise.text import number

if TYPE_CHECKING:
    from checkwise.study.recalibration import Calibrated

SHOWN = 5
WHERE = {
    "source": "source, fitted on these",
    "source, cross-fitted": "source, fitted on other folds",
    "source, left out": "source, fitted on the other domains",
    "held out": "held-out domains",
    "oracle": "held-out, fitted on these: not deployable",
}


@with_groups
def command(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A run, a cohort, or a predictions folder.")
    ],
    rule: RuleName = None,
    calibrator: Annotated[
        str, typer.Option(help=f"One of {', '.join(calibrators())} (see docs/calibrate.md).")
    ] = DEFAULT,
    *,
    options: RuleOptions,
    inputs: InputOptions,
    force: Annotated[
        bool, typer.Option("--force", help="Apply it even with too few validation errors.")
    ] = False,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Also fit on the target itself: not deployable.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output", "-o", help="Also write what was fitted, as .json."),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Calibrate the chosen checkpoint on source validation; show every metric before and after.

    The default, ts-soften, fits one temperature and never makes predictions more confident. Other
    calibrators change nothing where validation has fewer than 20 errors, unless --force is given.

    Needs runs trained with logits = "source" or "all" (held-out domains are shown with "all"), or
    the weights of the chosen checkpoint and the data, from which logits are then made again. Of a
    predictions folder, and of a journal with predictions, only the validation sets are read.
    """
    from checkwise.study.imported import importable
    from checkwise.study.recalibration import calibrate_all, calibrate_selection
    from checkwise.sweep.datasets import read_roots

    options.load_plugins()
    printing.refuse_to_overwrite(path, out)
    if out is not None and out.suffix != ".json":
        raise InputError(f"Expected --out to end in .json, but got {str(out)!r}.")
    get_calibrator(calibrator)
    choosing = {**options.weighting, **options.params}
    how: dict[str, Any] = {"calibrator": calibrator, "force": force}
    calibrated: tuple[Calibrated, ...]
    if predictions_folder.recognises(path) or journal_at(path) is not None:
        if oracle:
            raise InputError(
                f"Expected --oracle with a run or cohort, but {path} is a predictions folder or a "
                "journal, of which held-out domains are not read: leave it out.",
                code="held-out",
            )
        (run,) = inputs.load_runs(path, rule, options).values()
        selection = select(run, rule, **choosing)
        source = _source(path, selection)
        how["groups"] = groups_of(run)
        calibrated = (calibrate_selection(selection, source, name=str(path), **how),)
    else:
        inputs.expect_run(path)
        if importable(path):
            raise InputError(
                f"Expected logits to fit a calibrator to, but {path} holds metrics alone: save the "
                "logits of the checkpoints with `checkwise predict`, and calibrate that folder.",
                code="missing",
            )
        roots = read_roots(data or ())
        how["oracle"] = oracle
        calibrated = calibrate_all(path, rule, roots=roots, how=how, **choosing)
    if out is not None:
        write_text(out, json.dumps(fitted(calibrated), indent=2, allow_nan=False) + "\n")
    if as_json:
        print_json("calibrate", record(calibrated))
        return
    _present(calibrated)
    if out is not None:
        printing.console().print(f"What was fitted is in {out}.")


def _source(path: Path, selection: Selection) -> Logits:
    """The source-validation logits of the choice, as a predictions folder or a journal has them."""
    run = selection.trajectory
    if predictions_folder.recognises(path):
        return predictions_folder.logits_at(path, selection.step, run.domains)
    if run.examples is None or not run.examples.has_logits:
        raise InputError(
            f"Expected the predictions of the choice, but {path} has none: train with "
            "predictions=True, or evaluate the checkpoints with `checkwise predict`.",
            code="missing",
        )
    return run.examples.logits(selection.step)


def fitted(calibrated: Sequence[Calibrated]) -> dict[str, Any]:
    """What is needed to apply the calibration and to know what it rests on."""
    if len(calibrated) == 1:
        return calibrated[0].choice.record(calibrated[0].selection, calibrated[0].name)
    runs = [run.choice.record(run.selection, run.name) for run in calibrated]
    return {"schema": SCHEMA, "runs": runs}


def record(calibrated: Sequence[Calibrated]) -> dict[str, Any]:
    """The stable JSON."""
    rules = list(dict.fromkeys(run.selection.rule for run in calibrated))
    return {
        "schema": SCHEMA,
        "rule": ",".join(rules),
        "runs": [
            {
                "run": run.selection.run and run.selection.run.as_dict(),
                "path": run.name,
                "step": run.selection.step,
                "calibrator": run.calibration.name,
                "params": run.calibration.params,
                "temperature": run.calibration.temperature,
                "state": run.calibration.state,
                "conditions": list(run.calibration.conditions),
                "n": run.calibration.n,
                "errors": run.calibration.errors,
                "forced": run.calibration.forced,
                "cross_fitted_change": run.change.as_dict(),
                "from_weights": run.again,
                "notes": [run.closed] if run.closed else [],
                "places": {
                    place: {
                        "before": dict(before),
                        "after": dict(after),
                        "fitted_on_these": place == "source",
                    }
                    for place, (before, after) in run.places.items()
                },
                "oracle": {
                    domain: {"temperature": t, "after": dict(after), "deployable": False}
                    for domain, (t, after) in run.oracle.items()
                },
            }
            for run in calibrated
        ],
    }


def _present(calibrated: Sequence[Calibrated]) -> None:
    out = printing.console()
    rule = " or ".join(dict.fromkeys(run.selection.rule for run in calibrated))
    places = _places(calibrated)
    rows = [
        (place if number == 0 else "", name, *_cells(name, pairs))
        for place, pairs in places.items()
        for number, name in enumerate(METRICS)
        if all(name in before for before, _ in pairs)
    ]
    out.print(
        printing.table(
            ("on", "metric", "before", "after", "change"), rows, left=("on", "metric", "change")
        )
    )
    out.print()
    for sentence in _one(calibrated[0]) if len(calibrated) == 1 else _many(calibrated, rule):
        out.print(sentence)
    out.print(
        "Accuracy and calibration errors are ×100, and means over domains. What was fitted on the "
        "same examples flatters a calibrator."
    )
    if WHERE["held out"] not in places and calibrated[0].closed:
        out.print(calibrated[0].closed)


def _one(run: Calibrated) -> list[str]:
    """What was chosen and fitted, how far to trust it, and what to expect on other examples."""
    calibration, chosen = run.calibration, run.selection
    who = "the guard" if chosen.guard_acted else chosen.rule
    return [
        f"{run.name}: {who} chose step {chosen.step}. {done(calibration)}",
        *trust(calibration, run.change),
    ]


def _many(calibrated: Sequence[Calibrated], rule: str) -> list[str]:
    """The states of all runs, and the conditions of some."""
    name = calibrated[0].calibration.name
    states = Counter(run.calibration.state for run in calibrated)
    values = sorted(t for run in calibrated if (t := run.calibration.temperature) is not None)
    span = ""
    if values:
        middle = values[len(values) // 2]
        span = f": T from {values[0]:.3f} to {values[-1]:.3f}, median {middle:.3f}"
    falls = sum(run.change.mean < 0 for run in calibrated)
    mean = sum(run.change.mean for run in calibrated) / len(calibrated)
    notes = [f"{run.name}: {one}" for run in calibrated for one in run.calibration.conditions]
    more = len(notes) - SHOWN
    return [
        f"{len(calibrated)} runs, {rule}, {name}{span}.",
        f"States: {', '.join(f'{count} {state}' for state, count in states.items())}.",
        f"On examples it was not fitted on ({folds(calibrated[0].change)}), the NLL changes by "
        f"{number(mean, 4, signed=True)} in the mean; it falls in {falls} of {len(calibrated)} "
        "runs (--json has an interval for each).",
        *notes[:SHOWN],
        *([f"… and {more} more conditions (--json has all)"] if more > 0 else []),
    ]


def _places(calibrated: Sequence[Calibrated]) -> dict[str, list[tuple[Any, Any]]]:
    """Pairs of metrics before and after, by column; held-out domains of all runs together."""
    columns: dict[str, list[tuple[Any, Any]]] = {}
    for run in calibrated:
        for place, pair in run.places.items():
            columns.setdefault(WHERE.get(place, WHERE["held out"]), []).append(pair)
        for domain, (_, after) in run.oracle.items():
            columns.setdefault(WHERE["oracle"], []).append((run.places[domain][0], after))
    return columns


def _cells(name: str, pairs: Sequence[tuple[Any, Any]]) -> tuple[str, str, str]:
    scale, higher = METRICS[name].scale, METRICS[name].direction == "higher"
    before = scale * sum(b[name] for b, _ in pairs) / len(pairs)
    after = scale * sum(a[name] for _, a in pairs) / len(pairs)
    gains = [a[name] - b[name] if higher else b[name] - a[name] for b, a in pairs]
    return f"{before:.4f}", f"{after:.4f}", _change(gains)


def _change(gains: Sequence[float]) -> str:
    """Better, worse or neither; of several runs or domains in how many.

    >>> _change([0.1]), _change([0.0]), _change([0.1, 0.0, -0.1]), _change([0.0, 0.0])
    ('better', 'none', 'better in 1 of 3, none in 1', 'none')
    """
    better, same = sum(gain > 0 for gain in gains), sum(gain == 0 for gain in gains)
    if same == len(gains):
        return "none"
    if len(gains) == 1:
        return "better" if better else "worse"
    return f"better in {better} of {len(gains)}{f', none in {same}' if same else ''}"
