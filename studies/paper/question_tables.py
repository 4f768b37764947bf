"""The tables on choosing, averaging and calibrating, from the kept outcomes.

Rows are cohorts, columns recipes. Every cell is the mean of recipe − reference, with its interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from checkwise.words import number
from studies.paper import single_runs
from studies.paper.beside import grid
from studies.paper.cohorts import there, with_five
from studies.paper.effects import effect
from studies.paper.outcomes import Outcomes
from studies.paper.recipes import SOFT

NLL, ACCURACY = "target_nll", "target_accuracy"
CHOOSING = ("ac-nc", "ac-early", "ac-nll", "pure-nll", "last")
AVERAGING = ("mean-probs", "mean-probs-5", "mean-weights", "ac-nc-mean-probs")
SCALING = ("ts", "ts-soften", "ts-max", "ts-oracle")


def table(recipes: Mapping[str, str], reference: str, metric: str) -> str:
    """Recipes (title → name) against one reference."""
    rows = []
    for described, kept in with_five():
        if reference not in kept.values:
            continue
        found = {
            title: effect(kept, name, reference, metric)
            for title, name in recipes.items()
            if name in kept.values
        }
        if not found:
            continue
        counts = " / ".join(dict.fromkeys(each.counts for each in found.values()))
        cells = [str(found[title]) if title in found else "" for title in recipes]
        rows.append((described.data, described.role, counts, *cells))
    return grid(("data", "role", "domains, runs", *recipes), rows, 3)


def same(names: Sequence[str]) -> dict[str, str]:
    """Recipes under their own names."""
    return {f"`{name}`": name for name in names}


def softened(names: Sequence[str]) -> dict[str, str]:
    """Recipes with T ≥ 1 under the names of their rules."""
    return {f"`{name}`": f"{name}{SOFT}" for name in names}


def choosing() -> dict[str, str]:
    """Does choosing by reliability help?"""
    raw, soft = same(CHOOSING), softened([r for r in CHOOSING if r != "ac-nll"])
    return {
        "nll": table(raw, "source-acc", NLL),
        "nll-soft": table(soft, f"source-acc{SOFT}", NLL),
        "accuracy": table(raw, "source-acc", ACCURACY),
        "early": table({"`ac-nc` − `ac-early`": "ac-nc"}, "ac-early", NLL),
        "typical": typical(),
        "single": single_runs.table({**against(raw, "source-acc"), **soft_too(soft)}),
    }


def typical() -> str:
    """What `ac-nc` does to single runs: few large changes can make a mean."""
    rows = [
        (described.data, described.role, str(len(kept.keys)), *single_runs.typical(kept, "ac-nc"))
        for described, kept in with_five()
    ]
    header = (
        *("data", "role", "runs", "mean", "median", "5%-trimmed mean"),
        "runs better / same / worse",
    )
    return grid(header, rows, 2)


def against(recipes: Mapping[str, str], reference: str) -> dict[str, single_runs.Contrast]:
    """Recipes (title → name) with what they are compared with."""
    return {title: (name, reference) for title, name in recipes.items()}


def soft_too(recipes: Mapping[str, str]) -> dict[str, single_runs.Contrast]:
    """The same with T ≥ 1 on both sides."""
    return {
        f"{title}, T ≥ 1": contrast
        for title, contrast in against(recipes, f"source-acc{SOFT}").items()
    }


def averaging() -> dict[str, str]:
    """Does averaging checkpoints help?"""
    raw, soft = same(AVERAGING), {"`mean-probs`": "deploy-mean-probs"}
    return {
        "nll": table(raw, "source-acc", NLL),
        "accuracy": table(raw, "source-acc", ACCURACY),
        "nll-soft": table(
            {f"{title} with T ≥ 1": name for title, name in soft.items()},
            *(f"source-acc{SOFT}", NLL),
        ),
        "single": single_runs.table({**against(raw, "source-acc"), **soft_too(soft)}),
    }


def calibrating() -> dict[str, str]:
    """Which calibrator, and what does it cost?"""
    scaled = {f"`{name}`": f"source-acc+{name}" for name in SCALING}
    return {
        "nll": table(scaled, "source-acc", NLL),
        "single": single_runs.table(against(scaled, "source-acc")),
        "sharpened": sharpened(),
    }


def sharpened() -> str:
    """Where plain temperature scaling sharpens, and what that does."""
    rows = []
    for described, kept in there():
        temperature = kept.temperature("source-acc+ts")
        sharper = temperature < 1
        oracle = kept.temperature("source-acc+ts-oracle")
        cells = (
            f"{int(sharper.sum())} of {int(np.isfinite(temperature).sum())}",
            _among(kept, "source-acc+ts", sharper),
            _among(kept, "source-acc+ts-soften", sharper),
            f"{100 * float((oracle > temperature).mean()):.0f}%",
        )
        rows.append((described.data, described.role, *cells))
    header = (
        "data",
        "role",
        "runs with T < 1",
        "`ts` there",
        "`ts-soften` there",
        "target T larger, of all runs",
    )
    return grid(header, rows, 2)


def _among(kept: Outcomes, recipe: str, keep: np.ndarray) -> str:
    """The mean change over some runs; too few share a domain for an interval."""
    if not keep.any():
        return ""
    table = kept.differences(recipe, "source-acc", [NLL], keep)
    return number(float(table.values[:, 0].mean()), 3, signed=True)
