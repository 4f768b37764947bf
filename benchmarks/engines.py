"""What executors cost beside the training itself, and whether many tiny runs are each done once.

    python -m benchmarks.engines [--executors local work ray slurm] [--runs 200] [--many 10000]

Overhead: tiny runs (one update of a linear head on 60 rows) through an executor with one worker.
What a run costs, its own training included, must stay below a second; what starting costs is
measured with a sweep of one run and shown by itself. ``work`` is `checkwise study run --plan-only`
and then one `checkwise study work`. For ``slurm`` a cluster is started on this machine, as the
tests start one.

Many: ``--many`` such runs through eight local workers. An algorithm that writes a line for each
update shows that no run is lost and none is trained twice.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from checkwise.store import finished
from checkwise.study.folder import open_cohort

MOST_OVERHEAD = 1.0  # seconds a run
WORKERS = 8
STUDY = """
name = "tiny"
role = "development"
[data]
dataset = "Features"
root = "tiny.npz"
held_out = ["a"]
[network]
kind = "linear"
[runs]
algorithms = ["Counted"]
trial_seeds = {seeds}
[training]
steps = 1
record_every = 1
[records]
keep = "none"
"""
PLUGIN = """
import os
import checkwise as cw
from torch.nn.functional import cross_entropy


@cw.study.train.algorithm("Counted")
class Counted(cw.study.train.Algorithm):
    def objective(self, forward):
        with open({log!r}, "ab", buffering=0) as file:
            file.write(b"%d\\n" % os.getpid())
        loss = cross_entropy(forward.logits, forward.labels)
        return loss, {{"loss": loss}}
"""


def sweep(folder: Path, runs: int, *words: str) -> tuple[float, Path, int]:
    """Seconds that a sweep takes, its cohort, and the number of updates that it made."""
    random = np.random.default_rng(0)
    np.savez(
        folder / "tiny.npz",
        features=random.standard_normal((60, 4), dtype=np.float32),
        label=np.arange(60) % 2,
        domain=np.repeat(["a", "b", "c"], 20),
    )
    log, out = folder / f"updates-{time.time_ns()}", folder / f"cohort-{time.time_ns()}"
    (folder / "tiny.toml").write_text(STUDY.format(seeds=list(range(runs))))
    (folder / "counted.py").write_text(PLUGIN.format(log=str(log)))
    study = ["tiny.toml", "--out", str(out), "--plugin", "counted.py"]
    commands = [["study", "run", *study, *words]]
    if "work" in words:
        commands = [
            ["study", "run", *study, "--plan-only"],
            ["study", "work", str(out), "--plugin", "counted.py"],
        ]
    began = time.perf_counter()
    for command in commands:
        subprocess.run(
            [sys.executable, "-m", "checkwise", *command],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    seconds = time.perf_counter() - began
    return seconds, out, log.read_bytes().count(b"\n")


@contextmanager
def cluster_for(executor: str, folder: Path) -> Iterator[None]:
    """A cluster of Slurm on this machine, if it is asked for."""
    if executor != "slurm":
        yield
        return
    from tests.engines.slurm_cluster import SlurmCluster

    with SlurmCluster(folder / "slurm") as cluster:
        os.environ["SLURM_CONF"] = cluster.environment["SLURM_CONF"]
        yield


def overhead(folder: Path, executor: str, runs: int) -> tuple[float, float]:
    """Seconds to start and end with one run, and seconds for each further run."""
    words = ("--executor", executor, "--workers", "1")
    one, _, _ = sweep(folder, 1, *words)
    all_of_them, _, _ = sweep(folder, runs, *words)
    return one, (all_of_them - one) / (runs - 1)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--executors", nargs="*", default=["local"])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--many", type=int, default=1000)
    asked = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for executor in asked.executors:
            with cluster_for(executor, folder):
                start, each = overhead(folder, executor, asked.runs)
            print(
                f"{executor}: {start:.1f} s for one run; {each:.3f} s for each further run",
                flush=True,
            )
            # A tiny run's own training is part of this and only makes it larger.
            missed |= each >= MOST_OVERHEAD
        if asked.many:
            missed |= not each_once(folder, asked.many)
    return int(missed)


def each_once(folder: Path, runs: int) -> bool:
    """Whether eight workers train every run exactly once."""
    seconds, out, updates = sweep(folder, runs, "--workers", str(WORKERS))
    done = sum(finished(place) for place in open_cohort(out).runs.values())
    print(
        f"{runs:,} runs through {WORKERS} workers on {os.cpu_count()} cores in {seconds:.0f} s "
        f"({1000 * seconds / runs:.0f} ms a run): {done:,} finished, {updates:,} trained"
    )
    return done == updates == runs


if __name__ == "__main__":
    sys.exit(main())
