"""Commands on cohorts of 1,000 to 100,000 finished runs: is time and memory linear in the runs?

Run with ``python -m benchmarks.large_cohorts [RUNS …]``. Every command runs in a process of its
own; processor time and the largest memory of that process are reported, and what one run costs at
the largest size against the smallest.
"""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.study import _entries
from checkwise.records import RunKey
from checkwise.study.folder import write_cohort

SIZES = (1_000, 10_000, 100_000)
ALGORITHMS = ("CORAL", "ERM", "GroupDRO", "IRM", "VREx")
DOMAINS = ("a", "b", "c", "d")
CHECKPOINTS = 11
STUDY = {
    "steps": 100 * (CHECKPOINTS - 1) + 1,
    "record_every": 100,
    "keep": "none",
    "logits": "none",
}
PROTOTYPES = 20  # different journals; runs share them, so that writing does not take an hour
LARGEST_RATIO = 2.0  # of the time per run at the largest size to that at the smallest
COMMANDS = {
    "status": ("study", "status", "--json"),
    "verify": ("study", "status", "--verify", "--json"),
    "select": ("select", "--json"),
    "compare": ("study", "compare", "--rules", "source-acc,ac-nc", "--json"),
}


def keys_of(runs: int) -> list[RunKey]:
    """The runs of a study with many hyperparameter seeds."""
    per_seed = len(ALGORITHMS) * len(DOMAINS)
    return [
        RunKey("made-up", algorithm, (domain,), seed, 0)
        for seed in range(-(-runs // per_seed))
        for algorithm in ALGORITHMS
        for domain in DOMAINS
    ][:runs]


def make_cohort(path: Path, runs: int) -> float:
    """Write a cohort of finished runs; the processor seconds that planning took."""
    keys = keys_of(runs)
    began = time.process_time()
    write_cohort(
        path,
        name="made-up",
        roles={"made-up": "development"},
        study=STUDY,
        metrics={"bins": 15, "bandwidth": 0.1},
        keys=keys,
    )
    planning = time.process_time() - began
    journals = [_journals(number) for number in range(PROTOTYPES)]
    for number, key in enumerate(keys):
        _write_run(path / "runs" / str(key), key, journals[number % PROTOTYPES])
    return planning


def _journals(number: int) -> tuple[dict[str, dict[str, Any]], ...]:
    """One record per checkpoint: domain → entry."""
    import numpy as np

    rng = np.random.default_rng(number)
    entries = {domain: _entries(rng, int(rng.integers(300, 900))) for domain in DOMAINS}
    return tuple({domain: entries[domain][t] for domain in DOMAINS} for t in range(CHECKPOINTS))


def _write_run(folder: Path, key: RunKey, records: Sequence[dict[str, dict[str, Any]]]) -> None:
    (folder / "heldout").mkdir(parents=True)
    (target,) = key.held_out
    config = {**STUDY, "bins": 15, "bandwidth": 0.1, "hparams": {"lr": 1e-3}}
    source = [
        {
            "step": 100 * t,
            "diverged": False,
            "domains": {domain: record[domain] for domain in DOMAINS if domain != target},
        }
        for t, record in enumerate(records)
    ]
    held_out = [
        {"step": 100 * t, "diverged": False, "split": "in", **record[target]}
        for t, record in enumerate(records)
    ]
    head = {"schema": 1, "key": key.as_dict(), "config": config, "versions": {}}
    files = {
        "run.json": json.dumps(head),
        "source.jsonl": _lines(source),
        f"heldout/{target}.jsonl": _lines(held_out),
    }
    marks = {}
    for name, text in files.items():
        content = text.encode()
        (folder / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        marks[name] = {"bytes": len(content), "sha256": digest}
    done = {"schema": 1, "last_step": 100 * (CHECKPOINTS - 1), "files": marks}
    (folder / "done").write_text(json.dumps(done))


def _lines(records: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def measure(command: Sequence[str], path: Path) -> tuple[float, float]:
    """Processor seconds and megabytes of one command on a cohort."""
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)\n"
        "sys.exit(done.returncode)\n"
    )
    arguments = [sys.executable, "-m", "checkwise", *command, str(path)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def main(sizes: Sequence[int]) -> int:
    costs: dict[str, dict[int, tuple[float, float]]] = {name: {} for name in COMMANDS}
    for runs in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cohort"
            planning = make_cohort(path, runs)
            mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{runs:>7,} runs  plan     {planning:8.1f} s  {mine:6.0f} MB", flush=True)
            for name, command in COMMANDS.items():
                costs[name][runs] = measure(command, path)
                seconds, megabytes = costs[name][runs]
                print(
                    f"{runs:>7,} runs  {name:<8} {seconds:8.1f} s  {megabytes:6.0f} MB", flush=True
                )
    if len(sizes) < 2:
        return 0
    first, *_, last = sizes
    missed = 0
    for name, cost in costs.items():
        ratio = (cost[last][0] / last) / (cost[first][0] / first)
        missed += ratio > LARGEST_RATIO
        print(f"{name}: a run at {last:,} costs {ratio:.2f}× the time of one at {first:,}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main([int(size) for size in sys.argv[1:]] or SIZES))
