"""Rebuild study/results.md, the pages per question and their figure from the kept outcomes.

Run by ``make pages``; ``tests/docs`` checks that the pages show what this computes.
"""

from __future__ import annotations

from collections.abc import Mapping

from studies.page import fill
from studies.paper import headline, places_figure, question_tables, registered_table, runs_table
from studies.paper.answer import checked, points
from studies.paper.beside import grid
from studies.paper.cohorts import with_five
from studies.paper.contrast import Claim
from studies.paper.effects import Effect, effect
from studies.paper.outcomes import Outcomes
from studies.paper.question_answers import REGIONS, SITES, SOFT, by_cohort, counted_on

PAGE = question_tables.STUDY / "results.md"
PROTOCOL = question_tables.STUDY / "sites-protocol.md"
NLL, ACCURACY = question_tables.NLL, question_tables.ACCURACY
DEVELOPED: Mapping[str, tuple[str, str, str]] = {  # column → recipe, reference, metric
    "`ac-nc`": ("ac-nc", "source-acc", NLL),
    "`ac-nc`, both softened": (f"ac-nc{SOFT}", f"source-acc{SOFT}", NLL),
    "T ≥ 1": (f"source-acc{SOFT}", "source-acc", NLL),
    "averaged, both softened": ("deploy-mean-probs", f"source-acc{SOFT}", NLL),
    "averaged: accuracy, points": ("mean-probs", "source-acc", ACCURACY),
}


def parts() -> dict[str, str]:
    """Every generated part of the page by name."""
    return {
        "unit": checked(headline.unit()),
        "found": points(headline.numbers()),
        "not-known": checked(headline.not_known()),
        "details": points(headline.details()),
        "development": f"{developed_table()}\n\n{points(on_development())}",
        "registered": registered_table.table(SITES),
        "estimates": registered_table.table(REGIONS),
        "runs": runs_table.runs(),
    }


def protocol() -> dict[str, str]:
    """The generated part of the protocol: when its contrasts were registered and opened."""
    return {"times": registered_table.times()}


def developed() -> dict[str, dict[str, Effect]]:
    """The main contrasts on every development cohort: column → data → effect."""
    return {
        title: by_cohort(*contrast, role="development") for title, contrast in DEVELOPED.items()
    }


def developed_table() -> str:
    """One row per development cohort; five algorithms have what journals give."""
    rows = []
    for described, kept in with_five():
        if described.role == "development":
            some = effect(kept, "ac-nc")
            cells = [_cell(kept, *contrast) for contrast in DEVELOPED.values()]
            rows.append((described.data, some.counts, *cells))
    return grid(("data", "domains, runs", *DEVELOPED), rows, 2)


def _cell(kept: Outcomes, recipe: str, reference: str, metric: str) -> str:
    there = {recipe, reference} <= set(kept.values)
    return str(effect(kept, recipe, reference, metric)) if there else ""


def on_development() -> list[Claim]:
    """On how many of them an interval excludes zero, and on which."""
    raw, soft, scaled, mean, gained = developed().values()
    return [
        Claim(
            f"`ac-nc` − `source-acc`: the interval excludes zero on {counted_on(raw)}; with both "
            f"softened, on {counted_on(soft)}. OfficeHome and PACS count once, with five "
            "algorithms where these have the number.",
            (
                all(each.mean < 0 for each in raw.values() if each.excludes_zero),
                not any(each.excludes_zero for each in soft.values()),
            ),
        ),
        Claim(
            f"T ≥ 1 lowers the mean NLL of `source-acc` on {_lower(scaled)}, and its interval "
            f"excludes zero on {counted_on(scaled)}.",
            tuple(each.mean < 0 for each in scaled.values() if each.excludes_zero),
        ),
        Claim(
            "Mean probabilities over the checkpoints within 1 point: with both softened the "
            f"interval of NLL excludes zero on {counted_on(mean)}; accuracy rises on "
            f"{counted_on(gained)}.",
            tuple(
                each.mean * sign > 0
                for found, sign in ((mean, -1), (gained, 1))
                for each in found.values()
                if each.excludes_zero
            ),
        ),
    ]


def _lower(found: Mapping[str, Effect]) -> str:
    """On how many data a mean is below zero, and where it is not."""
    others = [f"{data}: {each.plain}" for data, each in found.items() if each.mean >= 0]
    if not others:
        return "all of them"
    return f"{len(found) - len(others)} of {len(found)} (not on {'; '.join(others)})"


def main() -> None:
    for name, content in parts().items():
        fill(PAGE, name, content)
    for name, content in protocol().items():
        fill(PROTOCOL, name, content)
    question_tables.main()
    places_figure.draw()


if __name__ == "__main__":
    main()
