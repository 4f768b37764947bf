"""Rebuild the tables, verdicts and figures of study/first-study.md from the packed journals.

Run by ``make pages``; ``tests/docs`` checks that the page shows what this computes.
"""

from __future__ import annotations

from checkwise.study.figures import write_figures
from studies.page import DOCS, fill
from studies.paper import remedy_tables as remedies
from studies.paper import result_tables as tables
from studies.paper.answer import answer
from studies.paper.claims import claims
from studies.paper.packed import packed_cohorts
from studies.paper.verdicts import registered_contrast, verdict

PAGE = DOCS / "study" / "first-study.md"
IMAGES = PAGE.parent / "images"


def parts(results: tables.Results) -> dict[str, str]:
    """Every generated part of the page by name."""
    evaluated = results.cohorts["officehome-frozen"].path
    return {
        "answer": answer(results),
        "verdict": verdict(results.main, evaluated),
        "registered": registered_contrast(results.main),
        "claims": claims(results),
        "blocks": tables.blocks(results),
        "inference": tables.inference(results),
        "main": tables.main_table(results),
        "main-changes": tables.main_changes(results),
        "by-algorithm": tables.by_algorithm(results),
        "without-penalties": tables.without_penalties(results),
        "losses": tables.losses(results),
        "influence": tables.influence(results),
        "tolerance": tables.tolerance(results),
        "tolerance-changes": tables.tolerance_changes(results),
        "components": tables.components(results),
        "component-changes": tables.component_changes(results),
        "controls": tables.controls(results),
        "ranking-value": tables.ranking_value(results),
        "multiplicity": tables.multiplicity(results),
        "composition": tables.composition(results),
        "ranks": tables.ranks(results),
        "kendall": tables.kendall(results),
        "learning-rate": tables.learning_rate(results),
        "length": tables.length(results),
        "duplicates": tables.duplicates(results),
        "binning": remedies.binning(results),
        "cross-fit": remedies.cross_fit(results),
        "temperature": remedies.temperature(results),
        "temperature-changes": remedies.temperature_changes(results),
        "lodo": remedies.lodo(results),
        "lodo-changes": remedies.lodo_changes(results),
        "pair": remedies.pair(results),
        "pair-settings": remedies.pair_settings(results),
        "risk-coverage": remedies.risk_coverage(results),
        "cohorts": tables.cohorts(results),
    }


def draw(results: tables.Results) -> None:
    """The figures of the page."""
    list(write_figures(results.cohorts["officehome-frozen"], IMAGES, only=["tolerance"]))
    list(write_figures(results.main, IMAGES, only=["kendall"]))
    list(write_figures(results.ladder, IMAGES, only=["learning-rate"]))
    for file in IMAGES.glob("*.pdf"):
        file.unlink()


def main() -> None:
    with packed_cohorts() as cohorts:
        results = tables.Results(cohorts)
        for name, content in parts(results).items():
            fill(PAGE, name, content)
        draw(results)


if __name__ == "__main__":
    main()
