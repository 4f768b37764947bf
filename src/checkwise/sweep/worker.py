"""A worker: trains the planned runs that no other worker trains."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from checkwise.errors import CheckwiseError
from checkwise.plugins import check_loaded, load_plugin
from checkwise.records import RunKey
from checkwise.store import layout
from checkwise.store.atomic_write import StoreError, write_text, writing
from checkwise.store.cohort import open_cohort
from checkwise.store.done import finished
from checkwise.store.lease import LeaseLostError, take
from checkwise.store.safe_read import open_file
from checkwise.sweep.datasets import open_spec
from checkwise.sweep.plan import run_config
from checkwise.sweep.study import Study
from checkwise.train.build import TrainingData, prepare
from checkwise.train.loop import RESUME_SECONDS, train_run

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Job:
    """What every worker of a sweep needs to know, in plain values that JSON can carry.

    ``attempt`` is drawn for every sweep: no worker tries a run again that failed in this attempt.
    With ``wait`` a worker stays until the runs of other workers are done, to take over if one dies.
    A worker first loads ``plugins``, which maps their sources to the SHA-256 of their files.
    """

    cohort: str
    attempt: str
    roots: Mapping[str, str] = field(default_factory=dict)
    resume_seconds: float = RESUME_SECONDS
    wait: bool = True
    plugins: Mapping[str, str] = field(default_factory=dict)


def work(job: Job, *, stop: Callable[[], bool] = lambda: False) -> None:
    """Train the runs of a cohort that are neither finished nor held by another worker.

    Safe to call any number of times, from any number of processes. A run that fails leaves its
    reason in ``error.txt``, and the worker goes on to the next. A full disk, a read-only folder
    (``StoreError``) or unreadable data end the worker.
    """
    for source, sha256 in job.plugins.items():
        load_plugin(source, sha256=sha256)
    cohort = open_cohort(job.cohort)
    study = Study.from_dict(cohort.study)
    check_loaded(study.plugins, job.cohort)
    data = _Data(study, job.roots)
    while not stop():
        waiting = False
        for key, folder in _in_own_order(cohort.runs):
            if stop():
                return
            if finished(folder) or _failed_in(folder, job.attempt):
                continue
            waiting |= not _train(job, study, key, folder, data, stop)
        if not waiting or not job.wait:
            return
        time.sleep(POLL_SECONDS)


def _in_own_order(runs: Mapping[RunKey, Path]) -> list[tuple[RunKey, Path]]:
    """Runs by data set; within a data set, every worker starts at a random run."""
    order = list(runs.items())
    start = random.randrange(len(order)) if order else 0
    turned = order[start:] + order[:start]
    datasets = list(dict.fromkeys(key.dataset for key in runs))
    return sorted(turned, key=lambda entry: datasets.index(entry[0].dataset))


def _train(
    job: Job, study: Study, key: RunKey, folder: Path, data: _Data, stop: Callable[[], bool]
) -> bool:
    """Train one run; False if another worker has it."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lease = take(folder)
    if lease is None:
        return False
    with lease:
        if finished(folder) or _failed_in(folder, job.attempt):
            return True
        ready = data.of(key.dataset)
        try:
            config = run_config(study, key, ready)
            train_run(folder, config, ready, lease, stop=stop, resume_seconds=job.resume_seconds)
            (folder / layout.ERROR).unlink(missing_ok=True)
        except LeaseLostError:
            return False
        except StoreError:
            raise
        except Exception as error:
            _note_failure(folder, job.attempt, error)
    return True


def _note_failure(folder: Path, attempt: str, error: Exception) -> None:
    if isinstance(error, CheckwiseError):
        reason = " ".join(str(error).split())
    else:
        reason = f"{traceback.format_exc()}{type(error).__name__}: {error}"
    with writing(folder):
        write_text(folder / layout.ERROR, f"attempt {attempt}\n{reason}\n")


def _failed_in(folder: Path, attempt: str) -> bool:
    try:
        with open_file(folder, layout.ERROR) as file:
            return file.readline().strip() == f"attempt {attempt}".encode()
    except OSError:
        return False


class _Data:
    """The data set of the current runs, prepared once."""

    def __init__(self, study: Study, roots: Mapping[str, str]) -> None:
        self._study = study
        self._roots = roots
        self._name = ""
        self._ready: TrainingData | None = None

    def of(self, name: str) -> TrainingData:
        if self._ready is None or name != self._name:
            spec = next(spec for spec in self._study.data if spec.name == name)
            self._ready = None  # let go of the last one before the next is read
            self._ready = prepare(
                open_spec(spec, self._roots), self._study.network, augmented=self._study.augment
            )
            self._name = name
        return self._ready


def main() -> None:
    """Work until there is nothing left to do, or until asked to stop."""
    job = Job(**json.loads(sys.argv[1]))
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    threading.Thread(target=_await_end_of_input, args=(stopping,), daemon=True).start()
    try:
        work(job, stop=stopping.is_set)
    except CheckwiseError as error:
        print(" ".join(str(error).split()), file=sys.stderr, flush=True)
        os._exit(2)
    # The thread above still reads standard input; an ordinary exit would wait for its lock.
    sys.stderr.flush()
    os._exit(0)


def _await_end_of_input(stopping: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    stopping.set()


if __name__ == "__main__":
    main()
