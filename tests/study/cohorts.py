"""Cohorts written by hand, following the on-disk contract and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.records import RunKey
from checkwise.store import write_plan
from checkwise.study.folder import mark_done

VERSIONS = {"checkwise": "0.1.0", "torch": "0", "numpy": "0", "python": "3.11"}
METRICS = (
    "accuracy",
    "nll",
    "brier",
    "ece",
    "cwece",
    "hard_ece",
    "hard_cwece",
    "worst_class_accuracy",
)


@dataclass(frozen=True)
class WrittenRun:
    """What one run should say; metrics not given are 0.25 everywhere.

    ``correct`` and ``n`` are the same in every source domain. Held-out journals do not name the
    metrics in ``target_lacks``.
    """

    key: RunKey
    steps: Sequence[int]
    correct: Sequence[int]
    source: Mapping[str, Sequence[float]]
    target_correct: Sequence[int]
    target: Mapping[str, Sequence[float]]
    n: int = 200
    target_n: int = 100
    domains: Sequence[str] = ("art", "photo")
    diverged: Sequence[int] = ()
    target_diverged: Sequence[int] = ()
    target_lacks: Sequence[str] = ()
    finished: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)


def write_cohort(
    path: Path, runs: Sequence[WrittenRun], *, name: str = "tiny", role: str = "development"
) -> Path:
    """Write a cohort folder and return it."""
    path.mkdir(parents=True, exist_ok=True)
    plan = {
        "schema": 1,
        "name": name,
        "role": role,
        "study": {},
        "metrics": {"bins": 15, "bandwidth": 0.1},
        "runs": [{"slug": str(run.key), "key": run.key.as_dict()} for run in runs],
        "versions": VERSIONS,
    }
    (path / "cohort.json").write_text(json.dumps(plan))
    for run in runs:
        _write_run(path / "runs" / str(run.key), run)
    return path


def sign_plan(cohort: Path) -> Path:
    """Give a cohort written by hand the checksum that its plan has when checkwise writes it."""
    write_plan(cohort, json.loads((cohort / "cohort.json").read_text()))
    return cohort


def _write_run(folder: Path, run: WrittenRun) -> None:
    (folder / "heldout").mkdir(parents=True)
    config = {"steps": run.steps[-1] + 1, "bins": 15, "bandwidth": 0.1, **run.extra}
    _write(
        folder / "run.json",
        json.dumps({"schema": 1, "key": run.key.as_dict(), "config": config, "versions": VERSIONS}),
    )
    lines = []
    for t, step in enumerate(run.steps):
        diverged = step in run.diverged
        values = _values(run.correct[t], run.n, run.source, t, diverged)
        lines.append(
            {
                "step": step,
                "diverged": diverged,
                "domains": dict.fromkeys(run.domains, values),
                "train": {"loss": 0.5},
            }
        )
    _write(folder / "source.jsonl", _jsonl(lines))
    for domain in run.key.held_out:
        held = []
        for t, step in enumerate(run.steps):
            diverged = step in run.target_diverged
            values = _values(run.target_correct[t], run.target_n, run.target, t, diverged)
            kept = {name: v for name, v in values.items() if name not in run.target_lacks}
            held.append({"step": step, "diverged": diverged, "split": "in", **kept})
        _write(folder / "heldout" / f"{domain}.jsonl", _jsonl(held))
    if run.finished:
        files = {
            str(file.relative_to(folder)): {
                "bytes": file.stat().st_size,
                "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
            }
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }
        done = {"schema": 1, "last_step": run.steps[-1], "files": files}
        _write(folder / "done", json.dumps(done))


def mark_again(folder: Path) -> None:
    """Renew the mark of a finished run, as if the run itself had written the files it has now."""
    if (folder / "done").is_file():
        mark_done(folder, json.loads((folder / "done").read_text())["last_step"])


def _values(
    correct: int, n: int, given: Mapping[str, Sequence[float]], t: int, diverged: bool
) -> dict[str, Any]:
    if diverged:
        return {"n": n, "correct": None, **dict.fromkeys(METRICS)}
    metrics = {name: given[name][t] if name in given else 0.25 for name in METRICS[1:]}
    return {"n": n, "correct": correct, "accuracy": correct / n, **metrics}


def _jsonl(lines: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def key(algorithm: str, trial: int, held_out: tuple[str, ...] = ("sketch",)) -> RunKey:
    """A run of the tiny cohort."""
    return RunKey("PACS", algorithm, held_out, 0, trial)


STEPS = (100, 200, 300)
PLATEAU = (180, 179, 160)  # of 200: 90.0, 89.5 (the edge of the tolerance), 80.0 percent
ALONE = (180, 170, 160)
SOURCE = {"nll": (0.7, 0.4, 0.3), "cwece": (0.02, 0.01, 0.008), "ece": (0.03, 0.02, 0.01)}


def tiny_runs() -> list[WrittenRun]:
    """Three finished runs and an unfinished one, small enough to work out on paper.

    source-acc takes step 100 everywhere. ac-nc takes step 200, except in the last finished run,
    where only step 100 is feasible.
    """
    return [
        WrittenRun(
            key("ERM", 0),
            STEPS,
            PLATEAU,
            SOURCE,
            (60, 62, 50),
            {"nll": (1.5, 1.2, 1.0), "cwece": (0.040, 0.030, 0.02)},
        ),
        WrittenRun(
            key("ERM", 1),
            STEPS,
            PLATEAU,
            SOURCE,
            (50, 49, 45),
            {"nll": (2.0, 1.9, 1.5), "cwece": (0.050, 0.055, 0.03)},
        ),
        WrittenRun(
            key("IRM", 0),
            STEPS,
            ALONE,
            SOURCE,
            (40, 45, 45),
            {"nll": (3.0, 2.0, 1.5), "cwece": (0.060, 0.050, 0.03)},
            diverged=(300,),
        ),
        WrittenRun(key("IRM", 1), STEPS[:2], PLATEAU[:2], SOURCE, (1, 1), {}, finished=False),
    ]


def trained_with(*rates: object) -> list[WrittenRun]:
    """The tiny runs (ERM 0, ERM 1, IRM 0, IRM 1) with these learning rates."""
    return [
        replace(run, extra={"hparams": {"lr": rate}})
        for run, rate in zip(tiny_runs(), rates, strict=False)
    ]


def demo_like(path: Path, *, runs_per_algorithm: int = 6, seed: int = 0) -> Path:
    """A cohort that looks like real training, for the page: 51 checkpoints, five algorithms."""
    random = np.random.default_rng(seed)
    runs = []
    steps = tuple(range(0, 1001, 20))
    t = np.arange(len(steps))
    for algorithm in ("ERM", "CORAL", "GroupDRO", "IRM", "VREx"):
        for trial in range(runs_per_algorithm):
            domain = ("0", "30", "60")[trial % 3]
            accuracy = 0.965 - 0.85 * np.exp(-t / 4.0) + random.normal(0, 0.002, len(t))
            source_nll = (
                0.12 + 2.1 * np.exp(-t / 4.0) + 0.0018 * t + random.normal(0, 0.004, len(t))
            )
            cwece = 0.002 + 0.02 * np.exp(-t / 5.0) + 0.00006 * t + random.normal(0, 2e-4, len(t))
            target = 0.80 - 0.7 * np.exp(-t / 4.0) + random.normal(0, 0.008, len(t))
            target_nll = 0.7 + 1.6 * np.exp(-t / 4.0) + 0.012 * t + random.normal(0, 0.05, len(t))
            target_cwece = 0.010 + 0.0004 * t + random.normal(0, 0.001, len(t))
            clip = np.clip
            runs.append(
                WrittenRun(
                    RunKey("RotatedMNIST", algorithm, (domain,), 0, trial),
                    steps,
                    clip(np.rint(1000 * accuracy), 0, 1000).astype(int).tolist(),
                    {
                        "nll": clip(source_nll, 1e-3, None).tolist(),
                        "cwece": clip(cwece, 0, 1).tolist(),
                        "ece": clip(1.3 * cwece, 0, 1).tolist(),
                    },
                    clip(np.rint(800 * target), 0, 800).astype(int).tolist(),
                    {
                        "nll": clip(target_nll, 1e-3, None).tolist(),
                        "cwece": clip(target_cwece, 0, 1).tolist(),
                        "ece": clip(1.4 * target_cwece, 0, 1).tolist(),
                    },
                    n=1000,
                    target_n=800,
                    domains=tuple(d for d in ("0", "15", "30", "45", "60", "75") if d != domain),
                    extra={"hparams": {"lr": (1e-3, 3e-4)[trial % 2]}},
                )
            )
    return write_cohort(path, runs, name="demo")
