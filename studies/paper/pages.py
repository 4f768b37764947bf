"""Fill the five pages in docs/study, and write every table behind them as CSV.

Run by ``make pages``; ``tests/docs`` checks that pages and files show what this computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pandas

from checkwise.words import number
from studies.page import DOCS, csv_of, fill, numbered
from studies.paper import (
    accuracy_losses,
    baselines,
    first_study,
    harm_tables,
    logits_tables,
    method_rows,
    paper_claims,
    places_figure,
    question_tables,
    registered_table,
    runs_table,
    stopping,
    validating_tables,
)
from studies.paper.beside import grid
from studies.paper.cohorts import with_five
from studies.paper.effects import Effect, effect
from studies.paper.outcomes import Outcomes, read
from studies.paper.packed import packed_cohorts
from studies.paper.recipes import REGIONS, SITES, SOFT
from studies.paper.result_tables import Results
from studies.paper.tables import FOLDER
from studies.simulations import (
    sure_coverage,
    sure_harm,
    sure_optimism,
    sure_rules,
    sure_widths,
)

STUDY = DOCS / "study"
NUMBERED = ("study/results.md", "study/evidence.md", "study/claims.md", "guide.md")
NLL, ACCURACY = "target_nll", "target_accuracy"
FEW = 5  # validation errors
RULES = ("source-acc", "ac-nc")
Column = tuple[str, str, str]  # recipe, reference, metric
SHOWN: Mapping[str, Mapping[str, Column]] = {
    "choosing": {
        "`ac-nc`, raw": ("ac-nc", "source-acc", NLL),
        "`ac-nc`, both T ≥ 1": (f"ac-nc{SOFT}", f"source-acc{SOFT}", NLL),
        "`ac-early`, both T ≥ 1": (f"ac-early{SOFT}", f"source-acc{SOFT}", NLL),
        "`ac-nc`: accuracy, points": ("ac-nc", "source-acc", ACCURACY),
    },
    "averaging": {
        "averaged, both T ≥ 1": ("deploy-mean-probs", f"source-acc{SOFT}", NLL),
        "averaged: accuracy, points": ("mean-probs", "source-acc", ACCURACY),
    },
    "calibrating": {
        "T free (`ts`)": ("source-acc+ts", "source-acc", NLL),
        "T ≥ 1 (`ts-soften`)": (f"source-acc{SOFT}", "source-acc", NLL),
        "largest T (`ts-max`)": ("source-acc+ts-max", "source-acc", NLL),
    },
}


def groups() -> dict[str, dict[str, str]]:
    """Every table behind the pages: group → name → Markdown."""
    with packed_cohorts() as cohorts:
        first = first_study.parts(Results(cohorts))
    return {
        "choosing": question_tables.choosing(),
        "averaging": question_tables.averaging(),
        "calibrating": question_tables.calibrating(),
        "validating": validating_tables.parts(),
        "harms": harm_tables.parts(),
        "methods": {
            **method_rows.parts(),
            "demo": baselines.table(pandas.read_csv(baselines.DATA)),
        },
        "claims": paper_claims.parts(),
        "logits": logits_tables.parts(),
        "first-study": first,
        "sure": {
            "coverage": sure_coverage.table(),
            "widths": sure_coverage.bounds(),
            "real-widths": sure_widths.table(),
            "kept": sure_widths.kept(),
            "optimism": sure_optimism.table(sure_optimism.read()),
            "harm": sure_harm.table(sure_harm.read()),
            **{f"rules-{one}": sure_rules.table(sure_rules.read(), one) for one in RULES},
        },
    }


def files() -> dict[str, str]:
    """The same as CSV, by the name of the file below studies/tables."""
    return {
        f"{group}/{name}.csv": csv_of(text)
        for group, tables in groups().items()
        for name, text in tables.items()
    }


def parts() -> dict[str, dict[str, str]]:
    """The tables that the pages themselves show: page → part → Markdown."""
    return {
        "results": {"registered": registered_table.table(SITES)},
        "evidence": {
            **{name: contrasts(columns) for name, columns in SHOWN.items()},
            "validating": validating_tables.across((SITES,), NLL),
            "harms": harm_tables.on_places(),
            "methods": method_rows.short(),
        },
        "claims": {"counts": paper_claims.counts()},
        "registered": {
            "times": registered_table.times(),
            "estimates": registered_table.table(REGIONS),
        },
        "data": {"runs": runs_table.runs()},
    }


def contrasts(columns: Mapping[str, Column]) -> str:
    """One row for every cohort that has any of these changes."""
    rows = [
        (described.data, described.role, effect(kept, "ac-nc").counts, *cells)
        for described, kept in with_five()
        if any(cells := [_cell(kept, *column) for column in columns.values()])
    ]
    return grid(("data", "role", "domains, runs", *columns), rows, 3)


def _cell(kept: Outcomes, recipe: str, reference: str, metric: str) -> str:
    there = {recipe, reference} <= set(kept.values)
    return str(effect(kept, recipe, reference, metric)) if there else ""


def change_of(key: str) -> Effect | float | None:
    """The change that a key stands for; None where it stands for something else."""
    kind, *rest = key.split()
    if kind == "registered":
        return float(registered_table.named(rest[0])[" ".join(rest[1:])]["mean"])
    if kind == "stop":
        return stopping.against(int(rest[0]), rest[1])
    return _effect(*rest) if kind in ("change", "median") else None


def said(key: str) -> str:
    """The text of a number on a page, by its key.

    ``change COHORT RECIPE REFERENCE METRIC`` is a mean with its interval, ``median`` that of runs;
    ``lost``, ``gained`` and ``worse`` count runs; ``level COHORT RECIPE METRIC`` is a mean;
    ``registered COHORT NAME`` a registered contrast, ``stop UPDATE REFERENCE`` one stop for all.
    """
    kind, *rest = key.split()
    found = change_of(key)
    if kind == "registered":
        return registered_table.change(registered_table.named(rest[0])[" ".join(rest[1:])])
    if isinstance(found, Effect):
        return found.text(float(np.median(found.by_run))) if kind == "median" else found.plain
    if kind == "level":
        kept, metric = read(rest[0]).values[rest[1]], f"target_{rest[2]}"
        percent = metric == ACCURACY
        return number((100 if percent else 1) * float(kept[metric].mean()), 1 if percent else 2)
    found = _effect(*rest)
    counts: dict[str, Callable[[Effect], int]] = {
        "lost": accuracy_losses.lost,
        "gained": accuracy_losses.gained,
        "worse": lambda one: one.worse,
        "places": lambda one: one.places_worse,
    }
    whole = len(found.names) if kind == "places" else found.runs
    return f"{counts[kind](found)} of {whole}"


def _effect(cohort: str, recipe: str, reference: str, metric: str) -> Effect:
    """A part of a cohort is named after a slash: a data set, or ``few`` for saturated runs."""
    name, _, part = cohort.partition("/")
    kept = read(name)
    few = kept.values["source-acc"].get("errors") if part == "few" else None
    kept = kept if part in ("", "few") else kept.of_dataset(part)
    keep = None if few is None else few <= FEW
    return effect(kept, recipe, reference, f"target_{metric}", keep=keep)


def numbers() -> Iterator[tuple[str, str]]:
    """The pages with numbers in their sentences: name, and text with each number anew."""
    for page in NUMBERED:
        yield page, numbered((DOCS / page).read_text(encoding="utf-8"), said)


def main() -> None:
    for name, text in files().items():
        (FOLDER / name).parent.mkdir(exist_ok=True)
        (FOLDER / name).write_text(text, encoding="utf-8")
    for page, filled in parts().items():
        for part, content in filled.items():
            fill(STUDY / f"{page}.md", part, content)
    for page, text in numbers():
        (DOCS / page).write_text(text, encoding="utf-8")
    places_figure.draw()


if __name__ == "__main__":
    main()
