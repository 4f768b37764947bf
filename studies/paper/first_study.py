"""The tables of the first study, 360 runs, from the packed journals."""

from __future__ import annotations

from studies.paper import remedy_tables as remedies
from studies.paper import result_tables as tables
from studies.paper.verdicts import registered_contrast


def parts(results: tables.Results) -> dict[str, str]:
    """Every table by name."""
    return {
        "registered": registered_contrast(results.main),
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
    }
