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
@option("--bins INTEGER", f"Bins of the calibration errors. [{BINS}]", type=int, default=BINS)
@option(
    "--bandwidth FLOAT", f"Width of the soft bins. [{BANDWIDTH}]", type=float, default=BANDWIDTH
)
@option("--per-class", "Add a row per class.")
@plugin_option
@json_option
def metrics_command(
    file: Path, bins: int, bandwidth: float, per_class: bool, plugin: tuple[str, ...], as_json: bool
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
        settings = {"bins": bins, "bandwidth": bandwidth}
        facts = {"n": report.n, "classes": report.classes, **settings, **values}
        by_class = {name: column.tolist() for name, column in report.per_class.items()}
        more = {"per_class": printing.or_null(by_class)} if per_class else {}
        print_json("metrics", {**facts, **more})
        return
    called = [CALLED.get(name, name) for name in values]
    shown = map(_scaled, values, values.values())
    printing.say(
        f"{report.n} examples, {report.classes} classes, from {kind}",
        printing.table(
            ("metric", "value"), list(zip(called, shown, strict=True)), left=("metric",)
        ),
    )
    if per_class:
        header = ("class", *(CALLED.get(name, name) for name in report.per_class))
        columns = [[f"{value:.6g}" for value in column] for column in report.per_class.values()]
        rows = zip(map(str, range(report.classes)), *columns, strict=True)
        printing.say(printing.table(header, list(rows)))


def _scaled(name: str, value: float) -> str:
    scale = metrics.METRICS[name].scale
    shown = value * scale
    return f"{shown:{'.4f' if abs(shown) < 1e9 else '.4e'}}{' (x100)' * (scale == 100)}"
