"""Sweeps as a user starts them, watched from outside; what they leave, byte by byte."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from checkwise.store import attempts_folder
from checkwise.study.folder import is_cohort, last_holder, open_cohort
from checkwise.study.sweep import RunStatus
from checkwise.study.sweep.progress import cohort_status
from tests.cli.predict_functions import checkpoints
from tests.cli.test_predict import outputs_in
from tests.sweep.studies import all_contents, write_tiny

PATIENCE_SECONDS = 3600.0
PROGRESS = re.compile(r"^(?:preparing data|\d+/\d+ runs).*\n", re.MULTILINE)
LONG = pytest.mark.skipif(
    "CHECKWISE_ENGINES" not in os.environ, reason="takes minutes: make test-engines"
)
Contents = dict[str, dict[str, bytes]]


def write_small(folder: Path) -> Path:
    """Eight runs that take a few seconds each, with many checkpoints to be killed at."""
    return write_tiny(
        folder,
        ('algorithms = ["ERM", "VREx"]', 'algorithms = ["ERM", "VREx"]\ntrial_seeds = [0, 1]'),
        ("steps = 5", "steps = 61"),
        ("record_every = 2", "record_every = 3"),
    )


def write_long(folder: Path) -> Path:
    """The same runs with so many updates that none ends before it is interrupted."""
    study = write_small(folder)
    study.write_text(study.read_text().replace("steps = 61", "steps = 60001"))
    return study


class Sweep:
    """A running ``checkwise study run`` of a study."""

    def __init__(
        self, study: object, out: Path, *words: object, environment: Mapping[str, str] | None = None
    ) -> None:
        self.out = out
        command = ["study", "run", study, "--out", out, "--set", "resume_seconds=0", *words]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "checkwise", *map(str, command)],
            env=dict(environment or os.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Where the tests run in the background of a shell, their children ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def end(self) -> tuple[int, str, str]:
        """Exit code, output and errors, without the lines that tell how far it is."""
        printed, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, printed, PROGRESS.sub("", errors)

    def statuses(self) -> list[RunStatus]:
        return cohort_status(open_cohort(self.out)) if is_cohort(self.out) else []

    def pids(self) -> set[int]:
        """The processes that hold runs."""
        runs = open_cohort(self.out).runs.values()
        return {found.pid for run in runs if (found := last_holder(attempts_folder(run)))}

    def wait_for_work(self, workers: int) -> None:
        """Wait until so many runs are being trained and have checkpoints, but are not finished."""
        self.wait(
            lambda: (
                sum(run.state == "running" and run.records > 1 for run in self.statuses())
                >= workers
            )
        )

    def wait(self, reached: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            if self.process.poll() is not None:
                raise AssertionError(f"the sweep ended too early: {self.end()}")
            if time.monotonic() > end:
                raise TimeoutError(f"waited in vain: {self.statuses()}")
            time.sleep(0.1)


def trained_locally(study: object, folder: Path) -> Contents:
    """What the local executor leaves."""
    code, printed, errors = Sweep(study, folder / "local").end()
    assert code == 0, printed + errors
    return all_contents(folder / "local")


def evaluated(
    folder: Path, *words: object, environment: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """The outputs that ``checkwise predict`` writes of a few checkpoints."""
    run, out = folder / "run", folder / f"predictions-{len(words)}"
    if not run.exists():
        checkpoints(run)
    command = ["predict", run, "--function", f"{folder / 'plain.py'}:outputs", "--domains", "a,b"]
    subprocess.run(
        [sys.executable, "-m", "checkwise", *map(str, [*command, "-o", out, *words])],
        env=dict(environment or os.environ),
        check=True,
    )
    assert not list(out.glob(".*"))
    outputs = outputs_in(out)
    assert len(outputs) == 8
    return outputs
