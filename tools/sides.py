"""One side of a comparison: a commit's source in a folder of its own, and all its answers."""

from __future__ import annotations

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
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import questions

ROOT = Path(__file__).resolve().parent.parent
ARCHIVES = sorted((ROOT / "docs/study/data").glob("*.tar.xz"))
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


def answers(side: Side, *, folder: Path, shared: Path | None, keep: Path | None) -> Path:
    """The folder of the side's answers, from ``keep`` if they are there."""
    if keep is None or side.commit is None:
        return _ask(side, folder, shared)
    place = keep / f"{side.commit[:12]}-{_digest(shared)}"
    if place.is_dir():
        print(f"{side.label}: answers from {place}", flush=True)
        return place
    keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=keep) as partial:
        whole = shutil.copytree(_ask(side, folder, shared), Path(partial) / "answers")
        whole.rename(place)
    return place


def _ask(side: Side, folder: Path, shared: Path | None) -> Path:
    started = time.monotonic()
    source = _export(side, folder / "src")
    work = folder / "work"
    work.mkdir()
    questions.write_inputs(work)
    if shared is not None:
        (work / questions.SHARED).symlink_to(shared.resolve())
    _answer(questions.training(PROCESSES), source, work)
    rules = _rules(source, work)
    pending = questions.batches(rules, ARCHIVES, shared)
    print(f"{side.label}: training, {time.monotonic() - started:.0f} s", flush=True)
    with ThreadPoolExecutor(PROCESSES) as pool:
        running = {pool.submit(_answer, batch, source, work): batch for batch in pending}
        for number, done in enumerate(as_completed(running), start=1):
            done.result()
            progress = f"{number} of {len(pending)}: {running[done].name}"
            print(f"{side.label}: {progress}, {time.monotonic() - started:.0f} s", flush=True)
    _gather(work)
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


def _rules(source: Path, work: Path) -> list[str]:
    listed = _python(["-m", "checkwise", "rules", "--json"], source, work)
    return [rule["name"] for rule in json.loads(listed)["rules"]]


def _answer(batch: questions.Batch, source: Path, work: Path) -> None:
    ask = Path(__file__).with_name("ask.py")
    _python([str(ask)], source, work, text=batch.to_json())


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


def _gather(work: Path) -> None:
    """Put the files that commands wrote beside what they printed."""
    trained = work / questions.TRAINED
    for pattern in JOURNALS:
        for file in trained.glob(pattern):
            _copy(file, work / questions.ANSWERS / "journals" / file.relative_to(trained))
    for file in (work / "tables").glob("*/*.csv"):
        _copy(file, work / questions.ANSWERS / file.relative_to(work))


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)


def _digest(shared: Path | None) -> str:
    """Names the questions and what they read: kept answers to other questions do not count."""
    digest = hashlib.sha256(Path(__file__).with_name("ask.py").read_bytes())
    for batch in [questions.training(PROCESSES), *questions.batches(["RULE"], [], shared)]:
        digest.update(batch.to_json().encode())
    with tempfile.TemporaryDirectory() as inputs:
        questions.write_inputs(Path(inputs))
        for file in [*ARCHIVES, *sorted(Path(inputs).iterdir())]:
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:8]
