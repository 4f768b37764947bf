"""The tables of study/harms.md: single runs, single places and saturated validation."""

from __future__ import annotations

from checkwise.selection import FEW_ERRORS
from studies.paper import accuracy_losses, harm_answers
from studies.paper.answer import points
from studies.paper.beside import grid
from studies.paper.cohorts import with_five
from studies.paper.contrast import Claim
from studies.paper.effects import Effect, effect
from studies.paper.outcomes import read
from studies.paper.question_answers import SOFT

RAW = "source-acc"
HARMS = {  # title → recipe, reference
    "`ac-nc`": ("ac-nc", RAW),
    "`ac-early`": ("ac-early", RAW),
    "`pure-nll`": ("pure-nll", RAW),
    "`ts`": ("source-acc+ts", RAW),
    "`ts-soften`": (f"source-acc{SOFT}", RAW),
    "`mean-probs`": ("mean-probs", RAW),
    "`mean-probs`, both T ≥ 1": ("deploy-mean-probs", f"source-acc{SOFT}"),
}
OTHER_VALIDATION = {f"`{name}`": (name, RAW) for name in accuracy_losses.OTHER_VALIDATION}


def parts() -> dict[str, str]:
    """Where does it harm?"""
    rows = [
        (described.data, title, *_harm(effect(kept, *contrast)))
        for described, kept in with_five()
        for title, contrast in {**HARMS, **OTHER_VALIDATION}.items()
        if set(contrast) <= set(kept.values)
    ]
    header = ("data", "recipe", "runs worse", "domains worse", "worst domain", "at a new one, 95%")
    return {
        "answer": harm_answers.answer(),
        "worst": grid(header, rows, 2),
        "accuracy": accuracy_losses.table(),
        "saturation-found": saturation_found(),
        "saturated": saturated(),
    }


def _harm(found: Effect) -> tuple[str, ...]:
    place, value = found.worst
    low, high = found.over.new_place()
    return (
        f"{found.worse} of {found.runs}",
        f"{found.places_worse} of {len(found.names)}",
        f"{place}: {found.text(value)}",
        f"[{found.text(low)}, {found.text(high)}]",
    )


SMALL = "officehome-small"
GUARDED = {**HARMS, "`ac-nc+guard`": ("ac-nc+guard", RAW)}


def saturated() -> str:
    """The five-class problems, by the number of validation errors at the best checkpoint."""
    kept = read(SMALL)
    errors = kept.values["source-acc"]["errors"]
    rows = []
    for title, keep in (
        (f"at most {FEW_ERRORS}", errors <= FEW_ERRORS),
        ("more", errors > FEW_ERRORS),
    ):
        cells = [str(effect(kept, *contrast, keep=keep)) for contrast in GUARDED.values()]
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
                "With the guard (`ac-nc+guard`), which takes the earliest feasible checkpoint "
                f"there, the change is {guarded.plain}.",
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
