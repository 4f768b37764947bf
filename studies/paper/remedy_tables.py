"""The tables of the first study on other remedies, and on what needs saved logits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from checkwise.study import Pool, method
from checkwise.study.tables import BY_BLOCK, BY_DOMAIN, build
from studies.paper.beside import beside, grid
from studies.paper.contrast import TARGETS
from studies.paper.kept_tables import read
from studies.paper.result_tables import Results

HARD = ("target_accuracy", "target_nll", "target_hard_ece", "target_hard_cwece")
NEAR = ("0.1", "0.5", "1.0")


def lodo(results: Results) -> str:
    return beside(
        results.table("lodo"),
        ("target_accuracy", "target_nll", "target_nll_median", "target_hard_ece"),
        paper=results.paper,
        note=False,
    )


def lodo_changes(results: Results) -> str:
    """Each data set by itself: roles are not pooled."""
    made = [
        build("lodo-changes", results.cohorts[name])
        for name in ("officehome-frozen", "pacs-frozen")
    ]
    cells = tuple(cell for table in made for cell in table.cells)
    measures = [measure + end for measure in HARD for end in (BY_BLOCK, BY_DOMAIN)]
    return beside(replace(made[0], cells=cells), measures)


def pair_settings(results: Results) -> str:
    """What PAIR's preference and "near" do on the development data, where they were fixed."""
    pool = Pool([results.cohorts["pacs-frozen"]])
    vrex = np.array([key.algorithm == "VREx" for key in pool.keys])
    lines = []
    for weight in (1e-12, 1e-6, 1e-2, 1.0):
        filters = [method("pair-valfilter", loss_weight=weight, delta_pp=each) for each in NEAR]
        last10 = method("pair-last10", loss_weight=weight)
        found = [pool.columns(rule) for rule in (last10, *filters)]
        means = [
            [float(columns[measure][vrex].mean()) for columns in found]
            for measure in ("target_accuracy", "target_nll")
        ]
        texts = [f"{100 * a:.2f} / {b:.3f}" for a, b in zip(*means, strict=True)]
        lines.append((f"{weight:g}", *texts))
    header = ("loss weight", "last10", *(f"val-filter, {each} points" for each in NEAR))
    return grid(header, lines, 1)


def pair(results: Results) -> str:
    return beside(results.table("pair"), (*TARGETS, "target_nll_median"), paper=results.paper)


def temperature(results: Results) -> str:
    return beside(read("temperature"), (*TARGETS, "improved_nll", "improved_ece", "improved_cwece"))


def temperature_changes(results: Results) -> str:
    return beside(read("temperature-changes"), (*TARGETS, "target_nll_median"))


def cross_fit(results: Results) -> str:
    return beside(read("cross-fit"), (*TARGETS, "target_nll_median"))


def risk_coverage(results: Results) -> str:
    return beside(read("risk-coverage"), ("risk_100", "risk_80", "risk_50", "risk_area"))


def binning(results: Results) -> str:
    return beside(
        read("binning"),
        ("choices_changed", *TARGETS),
        where=lambda row: row["data"] != "both" and row["reference"] == "ac-nc",
    )
