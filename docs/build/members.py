"""How few members do as well as all: measured on the demo's runs and written into deploy.md.

    python docs/build/members.py out/demo

The folder is what ``checkwise demo`` leaves; averages are made beside its runs. Differences are
paired by run, on rotations that training did not see.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pandas

from checkwise.study import Cohort, Method
from checkwise.study.baselines import MEMBERS_MEAN_PROBS as MEAN_PROBS
from checkwise.study.baselines import MEMBERS_MEAN_WEIGHTS as MEAN_WEIGHTS
from checkwise.study.baselines import OpenRuns, Recipe, derive
from checkwise.study.folder import open_cohort
from checkwise.words import number
from page import fill

PAGE = Path(__file__).parents[1] / "deploy.md"
PART = "members"
COUNTS = (1, 2, 3, 5, 8)
ROWS: Mapping[str, Recipe] = {
    **{f"members-{k}": MEAN_PROBS.variant(f"{k} members", k=k) for k in COUNTS},
    "members-all": MEAN_PROBS,
    "members-weights": MEAN_WEIGHTS,
}
TITLES = {
    **{f"members-{k}": f"{k} spread" if k > 1 else "1, the middle" for k in COUNTS},
    "members-all": "all",
    "members-weights": "mean weights of all",
}


def measured(cohort: Path) -> tuple[pandas.DataFrame, pandas.DataFrame, dict[str, float]]:
    """Differences to source-acc and to the mean of all, and how many members there are."""
    counts, opening = {}, OpenRuns()
    for name, recipe in ROWS.items():
        records = derive(cohort, name, recipe, opening=opening).records
        counts[name] = sum(len(record.inputs["steps"]) for record in records) / len(records)
    opened = Cohort.open(cohort)
    methods = [
        Method(name, recipe.summary, recipe.needs, recipe=recipe) for name, recipe in ROWS.items()
    ]
    whole = methods[[*ROWS].index("members-all")]
    return opened.compare(methods), opened.compare(methods, whole), counts


def table(cohort: Path) -> str:
    """The rows of the page."""
    against_one, against_all, counts = measured(cohort)
    lines = [
        "| members | how many | accuracy | NLL | NLL, against all |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, title in TITLES.items():
        cells = [
            _cell(against_one, name, "target_accuracy", 2),
            _cell(against_one, name, "target_nll", 3),
            "0" if name == "members-all" else _cell(against_all, name, "target_nll", 3),
        ]
        lines.append(f"| {title} | {counts[name]:.1f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(frame: pandas.DataFrame, name: str, metric: str, decimals: int) -> str:
    (row,) = frame[(frame["rule"] == name) & (frame["metric"] == metric)].to_dict("records")
    mean, low, high = (number(row[c], decimals, signed=True) for c in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def main() -> None:
    cohort = Path(sys.argv[1])
    record = open_cohort(cohort)
    text = table(cohort)
    print(text)
    print(json.dumps({"runs": len(record.runs), "role": record.role}))
    fill(PAGE, PART, text)


if __name__ == "__main__":
    main()
