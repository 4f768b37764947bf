"""What is asked of a commit: the commands, the data they read, and where each answer goes.

Paths are relative to the folder in which the commands run. The first folder of an answer is its
kind. The words are fixed; ``words.toml`` has what a commit calls them.
"""

from __future__ import annotations

import csv
import random
import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ANSWERS = Path("answers")
TRAINED = Path("trained")
TABLE = Path("table.csv")
CONTRASTS = Path("contrasts.toml")
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
# File in `topics` → kind. The slow ones first.
TOPICS = {
    "callbacks_transformers": "callbacks",
    "callbacks_lightning": "callbacks",
    "callbacks_keras": "callbacks",
    "derive": "derive",
    "deploy": "deploy",
    "callbacks_torch": "callbacks",
    "predict": "predict",
    "live": "live",
    "prune": "prune",
    "imported": "import",
}
TRAINED_KINDS = {"journals", "select", "compare", "deploy", "derive", "page"}
KINDS = {*TRAINED_KINDS, *TOPICS.values(), "logs", "metrics", "registered", "tables"}
# The packed studies of a quick comparison: small, with several rules' answers apart.
QUICK = ("pacs-full", "pacs-ladder")
QUICK_RULES = ("ac-nc", "ac-nll", "source-acc", "last", "pure-nll")


@dataclass(frozen=True)
class Question:
    """One command or topic, and the file or folder for its answer or its refusal.

    ``setup`` marks what others of its batch need; ``page`` is the page that the command writes.
    """

    arguments: list[str]
    answer: str
    prints_json: bool = True
    setup: bool = False
    page: str = ""
    topic: str = ""

    @property
    def kind(self) -> str:
        return Path(self.answer).parts[1]


@dataclass(frozen=True)
class Batch:
    """Questions that one process answers in order."""

    name: str
    questions: list[Question]

    def as_dicts(self) -> list[dict[str, Any]]:
        return [asdict(question) for question in self.questions]


@dataclass(frozen=True)
class Asked:
    """Which questions to put: all, some kinds, or the quick ones of every kind."""

    kinds: Collection[str] = frozenset(KINDS)
    quick: bool = False
    shared: Path | None = None

    @property
    def trains(self) -> bool:
        return bool(TRAINED_KINDS & {*self.kinds})

    def rules(self, known: list[str]) -> list[str]:
        return [rule for rule in known if rule in QUICK_RULES or not self.quick]

    def archives(self, folder: Path) -> list[Path]:
        packed = sorted(folder.glob("*.tar.xz"))
        return [file for file in packed if study_of(file) in QUICK or not self.quick]

    def only(self, batches: Iterable[Batch]) -> list[Batch]:
        """The batches that are left of these kinds, with what they need."""
        chosen = []
        for batch in batches:
            if any(q.kind in self.kinds and not q.setup for q in batch.questions):
                wanted = [q for q in batch.questions if q.setup or q.kind in self.kinds]
                chosen.append(replace(batch, questions=wanted))
        return chosen


def training(workers: int) -> Batch:
    arguments = [*TRAIN, "--workers", str(workers), "--out", str(TRAINED)]
    return Batch("training", [_silent(arguments, "journals")])


def batches(rules: list[str], archives: Iterable[Path], asked: Asked) -> list[Batch]:
    """Every batch that comes after the training, the longest first."""
    shared = asked.shared
    topics = [
        Batch(topic, [Question([], f"{ANSWERS}/{kind}", topic=topic)])
        for topic, kind in TOPICS.items()
    ]
    inputs = [select_batch("table", TABLE, rules), Batch("metrics", list(_metrics()))]
    inputs[0].questions.append(_page("table", TABLE))
    if shared is not None:
        sweeps = sorted(path.name for path in (shared / SWEEPS).glob("*"))
        inputs += [select_batch(name, SHARED / SWEEPS / name, rules) for name in sweeps]
        inputs.append(Batch("trainers' logs", list(_trainers_logs(shared))))
    trained = [*_selections("trained", TRAINED, rules), _compare(TRAINED, rules)]
    trained.append(_page("trained", TRAINED))
    packed = packed_batches(rules, archives)
    return asked.only([*packed, *topics, Batch("trained", trained), *inputs])


def packed_batches(rules: list[str], archives: Iterable[Path]) -> list[Batch]:
    """A study and its inner runs in one batch, because its tables read them."""
    families: dict[str, list[Path]] = {}
    for archive in sorted(archives):
        families.setdefault(study_of(archive).removesuffix("-lodo"), []).append(archive)
    packed = []
    for family, members in families.items():
        unpack = [
            Question(
                ["unpack", str(member.resolve()), "--out", study_of(member)],
                f"{ANSWERS}/unpack/{study_of(member)}.json",
                prints_json=False,
                setup=True,
            )
            for member in members
        ]
        answers = [question for member in members for question in _study(study_of(member), rules)]
        packed.append(Batch(family, [*unpack, *answers]))
    return sorted(packed, key=lambda batch: -len(batch.questions))


def study_of(archive: Path) -> str:
    return archive.name.removesuffix(".tar.xz")


def select_batch(name: str, path: Path, rules: list[str]) -> Batch:
    command = ["select", str(path), "--json"]
    variants = [
        Question([*command, *options], f"{ANSWERS}/select/{name}/{variant}.json")
        for variant, options in VARIANTS.items()
    ]
    return Batch(name, [*_selections(name, path, rules), *variants])


def write_inputs(folder: Path) -> None:
    """A table with ties, near-ties and a target, files of logits and probabilities, contrasts."""
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
    here = Path(__file__).parent
    shutil.copyfile(here / "contrasts.toml", folder / CONTRASTS)
    # The function that `predict` calls, under a name that no checkout has.
    shutil.copyfile(here / "topics" / "small.py", folder / "evaluate.py")


def _study(name: str, rules: list[str]) -> Iterator[Question]:
    yield from _selections(name, Path(name), rules)
    yield _compare(Path(name), rules)
    yield _silent(["tables", name, "--out", f"tables/{name}"], f"tables/{name}")
    yield _page(name, Path(name))
    place = f"{ANSWERS}/registered/{name}"
    # As the packed log has it, and with contrasts that need no logits.
    yield Question(["registered", name, "--json"], f"{place}/packed.json")
    contrasts = ["preregister", name, "--contrasts", str(CONTRASTS), "--json"]
    yield Question(contrasts, f"{place}/contrasts.json")
    yield Question(["registered", name, "--json"], f"{place}/registered.json")


def _selections(name: str, path: Path, rules: list[str]) -> Iterator[Question]:
    for rule in rules:
        arguments = ["select", str(path), "--json", "--rule", rule, *REQUIRED.get(rule, [])]
        yield Question(arguments, f"{ANSWERS}/select/{name}/{rule}.json")


def _compare(cohort: Path, rules: list[str]) -> Question:
    names = ",".join(rule for rule in rules if rule not in REQUIRED)
    arguments = ["compare", str(cohort), "--json", "--rules", names]
    return Question(arguments, f"{ANSWERS}/compare/{cohort}.json")


def _page(name: str, path: Path) -> Question:
    page = f"page-{name}.html"
    arguments = ["report", str(path), "--out", page]
    return Question(arguments, f"{ANSWERS}/page/{name}.json", page=page)


def _metrics() -> Iterator[Question]:
    for classes in (3, 7, 65):
        for kind in ("logits", "float32", "probs"):
            file = f"{kind}-{classes}"
            arguments = ["metrics", f"{file}.npz", "--per-class", "--json"]
            yield Question(arguments, f"{ANSWERS}/metrics/{file}.json")


def _trainers_logs(shared: Path) -> Iterator[Question]:
    """Every file and every folder: users name either."""
    logs = shared / "real-logs"
    for log in sorted(logs.rglob("*")):
        path = SHARED / log.relative_to(shared)
        answer = f"{ANSWERS}/logs/{log.relative_to(logs)}{'/folder' if log.is_dir() else ''}.json"
        yield Question(["select", str(path), "--json"], answer)


def _silent(arguments: list[str], name: str) -> Question:
    return Question(arguments, f"{ANSWERS}/{name}/refused.json", prints_json=False)
