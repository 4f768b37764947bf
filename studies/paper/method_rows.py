"""Other methods beside choosing, on every cohort that has what they need."""

from __future__ import annotations

from collections.abc import Iterator

from checkwise.study.tables import HUGE_NLL
from studies.paper import accuracy_losses, single_runs
from studies.paper.beside import grid
from studies.paper.cohorts import FINE_TUNED, there, with_five
from studies.paper.effects import effect
from studies.paper.outcomes import METRICS, Outcomes
from studies.paper.recipes import LODO, OTHER_METHODS, WHOLE_RUNS

REFERENCE = "source-acc"
CHOICES = ("ac-nc",)  # beside every method
SHORT = (
    "eoa",
    "diwa-uniform",
    "swad",
    "swad-nobn",
    "lyu-mmd",
    "mixup-loss",
    "wald-isotonic",
    "hparams-ac",
)
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


def parts() -> dict[str, str]:
    """Every table by name."""
    return {name: table(names) for name, names in GROUPS.items()}


def short() -> str:
    """Methods on features of ResNet-50 and on fine-tuned networks: NLL, accuracy, failures."""
    rows = []
    for described, kept in there(("pacs-resnet50", *FINE_TUNED)):
        for name in (*CHOICES, *AVERAGES[:2], *SHORT):
            if _measured(kept, name):
                nll, accuracy = (effect(kept, name, REFERENCE, metric) for metric in _SHOWN[:2])
                counts = (nll.counts, str(nll), str(accuracy), str(failures(kept, name)[0]))
                rows.append((described.data, f"`{name}`", *counts))
    header = (
        "data",
        "method",
        "domains, runs",
        "NLL",
        "accuracy, points",
        "runs that lose a point",
    )
    return grid(header, rows, 2)


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
