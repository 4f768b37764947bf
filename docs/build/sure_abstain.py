"""Simulate how often `-abstain` says wrongly that a checkpoint is shown to be better.

``python docs/build/sure_abstain.py --run`` simulates and writes ``sure-abstain.csv``; without
``--run`` the table of docs/sure.md is written again from that file. The populations are those of
``sure_optimism.py``: their NLL is known, so that a claim can be called wrong. ``tests/docs`` checks
that the page shows what the file holds, and repeats a cell with fewer samples.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
from sure_optimism import CHECKPOINTS, SEED, SIZES, margins, sample, truth

import checkwise as cw
from page import fill

PAGE = Path(__file__).parents[1] / "sure.md"
DATA = PAGE.with_name("sure-abstain.csv")
PART = "abstain"
SAMPLES, DRAWS = 300, 300
DELTA_PP = 2
# Mean margins and sharpness of the checkpoints.
POPULATIONS = {
    "a training run": (margins(CHECKPOINTS), np.ones(CHECKPOINTS)),
    "all equally good": (np.ones(CHECKPOINTS), np.ones(CHECKPOINTS)),
    "as accurate, ever sharper": (np.ones(CHECKPOINTS), np.linspace(1, 3, CHECKPOINTS)),
}
COLUMNS = ("population", "n", "samples", "same", "abstained", "shown", "wrong")


def simulate(population: str, n: int, samples: int, draws: int = DRAWS) -> dict[str, Any]:
    """What ac-nll-abstain said of samples, and how often a claim was wrong."""
    mean, sharpness = POPULATIONS[population]
    nll = truth(mean, sharpness)["nll"]
    counts = {"same": 0, "abstained": 0, "shown": 0, "wrong": 0}
    for k in range(samples):
        run = sample(n, np.random.default_rng([SEED, n, k]), mean, sharpness)
        chosen = cw.select(run, "ac-nll-abstain", guard=False, delta_pp=DELTA_PP, draws=draws)
        usual = cw.select(run, "source-acc", guard=False)
        if "Abstained" in chosen.ranking.note:
            counts["abstained"] += 1
        elif chosen.step == usual.step:
            counts["same"] += 1
        else:
            counts["shown"] += 1
            counts["wrong"] += bool(nll[chosen.index] >= nll[usual.index] - 1e-12)
    return {"population": population, "n": n, "samples": samples, **counts}


def read() -> list[dict[str, str]]:
    with DATA.open(newline="") as file:
        return list(csv.DictReader(file))


def table(rows: list[dict[str, str]]) -> str:
    """The table of the page."""
    lines = [
        "| population | examples per domain | same as source-acc | abstained | shown to be better "
        "| of these wrong | wrong, % of all samples |",
        "|:--|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        share = 100 * int(row["wrong"]) / int(row["samples"])
        counts = " | ".join(row[name] for name in ("same", "abstained", "shown", "wrong"))
        lines.append(f"| {row['population']} | {row['n']} | {counts} | {share:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", action="store_true")
    if parser.parse_args().run:
        rows = [simulate(name, n, SAMPLES) for name in POPULATIONS for n in SIZES]
        with DATA.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    fill(PAGE, PART, table(read()))


if __name__ == "__main__":
    main()
