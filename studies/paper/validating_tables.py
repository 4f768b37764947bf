"""The tables on validation by whole sites or whole domains."""

from __future__ import annotations

from collections.abc import Sequence

from studies.paper import single_runs, stopping
from studies.paper.beside import grid
from studies.paper.cohorts import there
from studies.paper.effects import effect
from studies.paper.outcomes import Outcomes, read
from studies.paper.recipes import SITES, SOFT
from studies.paper.single_runs import NLL

LEFT_OUT = {  # data → cohort with inner runs
    "camera traps, 4 regions": "taicam-frozen",
    "OfficeHome": "officehome-frozen",
    "PACS": "pacs-frozen",
}
BY_GROUPS = ("source-acc", "ac-nc", "ac-early", "pure-nll")
SINGLE = single_runs.COLUMN
ACCURACY, ECE, CWECE = "target_accuracy", "target_ece", "target_cwece"


def parts() -> dict[str, str]:
    """Does validating on unseen groups choose better?"""
    only = (SITES,)
    return {
        "nll": across(only, NLL),
        "accuracy": across(only, ACCURACY),
        "ece": across(only, ECE),
        "cwece": across(only, CWECE),
        "rules": _inside(only),
        "chosen": stopping.chosen(),
        "stops": stopping.fixed(),
        "lodo": _left_out(),
    }


def _inside(only: Sequence[str]) -> str:
    """Rules against the most accurate checkpoint, both validated by sites."""
    rows = [
        (
            f"`{rule}`",
            *_with_single_runs(
                kept,
                [(f"{rule}@groups{p}", f"source-acc@groups{p}") for p in ("", SOFT)],
            ),
        )
        for _, kept in there(only)
        for rule in BY_GROUPS
        if rule != "source-acc"
    ]
    header = ("rule − `source-acc`, by sites", "raw", SINGLE, "both with T ≥ 1", SINGLE)
    return grid(header, rows, 1)


def _with_single_runs(kept: Outcomes, contrasts: Sequence[single_runs.Contrast]) -> list[str]:
    """Changes of NLL: the mean over places, then single runs."""
    return [
        text
        for contrast in contrasts
        for text in (str(effect(kept, *contrast)), single_runs.spread(kept, *contrast))
    ]


def _left_out() -> str:
    """Leaving domains out, against both ways to deploy the most accurate checkpoint."""
    rows = []
    for data, name in LEFT_OUT.items():
        kept = read(name)
        for rule in ("lodo-acc", "ac-lodo"):
            found = effect(kept, rule)
            there_ = [r for r in ("source-acc", f"source-acc{SOFT}") if r in kept.values]
            cells = _with_single_runs(kept, [(rule, reference) for reference in there_])
            lacking = ["not measured", ""] * (2 - len(there_))
            counts = found.counts
            rows.append((data, f"`{rule}`", counts, *cells, *lacking))
    header = (
        *("data", "rule", "domains, runs", "− `source-acc`", SINGLE),
        *("− `source-acc` with T ≥ 1", SINGLE),
    )
    return grid(header, rows, 3)


def across(only: Sequence[str], metric: str) -> str:
    """The same rule with both validations; single runs of NLL alone."""
    rows, with_runs = [], metric == NLL
    for _, kept in there(only):
        for rule in BY_GROUPS:
            contrasts = [(f"{rule}@groups{plus}", f"{rule}{plus}") for plus in ("", SOFT)]
            cells = (
                _with_single_runs(kept, contrasts)
                if with_runs
                else [str(effect(kept, *contrast, metric)) for contrast in contrasts]
            )
            rows.append((f"`{rule}`", *cells))
    titles = ("by sites − by images", "the same, both with T ≥ 1")
    header = [text for title in titles for text in (title, *([SINGLE] * with_runs))]
    return grid(("rule", *header), rows, 1)
