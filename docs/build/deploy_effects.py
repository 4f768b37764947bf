"""What choosing, averaging and calibrating give on the demo's runs, run by run.

    python docs/build/deploy_effects.py out/demo

computes it from what ``checkwise demo`` leaves and keeps the numbers, because the weights are not
packed. ``advice.py`` and the tests start from them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from logit_tables import fingerprint

from checkwise.records import RunKey
from checkwise.store.cohort import open_cohort
from checkwise.study import Cohort
from checkwise.study.compare import Differences
from checkwise.study.methods import Method, method
from checkwise.weights import deployed_rows
from checkwise.weights.derive import derive

FILE = Path(__file__).parents[1] / "study" / "data" / "demo.json"
REFERENCE = "source-acc"
SOFTENED = "source-acc, softened"
METRICS = ("target_nll", "target_accuracy")
RULES = ("ac-nc", "ac-nll", "ac-early", "pure-nll")
MADE = ("mean-probs-5", "mean-weights", "deploy", "deploy-mean-probs-5")


def compute(folder: Path) -> dict[str, Any]:
    """Every method on every run, as fractions."""
    record = open_cohort(folder)
    rows: list[Method] = [method(name) for name in RULES]
    for name in MADE:
        row = method(name)
        assert row.recipe is not None
        derive(folder, name, row.recipe)
        rows.append(row)
    recipe = deployed_rows.CHOICE.variant(SOFTENED, rule=REFERENCE)
    derive(folder, "deploy-source-acc", recipe)
    softened = Method("deploy-source-acc", SOFTENED, recipe.needs, recipe=recipe)
    tables = Cohort.open(folder).differences([*rows, softened], REFERENCE, metrics=METRICS)
    runs = []
    for number, key in enumerate(tables[0].keys):
        values = {REFERENCE: _values(tables[0].of_reference[number])}
        values |= {table.rule: _values(table.of_rule[number]) for table in tables}
        runs.append({"run": key.as_dict(), "values": values})
    return {"role": record.role, "journals": fingerprint(folder), "runs": runs}


def _values(row: np.ndarray) -> dict[str, float]:
    return {metric: round(float(value), 9) for metric, value in zip(METRICS, row, strict=True)}


def read(rule: str, reference: str = REFERENCE) -> Differences:
    """A method against another, from the kept numbers."""
    runs = json.loads(FILE.read_text())["runs"]
    both = [
        np.array([[run["values"][name][metric] for metric in METRICS] for run in runs])
        for name in (rule, reference)
    ]
    keys = tuple(RunKey.from_dict(run["run"]) for run in runs)
    return Differences(rule, reference, keys, METRICS, *both)


def main() -> None:
    FILE.write_text(json.dumps(compute(Path(sys.argv[1])), indent=1) + "\n")


if __name__ == "__main__":
    main()
