"""One side of a comparison: a commit's source in a folder of its own, and all its answers."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import questions
from questions import Asked
from words import Words

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
ARCHIVES = ROOT / "studies/data"
WORDS = "tools/words.toml"
PROCESSES = 2
JOURNALS = ("cohort.json", "runs/*/run.json", "runs/*/source.jsonl", "runs/*/heldout/*.jsonl")


@dataclass(frozen=True)
class Side:
    """A commit, or the working tree if ``commit`` is None."""

    label: str
    commit: str | None

    @classmethod
    def named(cls, revision: str | None) -> Side:
        if revision is None:
            return cls("working tree", None)
        command = ["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"]
        parsed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if parsed.returncode != 0:
            raise SystemExit(f"Expected a commit of this repository, but got {revision!r}.")
        return cls(revision, parsed.stdout.strip())

    @property
    def words(self) -> Words:
        """What it calls things; a commit without the file calls them as the questions do."""
        if self.commit is None:
            return Words.parse((ROOT / WORDS).read_text())
        command = ["git", "show", f"{self.commit}:{WORDS}"]
        shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        return Words.parse(shown.stdout if shown.returncode == 0 else "")


def answers(side: Side, asked: Asked, *, folder: Path, keep: Path | None) -> Path:
    """The folder of the side's answers, from ``keep`` if they are there."""
    if keep is None or side.commit is None:
        return _ask(side, asked, folder)
    place = keep / f"{side.commit[:12]}-{_digest(side, asked)}"
    if place.is_dir():
        print(f"{side.label}: answers from {place}", flush=True)
        return place
    keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=keep) as partial:
        whole = shutil.copytree(_ask(side, asked, folder), Path(partial) / "answers")
        whole.rename(place)
    return place


def _ask(side: Side, asked: Asked, folder: Path) -> Path:
    started = time.monotonic()
    source = _export(side, folder / "src")
    work = folder / "work"
    work.mkdir()
    questions.write_inputs(work)
    if asked.shared is not None:
        (work / questions.SHARED).symlink_to(asked.shared.resolve())
    words = side.words
    if asked.trains:
        _answer(questions.training(PROCESSES), words, source, work)
        print(f"{side.label}: training, {time.monotonic() - started:.0f} s", flush=True)
    rules = asked.rules(_rules(words, source, work))
    pending = questions.batches(rules, asked.archives(ARCHIVES), asked)
    with ThreadPoolExecutor(PROCESSES) as pool:
        running = {pool.submit(_answer, batch, words, source, work): batch for batch in pending}
        for number, done in enumerate(as_completed(running), start=1):
            done.result()
            progress = f"{number} of {len(pending)}: {running[done].name}"
            print(f"{side.label}: {progress}, {time.monotonic() - started:.0f} s", flush=True)
    for kind, file, place in _written(work):
        if kind in asked.kinds:
            _copy(file, work / questions.ANSWERS / kind / words.file(str(place)), kind, words)
    (work / questions.ANSWERS).mkdir(exist_ok=True)
    return work / questions.ANSWERS


def _export(side: Side, source: Path) -> Path:
    if side.commit is None:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src", source, ignore=ignore)
    else:
        archive = ["git", "archive", "--format=tar", f"{side.commit}:src"]
        packed = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(source, filter="data")
    where = _python(["-c", "import checkwise; print(checkwise.__file__)"], source, source)
    if not Path(where.strip()).is_relative_to(source):
        raise SystemExit(f"Expected checkwise from {source}, but Python imports {where.strip()}.")
    return source


def _rules(words: Words, source: Path, work: Path) -> list[str]:
    (command,) = words.command(["rules", "--json"])
    listed = words.answer("rules", json.loads(_python(["-m", "checkwise", *command], source, work)))
    return [rule["name"] for rule in listed["rules"]]


def _answer(batch: questions.Batch, words: Words, source: Path, work: Path) -> None:
    asked = {"words": asdict(words), "questions": batch.as_dicts()}
    _python([str(TOOLS / "ask.py")], source, work, text=json.dumps(asked))


def _python(arguments: list[str], source: Path, work: Path, text: str | None = None) -> str:
    # Sums over sets of names depend on the hash seed in their last digit.
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONHASHSEED": "0"}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=work, env=environment, input=text, stdout=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"Expected `{' '.join(command)}` to end well, but it did not: see above.")
    return done.stdout


def _written(work: Path) -> Iterator[tuple[str, Path, Path]]:
    """Files that commands wrote, which go beside what they printed: kind, file, place."""
    trained = work / questions.TRAINED
    for pattern in JOURNALS:
        for file in trained.glob(pattern):
            yield "journals", file, file.relative_to(trained)
    for file in (work / "tables").rglob("*.csv"):
        yield "tables", file, file.relative_to(work / "tables")


def _copy(file: Path, to: Path, kind: str, words: Words) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if not words.renames_answers:
        shutil.copyfile(file, to)
    elif file.suffix == ".csv":
        with file.open(newline="") as opened, to.open("w", newline="") as written:
            csv.writer(written, lineterminator="\n").writerows(
                words.table(list(csv.reader(opened)))
            )
    else:
        texts = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
        said = [json.dumps(words.answer(kind, json.loads(text))) for text in texts]
        to.write_text("".join(f"{line}\n" for line in said))


def _digest(side: Side, asked: Asked) -> str:
    """Names the questions and what they read: kept answers to other questions do not count."""
    digest = hashlib.sha256(json.dumps(asdict(side.words)).encode())
    for file in [TOOLS / "ask.py", TOOLS / "page_facts.py", *sorted(TOOLS.glob("topics/*.py"))]:
        digest.update(file.read_bytes())
    batches = questions.batches(asked.rules(list(questions.QUICK_RULES)), [], asked)
    for batch in [questions.training(PROCESSES), *batches]:
        digest.update(json.dumps(batch.as_dicts()).encode())
    with tempfile.TemporaryDirectory() as inputs:
        questions.write_inputs(Path(inputs))
        for file in [*asked.archives(ARCHIVES), *sorted(Path(inputs).iterdir())]:
            digest.update(file.name.encode() + file.read_bytes())
    digest.update(json.dumps([sorted(asked.kinds), asked.quick]).encode())
    return digest.hexdigest()[:8]
