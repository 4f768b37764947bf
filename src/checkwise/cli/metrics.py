"""``checkwise metrics``: every metric of one file of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkwise import metrics
from checkwise.cli import printing
from checkwise.cli.command import argument, command, option
from checkwise.cli.options import json_option, load_plugins, plugin_option
from checkwise.cli.printing import print_json
from checkwise.metrics import BANDWIDTH, BINS
from checkwise.selection import CALLED
from checkwise.store import read_outputs


@command("metrics", examples=["checkwise metrics step-000100/val.npz"])
@argument("file")
@option("--bins", type=int, default=BINS, help=f"Bins of the calibration errors. [{BINS}]")
@option("--bandwidth", type=float, default=BANDWIDTH, help=f"Width of the soft bins. [{BANDWIDTH}]")
@option("--per-class", is_flag=True, help="Add a row per class.")
@plugin_option
@json_option
def metrics_command(
    file: Path,
    bins: int,
    bandwidth: float,
    per_class: bool,
    plugin: tuple[str, ...],
    as_json: bool,
) -> None:
    """Accuracy, NLL, Brier and calibration errors of FILE, saved outputs.

    FILE is an .npz with `logits` or `probs`, and `labels`.
    """
    load_plugins(plugin)
    kind, outputs, labels = read_outputs(file)[:3]
    predictions: dict[str, Any] = {kind: outputs, "labels": labels}
    report = metrics.evaluate(**predictions, bins=bins, bandwidth=bandwidth)
    values = {**report.values(), **metrics.evaluate_registered(**predictions)}
    asked = [metric for metric in metrics.METRICS.values() if metric.on_demand]
    values |= {metric.name: metric(**predictions) for metric in asked}
    if as_json:
        facts: dict[str, Any] = {
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
    rows = [(CALLED.get(name, name), _scaled(name, value)) for name, value in values.items()]
    out.print(printing.table(("metric", "value"), rows, left=("metric",)))
    if per_class:
        names = list(report.per_class)
        body = [
            (str(c), *(f"{report.per_class[name][c]:.6g}" for name in names))
            for c in range(report.classes)
        ]
        out.print(printing.table(("class", *(CALLED.get(name, name) for name in names)), body))


def _scaled(name: str, value: float) -> str:
    scale = metrics.METRICS[name].scale
    shown = value * scale
    return (f"{shown:.4f}" if abs(shown) < 1e9 else f"{shown:.4e}") + (
        " (x100)" if scale == 100 else ""
    )
