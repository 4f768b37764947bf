"""Other methods beside choosing, on every cohort that has what they need: study/methods.md.

Run by ``make pages``; ``tests/docs`` checks that the page shows what this computes.
"""

from __future__ import annotations

from collections.abc import Iterator

from checkwise.study.tables import HUGE_NLL
from checkwise.words import listed
from studies.page import DOCS, fill
from studies.paper import accuracy_losses, single_runs
from studies.paper.beside import grid
from studies.paper.cohorts import FINE_TUNED, there, with_five
from studies.paper.effects import effect
from studies.paper.interval_words import intervals
from studies.paper.outcomes import METRICS, Outcomes
from studies.paper.recipes import LODO, OTHER_METHODS, WHOLE_RUNS

PAGE = DOCS / "study" / "methods.md"
REFERENCE = "source-acc"
CHOICES = ("ac-nc",)  # beside every method
CALIBRATED = tuple(f"{REFERENCE}+{name}" for name in ("ts", "ts-soften", "ts-max"))
AVERAGES = ("mean-probs", "mean-weights", "ac-nc-mean-probs")
GROUPS = {
    "weights": (*AVERAGES, *WHOLE_RUNS, "eoa", "diwa-uniform", "diwa-greedy"),
    "validation": (*LODO, *(n for n in OTHER_METHODS if n.startswith(("lyu", "mixup", "pair")))),
    "calibration": (
        *CALIBRATED,
        *(n for n in OTHER_METHODS if n.startswith(("wald", "refine", "ac-refine"))),
    ),
    "hyperparameters": ("hparams-acc", "hparams-ac"),
}
AVERAGED = ("swad", "swad-nobn", "dense-swad", "dense-swad-nobn")


def parts() -> dict[str, str]:
    """Every generated part of the page by name."""
    return {
        "intervals": intervals(),
        "batchnorm": batchnorm(),
        **{name: table(names) for name, names in GROUPS.items()},
    }


def batchnorm() -> str:
    """What averages of weights lose without BatchNorm statistics of their own."""
    lines = []
    for described, kept in there(FINE_TUNED):
        counts = {name: failures(kept, name) for name in AVERAGED if _measured(kept, name)}
        lost = [f"`{name}` in {count}" for name, (count, _) in counts.items()]
        huge = [f"`{name}` in {count}" for name, (_, count) in counts.items() if count]
        lines.append(
            f"- {described.data} ({len(kept.keys)} runs): a point of accuracy or more is lost by "
            f"{listed(lost)}. NLL is above {HUGE_NLL:.0f} "
            + (f"with {listed(huge)}." if huge else "in none.")
        )
    return "\n".join(lines)


def failures(kept: Outcomes, name: str) -> tuple[int, int]:
    """Runs that lose a point of accuracy, and runs whose NLL is huge."""
    lost = accuracy_losses.lost(effect(kept, name, REFERENCE, "target_accuracy"))
    return lost, int((kept.values[name]["target_nll"] > HUGE_NLL).sum())


def table(names: tuple[str, ...]) -> str:
    """Every method on every cohort that has it, beside the choice of ac-nc."""
    rows = [
        (described, f"`{name}`", *_row(kept, name))
        for described, kept in _cohorts(names)
        for name in (*CHOICES, *names)
        if _measured(kept, name)
    ]
    header = (
        *("data", "method", "domains, runs", "NLL", single_runs.COLUMN),
        *("median NLL (`source-acc`)", "accuracy, points", "ECE", "CwECE"),
        *("runs that lose a point", f"runs with NLL above {HUGE_NLL:.0f}"),
    )
    return grid(header, rows, 2)


def _cohorts(names: tuple[str, ...]) -> Iterator[tuple[str, Outcomes]]:
    """Cohorts that have at least one of the methods; five algorithms before ERM alone."""
    for described, kept in with_five():
        if any(_measured(kept, each) for each in names):
            yield described.data, kept


def _measured(kept: Outcomes, name: str) -> bool:
    """Whether a cohort has the method; of pair- rows only runs with a penalty do."""
    return METRICS[0] in kept.values.get(name, {})


def _row(kept: Outcomes, name: str) -> tuple[str, ...]:
    nll, *others = (effect(kept, name, REFERENCE, metric) for metric in _SHOWN)
    return (
        *(nll.counts, str(nll)),
        *(single_runs.spread(kept, name), single_runs.medians(kept, name)),
        *(str(change) for change in others),
        *map(str, failures(kept, name)),
    )


_SHOWN = ("target_nll", "target_accuracy", "target_ece", "target_cwece")


def main() -> None:
    for name, content in parts().items():
        fill(PAGE, name, content)


if __name__ == "__main__":
    main()
