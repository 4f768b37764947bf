"""The tables on harm: single runs, single places and saturated validation."""

from __future__ import annotations

from checkwise.selection import FEW_ERRORS
from studies.paper import accuracy_losses
from studies.paper.beside import grid
from studies.paper.cohorts import with_five
from studies.paper.effects import Effect, effect
from studies.paper.outcomes import read
from studies.paper.recipes import SITES, SOFT

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
        "worst": grid(header, rows, 2),
        "accuracy": accuracy_losses.table(),
        "saturated": saturated(),
    }


def on_places() -> str:
    """What each recipe does to single runs and places on the 24 places: NLL, then accuracy."""
    rows = []
    for title, (name, reference) in {**HARMS, **OTHER_VALIDATION}.items():
        if name in read(SITES).values:
            nll, accuracy = (
                effect(SITES, name, reference, metric)
                for metric in ("target_nll", "target_accuracy")
            )
            (_, value), (low, high) = nll.worst, nll.over.new_place()
            rows.append(
                (
                    *(
                        title,
                        f"{nll.worse} of {nll.runs}",
                        f"{nll.places_worse} of {len(nll.names)}",
                    ),
                    *(nll.text(value), f"[{nll.text(low)}, {nll.text(high)}]"),
                    f"{accuracy_losses.lost(accuracy)} of {accuracy.runs}",
                )
            )
    header = (
        *("recipe", "runs with higher NLL", "places with higher NLL", "worst place"),
        *("at a new one, 95%", "runs that lose a point of accuracy"),
    )
    return grid(header, rows, 1)


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
