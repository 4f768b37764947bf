"""``checkwise calibrate``: scale the logits of the chosen checkpoint, and say what that changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from checkwise.cli import show
from checkwise.cli.choice import Choice
from checkwise.cli.options import AsJson
from checkwise.cli.train_options import Data
from checkwise.metrics import METRICS

if TYPE_CHECKING:
    from checkwise.study.calibrated import Calibrated

SHOWN = 5
WHERE = {
    "source": "source, fitted on these",
    "source, left out": "source, fitted on the other domains",
    "held out": "held-out domains",
    "oracle": "held-out, fitted on these: not deployable",
}


def command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A run, or a cohort.")],
    rule: Annotated[str, typer.Option(help="How the checkpoint is chosen.")] = "ac-nc",
    variant: Annotated[
        str, typer.Option(help="pooled, per-domain or weighted (see docs/baselines.md).")
    ] = "pooled",
    delta_pp: Annotated[
        str | None, typer.Option(help="Tolerance in percentage points. [default: 0.5]")
    ] = None,
    q: Annotated[str | None, typer.Option(help="Norm: 1, 2 or inf. [default: inf]")] = None,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Also fit on the target itself: not deployable.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Fit a temperature on source validation and show every metric before and after it.

    Needs runs trained with logits = "source" or "all" (held-out domains are shown with "all"), or
    the weights of the chosen checkpoint and the data, from which logits are then made again.
    """
    from checkwise.study.calibrated import calibrate_all
    from checkwise.sweep.datasets import read_roots

    asked = Choice(delta_pp=delta_pp, q=q).params
    roots = read_roots(data or ())
    found = calibrate_all(path, rule, roots=roots, variant=variant, oracle=oracle, **asked)
    if as_json:
        print(json.dumps(record(found, rule), allow_nan=False))
        return
    _present(found, rule)


def record(found: Sequence[Calibrated], rule: str) -> dict[str, Any]:
    """The stable JSON."""
    return {
        "schema": 1,
        "rule": rule,
        "runs": [
            {
                "run": each.key.as_dict(),
                "step": each.step,
                "variant": each.calibration.variant,
                "temperature": each.calibration.mean,
                "temperatures": {k: fit.value for k, fit in each.calibration.fits.items()},
                "from_weights": each.again,
                "notes": list(each.calibration.notes),
                "places": {
                    place: {
                        "before": dict(before),
                        "after": dict(after),
                        "fitted_on_these": place == "source",
                    }
                    for place, (before, after) in each.places.items()
                },
                "oracle": {
                    domain: {"temperature": t, "after": dict(after), "deployable": False}
                    for domain, (t, after) in each.oracle.items()
                },
            }
            for each in found
        ],
    }


def _present(found: Sequence[Calibrated], rule: str) -> None:
    out = show.console()
    places = _places(found)
    rows = [
        (place if number == 0 else "", name, *_cells(name, pairs))
        for place, pairs in places.items()
        for number, name in enumerate(METRICS)
        if all(name in before for before, _ in pairs)
    ]
    out.print(
        show.table(("on", "metric", "before", "after", "better in"), rows, left=("on", "metric"))
    )
    out.print()
    values = sorted(each.calibration.mean for each in found)
    if len(found) == 1:
        out.print(f"{found[0].key}: {rule} chose step {found[0].step}; T = {values[0]:.4f}.")
    else:
        out.print(
            f"{len(found)} runs, {rule}: T from {values[0]:.3f} to {values[-1]:.3f}, median "
            f"{values[len(values) // 2]:.3f}."
        )
    out.print(
        "Accuracy and calibration errors are ×100. Predictions are those of the unscaled logits. "
        "What was fitted on the same examples flatters the temperature."
    )
    if WHERE["held out"] not in places:
        out.print('No held-out logits were saved; train with logits = "all" to see them.')
    notes = [f"{each.key}: {note}" for each in found for note in each.calibration.notes]
    for note in notes[:SHOWN]:
        out.print(f"note: {note}")
    if len(notes) > SHOWN:
        out.print(f"… and {len(notes) - SHOWN} more notes (--json has all)")


def _places(found: Sequence[Calibrated]) -> dict[str, list[tuple[Any, Any]]]:
    """Pairs of metrics before and after, by column; held-out domains of all runs together."""
    columns: dict[str, list[tuple[Any, Any]]] = {}
    for each in found:
        for place, pair in each.places.items():
            columns.setdefault(WHERE.get(place, WHERE["held out"]), []).append(pair)
        for domain, (_, after) in each.oracle.items():
            columns.setdefault(WHERE["oracle"], []).append((each.places[domain][0], after))
    return columns


def _cells(name: str, pairs: Sequence[tuple[Any, Any]]) -> tuple[str, str, str]:
    scale, higher = METRICS[name].scale, METRICS[name].direction == "higher"
    before = scale * sum(b[name] for b, _ in pairs) / len(pairs)
    after = scale * sum(a[name] for _, a in pairs) / len(pairs)
    better = sum((a[name] > b[name]) if higher else (a[name] < b[name]) for b, a in pairs)
    return f"{before:.4f}", f"{after:.4f}", f"{better}/{len(pairs)}"
