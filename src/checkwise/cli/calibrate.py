"""``checkwise calibrate``: scale the logits of the chosen checkpoint, and say what that changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from checkwise import __version__
from checkwise.cli import printing
from checkwise.cli.input_options import InputOptions
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import AsJson, Data
from checkwise.cli.rule_options import RuleName, RuleOptions
from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.readers import predictions_folder
from checkwise.selection import select
from checkwise.selection.record import plain
from checkwise.store.atomic_write import write_text

if TYPE_CHECKING:
    from checkwise.study.recalibration import Calibrated

SCHEMA = 1
SHOWN = 5
WHERE = {
    "source": "source, fitted on these",
    "source, left out": "source, fitted on the other domains",
    "source, other half": "source, fitted on the other half",
    "held out": "held-out domains",
    "oracle": "held-out, fitted on these: not deployable",
}


@with_groups
def command(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A run, a cohort, or a predictions folder.")
    ],
    rule: RuleName = None,
    variant: Annotated[
        str, typer.Option(help="pooled, per-domain or weighted (see docs/baselines.md).")
    ] = "pooled",
    *,
    options: RuleOptions,
    inputs: InputOptions,
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
    """Fit a temperature on source validation and show every metric before and after it.

    Needs runs trained with logits = "source" or "all" (held-out domains are shown with "all"), or
    the weights of the chosen checkpoint and the data, from which logits are then made again. Of a
    predictions folder only the validation sets are read.
    """
    from checkwise.study.recalibration import calibrate_all, calibrate_selection
    from checkwise.sweep.datasets import read_roots

    options.load_plugins()
    printing.refuse_to_overwrite(path, out)
    if out is not None and out.suffix != ".json":
        raise InputError(f"Expected --out to end in .json, but got {str(out)!r}.")
    choosing = {**options.weighting, **options.params}
    calibrated: tuple[Calibrated, ...]
    if predictions_folder.recognises(path):
        if oracle:
            raise InputError(
                f"Expected --oracle with a run or cohort, but {path} is a predictions folder, of "
                "which held-out domains are not read: leave it out."
            )
        (run,) = inputs.load_runs(path, rule, options).values()
        selection = select(run, rule, **choosing)
        source = predictions_folder.logits_at(path, selection.step, run.domains)
        calibrated = (calibrate_selection(selection, source, name=str(path), variant=variant),)
    else:
        inputs.expect_run(path)
        roots = read_roots(data or ())
        calibrated = calibrate_all(
            path, rule, roots=roots, variant=variant, oracle=oracle, **choosing
        )
    if out is not None:
        write_text(out, json.dumps(fitted(calibrated), indent=2, allow_nan=False) + "\n")
    if as_json:
        print(json.dumps(record(calibrated), allow_nan=False))
        return
    _present(calibrated)
    if out is not None:
        printing.console().print(f"What was fitted is in {out}.")


def fitted(calibrated: Sequence[Calibrated]) -> dict[str, Any]:
    """What is needed to apply the calibration and to know what it rests on."""
    if len(calibrated) == 1:
        return {"schema": SCHEMA, **_fitted(calibrated[0])}
    return {"schema": SCHEMA, "runs": [_fitted(run) for run in calibrated]}


def _fitted(run: Calibrated) -> dict[str, Any]:
    selection, calibration = run.selection, run.calibration
    likeness = calibration.likeness
    return {
        "checkwise": __version__,
        "calibrator": "ts",
        "variant": calibration.variant,
        "temperature": calibration.mean,
        "temperatures": {name: fit.value for name, fit in calibration.fits.items()},
        "likeness": likeness
        and {
            "domains": list(likeness.domains),
            "slopes": likeness.slopes.tolist(),
            "offsets": likeness.offsets.tolist(),
        },
        "state": calibration.state,
        "notes": list(calibration.notes),
        "run": run.name,
        "key": selection.run and selection.run.as_dict(),
        "step": selection.step,
        "weights": selection.path,
        "rule": selection.rule,
        "rule_reason": selection.reason or None,
        "params": {name: plain(value) for name, value in selection.params.items()},
        "fitted_on": {
            "n": calibration.n,
            "errors": calibration.errors,
            "domains": {
                name: {"n": n, "errors": errors} for name, (n, errors) in run.sizes.items()
            },
        },
        "digests": {"trajectory": selection.digest, "logits": run.digest},
    }


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
                "variant": run.calibration.variant,
                "temperature": run.calibration.mean,
                "temperatures": {k: fit.value for k, fit in run.calibration.fits.items()},
                "state": run.calibration.state,
                "errors": run.calibration.errors,
                "from_weights": run.again,
                "notes": [*run.calibration.notes, *([run.closed] if run.closed else [])],
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
            ("on", "metric", "before", "after", "better in"), rows, left=("on", "metric")
        )
    )
    out.print()
    values = sorted(run.calibration.mean for run in calibrated)
    if len(calibrated) == 1:
        step, state = calibrated[0].selection.step, calibrated[0].calibration.state
        out.print(f"{calibrated[0].name}: {rule} chose step {step}; T = {values[0]:.4f} ({state}).")
    else:
        out.print(
            f"{len(calibrated)} runs, {rule}: T from {values[0]:.3f} to {values[-1]:.3f}, median "
            f"{values[len(values) // 2]:.3f}."
        )
    out.print(
        "Accuracy and calibration errors are ×100. Predictions are those of the unscaled logits. "
        "What was fitted on the same examples flatters the temperature."
    )
    if WHERE["held out"] not in places and calibrated[0].closed:
        out.print(calibrated[0].closed)
    notes = [f"{run.name}: {note}" for run in calibrated for note in run.calibration.notes]
    for note in notes[:SHOWN]:
        out.print(f"note: {note}")
    if len(notes) > SHOWN:
        out.print(f"… and {len(notes) - SHOWN} more notes (--json has all)")


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
    better = sum((a[name] > b[name]) if higher else (a[name] < b[name]) for b, a in pairs)
    return f"{before:.4f}", f"{after:.4f}", f"{better}/{len(pairs)}"
