"""``checkwise metrics``: every metric of one file of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from checkwise import metrics
from checkwise.cli import printing
from checkwise.cli.json_output import print_json
from checkwise.cli.options import AsJson, Plugins, load_plugins
from checkwise.metrics.settings import BANDWIDTH, BINS
from checkwise.readers.predictions_file import read_outputs


def command(
    file: Annotated[Path, typer.Argument(help="An .npz with `logits` or `probs`, and `labels`.")],
    bins: Annotated[int, typer.Option(help="Bins of the calibration errors.")] = BINS,
    bandwidth: Annotated[float, typer.Option(help="Width of the soft bins.")] = BANDWIDTH,
    per_class: Annotated[bool, typer.Option(help="Add a row per class.")] = False,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Accuracy, NLL, Brier and calibration errors of saved outputs."""
    load_plugins(plugin)
    kind, outputs, labels = read_outputs(file)[:3]
    predictions: dict[str, Any] = {kind: outputs, "labels": labels}
    report = metrics.evaluate(**predictions, bins=bins, bandwidth=bandwidth)
    values = {**report.values(), **metrics.evaluate_registered(**predictions)}
    asked = [metric for metric in metrics.METRICS.values() if metric.on_demand]
    values |= {metric.name: metric(**predictions) for metric in asked}
    if as_json:
        facts: dict[str, Any] = {
            "schema": 1,
            "n": report.n,
            "classes": report.classes,
            "bins": bins,
            "bandwidth": bandwidth,
            **values,
        }
        if per_class:
            facts["per_class"] = {
                name: [None if value != value else value for value in column.tolist()]
                for name, column in report.per_class.items()
            }
        print_json("metrics", facts)
        return
    out = printing.console()
    out.print(f"{report.n} examples, {report.classes} classes, from {kind}")
    rows = [(name, _scaled(name, value)) for name, value in values.items()]
    out.print(printing.table(("metric", "value"), rows, left=("metric",)))
    if per_class:
        names = list(report.per_class)
        body = [
            (str(c), *(f"{report.per_class[name][c]:.6g}" for name in names))
            for c in range(report.classes)
        ]
        out.print(printing.table(("class", *names), body))


def _scaled(name: str, value: float) -> str:
    scale = metrics.METRICS[name].scale
    shown = value * scale
    return (f"{shown:.4f}" if abs(shown) < 1e9 else f"{shown:.4e}") + (
        " (x100)" if scale == 100 else ""
    )
