"""What is asked of a commit: the commands, the data they read, and where each answer goes.

Paths are relative to the folder in which the commands run.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

ANSWERS = Path("answers")
TRAINED = Path("trained")
TABLE = Path("table.csv")
# A link to the folder given by --shared.
SHARED = Path("shared")
SWEEPS = "domainbed-logs"
# The shipped demo study, four of its thirty runs.
TRAIN = ["sweep", "demo", "--algorithm", "ERM", "--algorithm", "CORAL", "--held-out", "75"]
REQUIRED = {"ac": ["--objectives", "nll,cwece"], "wald": ["--threshold-pp", "10"]}
VARIANTS = {
    "q-1": ["--q", "1"],
    "q-2": ["--q", "2", "--delta-pp", "1"],
    "tolerance-0": ["--delta-pp", "0"],
    "pareto": ["--pareto"],
    "worst-domain": ["--worst-domain"],
    "weights-sample": ["--weights", "sample"],
    "guarantee": ["--guarantee", "--alpha", "0.1"],
}


@dataclass(frozen=True)
class Question:
    """One command, and the file for what it prints or for its refusal."""

    arguments: list[str]
    answer: str
    prints_json: bool = True


@dataclass(frozen=True)
class Batch:
    """Questions that one process answers in order."""

    name: str
    questions: list[Question]

    def to_json(self) -> str:
        return json.dumps([asdict(question) for question in self.questions])


def training(workers: int) -> Batch:
    arguments = [*TRAIN, "--workers", str(workers), "--out", str(TRAINED)]
    return Batch("training", [_silent(arguments, "journals")])


def batches(rules: list[str], archives: Iterable[Path], shared: Path | None) -> list[Batch]:
    """Every batch that comes after the training, the longest first."""
    inputs = [select_batch("table", TABLE, rules), Batch("metrics", list(_metrics()))]
    if shared is not None:
        sweeps = sorted(path.name for path in (shared / SWEEPS).glob("*"))
        inputs += [select_batch(name, SHARED / SWEEPS / name, rules) for name in sweeps]
        inputs.append(Batch("trainers' logs", list(_trainers_logs(shared))))
    trained = Batch("trained", [*_selections("trained", TRAINED, rules), _compare(TRAINED, rules)])
    return [*packed_batches(rules, archives), trained, *inputs]


def packed_batches(rules: list[str], archives: Iterable[Path]) -> list[Batch]:
    """A study and its inner runs in one batch, because its tables read them."""
    families: dict[str, list[Path]] = {}
    for archive in sorted(archives):
        study = archive.name.removesuffix(".tar.xz")
        families.setdefault(study.removesuffix("-lodo"), []).append(archive)
    packed = []
    for family, members in families.items():
        names = [member.name.removesuffix(".tar.xz") for member in members]
        unpack = [
            _silent(["unpack", str(member.resolve()), "--out", name], f"unpack/{name}")
            for member, name in zip(members, names, strict=True)
        ]
        answers = [question for name in names for question in _study(name, rules)]
        packed.append(Batch(family, [*unpack, *answers]))
    return sorted(packed, key=lambda batch: -len(batch.questions))


def select_batch(name: str, path: Path, rules: list[str]) -> Batch:
    command = ["select", str(path), "--json"]
    variants = [
        Question([*command, *options], f"{ANSWERS}/select/{name}/{variant}.json")
        for variant, options in VARIANTS.items()
    ]
    return Batch(name, [*_selections(name, path, rules), *variants])


def write_inputs(folder: Path) -> None:
    """A table with ties, near-ties and a target, and files of logits and probabilities."""
    draw = random.Random(0)
    with (folder / TABLE).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "domain", "role", "n", "accuracy", "nll", "ece", "cwece"])
        for step in range(0, 4000, 100):
            for domain, n in (("photo", 150), ("sketch", 90), ("clipart", 60), ("unseen", 80)):
                role = "target" if domain == "unseen" else "source"
                correct = n * 4 // 5 - draw.choice((0, 0, 0, 1, 3))
                nll, ece = draw.randint(4, 5) / 10, draw.randint(1, 2) / 100
                cwece = draw.randint(1, 2) / 100
                writer.writerow([step, domain, role, n, correct / n, nll, ece, cwece])
    rng = np.random.default_rng(0)
    for classes, examples in ((3, 300), (7, 2000), (65, 3000)):
        logits = rng.normal(scale=3, size=(examples, classes))
        labels = rng.integers(0, classes, size=examples)
        np.savez(folder / f"logits-{classes}.npz", logits=logits, labels=labels)
        np.savez(folder / f"float32-{classes}.npz", logits=logits.astype("f4"), labels=labels)
        odds = np.exp(logits)
        probs = odds / odds.sum(axis=1, keepdims=True)
        np.savez(folder / f"probs-{classes}.npz", probs=probs, labels=labels)


def _study(name: str, rules: list[str]) -> Iterable[Question]:
    yield from _selections(name, Path(name), rules)
    yield _compare(Path(name), rules)
    yield _silent(["tables", name, "--out", f"tables/{name}"], f"tables/{name}")


def _selections(name: str, path: Path, rules: list[str]) -> Iterable[Question]:
    for rule in rules:
        arguments = ["select", str(path), "--json", "--rule", rule, *REQUIRED.get(rule, [])]
        yield Question(arguments, f"{ANSWERS}/select/{name}/{rule}.json")


def _compare(cohort: Path, rules: list[str]) -> Question:
    names = ",".join(rule for rule in rules if rule not in REQUIRED)
    arguments = ["compare", str(cohort), "--json", "--rules", names]
    return Question(arguments, f"{ANSWERS}/compare/{cohort}.json")


def _metrics() -> Iterable[Question]:
    for classes in (3, 7, 65):
        for kind in ("logits", "float32", "probs"):
            file = f"{kind}-{classes}"
            arguments = ["metrics", f"{file}.npz", "--per-class", "--json"]
            yield Question(arguments, f"{ANSWERS}/metrics/{file}.json")


def _trainers_logs(shared: Path) -> Iterable[Question]:
    logs = shared / "real-logs"
    for log in sorted([*logs.glob("*/*.csv"), *logs.glob("*/*.json")]):
        path = SHARED / log.relative_to(shared)
        answer = f"{ANSWERS}/select/logs/{log.parent.name}/{log.stem}.json"
        yield Question(["select", str(path), "--json"], answer)


def _silent(arguments: list[str], name: str) -> Question:
    return Question(arguments, f"{ANSWERS}/{name}/refused.json", prints_json=False)
