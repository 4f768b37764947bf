"""The tables of the study's pages, one page per question, from the kept outcomes.

Rows are cohorts, columns recipes. Every cell is the mean over held-out domains of recipe −
reference, with a t interval over these domains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import question_answers
from answer import points
from beside import grid
from cohorts import there
from contrast import Claim
from effects import Effect, effect
from outcomes import Outcomes, read
from scipy.stats import trim_mean

from checkwise.selection.saturation import FEW_ERRORS
from checkwise.text import number
from page import fill

STUDY = Path(__file__).parents[1] / "study"
NLL, ACCURACY = "target_nll", "target_accuracy"
SOFT = "+ts-soften"
CHOOSING = ("ac-nc", "ac-early", "ac-nll", "pure-nll", "last")
AVERAGING = ("mean-probs", "mean-probs-5", "mean-weights", "ac-nc-mean-probs")
SCALING = ("ts", "ts-soften", "ts-max", "ts-mix", "ts-oracle")
LEFT_OUT = {  # data → cohort with inner runs
    "camera traps, 4 regions": "taicam-frozen",
    "OfficeHome": "officehome-frozen",
    "PACS": "pacs-frozen",
}
TRIMMED = 0.05  # of the runs at each end
BY_GROUPS = ("source-acc", "ac-nc", "ac-early", "pure-nll")


def table(
    recipes: Mapping[str, str],
    reference: str,
    metric: str,
    only: Sequence[str] = (),
) -> str:
    """Recipes (title → name) against one reference."""
    rows = []
    for described, kept in there(only):
        if reference not in kept.values:
            continue
        found = {
            title: effect(kept, name, reference, metric) if name in kept.values else None
            for title, name in recipes.items()
        }
        if not any(found.values()):
            continue
        cells = [str(each) if each is not None else "" for each in found.values()]
        rows.append((described.data, described.role, _counts(found.values()), *cells))
    return grid(("data", "role", "domains, runs", *recipes), rows, 3)


def _counts(found: object) -> str:
    some = next(each for each in found if isinstance(each, Effect))  # type: ignore[attr-defined]
    return f"{len(some.names)}, {some.runs}"


def same(names: Sequence[str]) -> dict[str, str]:
    """Recipes under their own names."""
    return {f"`{name}`": name for name in names}


def softened(names: Sequence[str]) -> dict[str, str]:
    """Recipes with T ≥ 1 under the names of their rules."""
    return {f"`{name}`": f"{name}{SOFT}" for name in names}


def choosing() -> dict[str, str]:
    """Does choosing by reliability help?"""
    return {
        "answer": question_answers.choosing(),
        "nll": table(same(CHOOSING), "source-acc", NLL),
        "nll-soft": table(
            softened([r for r in CHOOSING if r != "ac-nll"]), f"source-acc{SOFT}", NLL
        ),
        "accuracy": table(same(CHOOSING), "source-acc", ACCURACY),
        "early": table({"`ac-nc` − `ac-early`": "ac-nc"}, "ac-early", NLL),
        "typical": typical(),
    }


def typical() -> str:
    """What happens to single runs: few large changes can make a mean."""
    rows = []
    for described, kept in there():
        found = kept.differences("ac-nc", "source-acc", [NLL]).values[:, 0]
        cells = (np.mean(found), np.median(found), trim_mean(found, TRIMMED))
        counts = ((found < 0).sum(), (found == 0).sum(), (found > 0).sum())
        rows.append(
            (
                *(described.data, described.role, str(len(found))),
                *(number(float(cell), 3, signed=True) for cell in cells),
                " / ".join(str(int(count)) for count in counts),
            )
        )
    header = (
        *("data", "role", "runs", "mean", "median", "5%-trimmed mean"),
        "runs better / same / worse",
    )
    return grid(header, rows, 2)


def averaging() -> dict[str, str]:
    """Does averaging checkpoints help?"""
    return {
        "answer": question_answers.averaging(),
        "nll": table(same(AVERAGING), "source-acc", NLL),
        "accuracy": table(same(AVERAGING), "source-acc", ACCURACY),
        "nll-soft": table(
            {"`mean-probs` with T ≥ 1": "deploy-mean-probs"}, f"source-acc{SOFT}", NLL
        ),
    }


def calibrating() -> dict[str, str]:
    """Which calibrator, and what does it cost?"""
    scaled = {f"`{name}`": f"source-acc+{name}" for name in SCALING}
    return {
        "answer": question_answers.calibrating(),
        "nll": table(scaled, "source-acc", NLL),
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
        "target T larger",
    )
    return grid(header, rows, 2)


def _among(kept: Outcomes, recipe: str, keep: np.ndarray) -> str:
    """The mean change over some runs; too few share a domain for an interval."""
    if not keep.any():
        return ""
    table = kept.differences(recipe, "source-acc", [NLL], keep)
    return number(float(table.values[:, 0].mean()), 3, signed=True)


def validating() -> dict[str, str]:
    """Does validating on unseen groups choose better?"""
    only = ("taicam-sites",)
    return {
        "answer": question_answers.validating(),
        "nll": _across(only, NLL),
        "accuracy": _across(only, ACCURACY),
        "rules": _inside(only),
        "lodo": _left_out(),
    }


def _inside(only: Sequence[str]) -> str:
    """Rules against the most accurate checkpoint, both validated by sites."""
    rows = [
        (
            f"`{rule}`",
            *(
                str(effect(kept, f"{rule}@groups{plus}", f"source-acc@groups{plus}"))
                for plus in ("", SOFT)
            ),
        )
        for _, kept in there(only)
        for rule in BY_GROUPS
        if rule != "source-acc"
    ]
    return grid(("rule − `source-acc`, by sites", "raw", "both with T ≥ 1"), rows, 1)


def _left_out() -> str:
    """Leaving domains out, against both ways to deploy the most accurate checkpoint."""
    rows = []
    for data, name in LEFT_OUT.items():
        kept = read(name)
        for rule in ("lodo-acc", "ac-lodo"):
            found = effect(kept, rule)
            soft = f"source-acc{SOFT}"
            against = str(effect(kept, rule, soft)) if soft in kept.values else "not measured"
            counts = f"{len(found.names)}, {found.runs}"
            rows.append((data, f"`{rule}`", counts, str(found), against))
    header = ("data", "rule", "domains, runs", "− `source-acc`", "− `source-acc` with T ≥ 1")
    return grid(header, rows, 3)


def _across(only: Sequence[str], metric: str) -> str:
    rows = []
    for _, kept in there(only):
        for rule in BY_GROUPS:
            cells = [
                str(effect(kept, f"{rule}@groups{plus}", f"{rule}{plus}", metric))
                for plus in ("", SOFT)
            ]
            rows.append((f"`{rule}`", *cells))
    header = ("rule", "by sites − by images", "the same, both with T ≥ 1")
    return grid(header, rows, 1)


HARMS = {
    "`ac-nc`": "ac-nc",
    "`ac-early`": "ac-early",
    "`pure-nll`": "pure-nll",
    "`ts`": "source-acc+ts",
    "`ts-soften`": "source-acc+ts-soften",
    "`mean-probs`": "mean-probs",
    "`mean-probs`, T ≥ 1": "deploy-mean-probs",
}


def harms() -> dict[str, str]:
    """Where does it harm?"""
    rows = [
        (described.data, title, *_harm(effect(kept, name)))
        for described, kept in there()
        for title, name in HARMS.items()
        if name in kept.values
    ]
    header = ("data", "recipe", "runs worse", "domains worse", "worst domain", "at a new one, 95%")
    return {
        "answer": question_answers.harms(),
        "worst": grid(header, rows, 2),
        "saturation-found": saturation_found(),
        "saturated": saturated(),
    }


def _harm(found: Effect) -> tuple[str, ...]:
    place, value = found.worst
    low, high = found.over.new_place()
    return (
        f"{found.worse} of {found.runs}",
        f"{int((found.values > 0).sum())} of {len(found.names)}",
        f"{place}: {found.text(value)}",
        f"[{found.text(low)}, {found.text(high)}]",
    )


SMALL = "officehome-small"
GUARDED = {**HARMS, "`ac-nc+guard`": "ac-nc+guard"}


def saturated() -> str:
    """The five-class problems, by the number of validation errors at the best checkpoint."""
    kept = read(SMALL)
    errors = kept.values["source-acc"]["errors"]
    rows = []
    for title, keep in (
        (f"at most {FEW_ERRORS}", errors <= FEW_ERRORS),
        ("more", errors > FEW_ERRORS),
    ):
        cells = [str(effect(kept, name, keep=keep)) for name in GUARDED.values()]
        rows.append((title, str(int(keep.sum())), *cells))
    return grid(("validation errors", "runs", *GUARDED), rows, 1)


def saturation_found() -> str:
    """What that says, checked."""
    kept = read(SMALL)
    few = kept.values["source-acc"]["errors"] <= FEW_ERRORS
    raw, guarded = (effect(kept, name, keep=few) for name in ("ac-nc", "ac-nc+guard"))
    plain = kept.temperature("source-acc+ts") < 1
    soft = effect(kept, f"source-acc{SOFT}", keep=few)
    left = effect(kept, f"ac-nc{SOFT}", f"source-acc{SOFT}", keep=few)
    return points(
        [
            Claim(
                f"That harm of `ac-nc` is not found here: {raw.plain} in the {int(few.sum())} of "
                f"{len(few)} runs with at most {FEW_ERRORS} validation errors. The mean points the "
                "same way and is far smaller.",
                (0 < raw.mean < 0.1, not raw.excludes_zero),
            ),
            Claim(
                f"The guard, which takes the earliest feasible checkpoint there, leaves "
                f"{guarded.plain}.",
                (abs(guarded.mean) < abs(raw.mean),),
            ),
            Claim(
                f"Plain temperature scaling sharpened in {int((plain & few).sum())} of these "
                f"{int(few.sum())} runs. T ≥ 1 changes NLL by {soft.plain} there; with T ≥ 1 on "
                f"both sides `ac-nc` changes it by {left.plain}.",
                ((plain & few).sum() > few.sum() / 2, soft.mean < 0, not left.excludes_zero),
            ),
        ]
    )


PAGES = {
    "choosing": choosing,
    "averaging": averaging,
    "calibrating": calibrating,
    "validating": validating,
    "harms": harms,
}


def main() -> None:
    for name, parts in PAGES.items():
        for part, content in parts().items():
            fill(STUDY / f"{name}.md", part, content)


if __name__ == "__main__":
    main()
