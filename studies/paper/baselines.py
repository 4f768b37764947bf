"""Every rule and method on the demo's data, with what each needs and costs.

``python -m studies.paper.baselines COHORT`` computes the file from a cohort with logits, weights
and averages; ``studies.paper.pages`` writes its table.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas

from checkwise.words import number
from studies.page import DATA as STUDY_DATA
from studies.page import interval

DATA = STUDY_DATA / "demo-methods.csv"
ROWS = (
    "ac-nc",
    "ac-nll",
    "ac-mean",
    "pure-nll",
    "source-acc+ts",
    "ac-nc+ts",
    "ac-nc+ts-multi",
    "ac-nc+ts-weighted",
    "ac-nc+ts-oracle",
    "wald-recalibrated",
    "pair-last10",
    "pair-valfilter",
    "lyu-mmd",
    "lyu-coral",
    "mixup-acc",
    "mixup-loss",
    "lodo-acc",
    "ac-lodo",
    "swad",
    "swad-as-described",
    "swad-nobn",
    "ac-nc-mean-weights",
    "ac-nc-mean-probs",
    "sma",
    "dense-swad",
    "eoa",
    "diwa-uniform",
    "diwa-greedy",
    "hparams-acc",
    "hparams-ac",
)
METRICS = ("target_accuracy", "target_nll", "target_ece", "target_cwece")
COLUMNS = ("rule", "metric", "n", "mean", "low", "high", "wins", "losses", "needs", "seconds")


def compute(cohort: Path) -> pandas.DataFrame:
    """Paired differences of every row to source-acc."""
    import checkwise as cw

    opened = cw.study.Cohort.open(cohort)
    opened.compare(["ac-nc+ts"])  # reads files and compiles once, before anything is timed
    found = opened.compare(list(ROWS), metrics=METRICS)
    return found[list(COLUMNS)].round({"mean": 6, "low": 6, "high": 6, "seconds": 4})


def table(data: pandas.DataFrame) -> str:
    """The page's table: mean differences, with the intervals of accuracy and NLL."""
    lines = [
        "| row | needs | s/run | n | accuracy (points) | NLL | ECE ×100 | CwECE ×100 |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for rule in dict.fromkeys(data["rule"]):
        rows = data[data["rule"] == rule].set_index("metric")
        first = rows.iloc[0]
        accuracy, nll, ece, cwece = (rows.loc[metric] for metric in METRICS)
        cells = [
            f"`{rule}`",
            str(first["needs"]).replace("target labels (not deployable)", "**target labels**"),
            _seconds(float(first["seconds"])),
            str(first["n"]),
            interval(accuracy["mean"], accuracy["low"], accuracy["high"], 2),
            interval(nll["mean"], nll["low"], nll["high"], 3),
            number(float(ece["mean"]), 2, signed=True),
            number(float(cwece["mean"]), 2, signed=True),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _seconds(value: float) -> str:
    if value < 0.005:
        return "<0.01"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


if __name__ == "__main__":
    compute(Path(sys.argv[1])).to_csv(DATA, index=False)
