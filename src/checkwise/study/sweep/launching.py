"""Workers: what an executor does with them, what they do, and how they are watched."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from checkwise.errors import CheckwiseError, InputError
from checkwise.predict import stopped_by, terminated_like_interrupted
from checkwise.store import writing
from checkwise.study.sweep.progress import pause_after
from checkwise.study.train import key, one_of, whole


class JobLike(Protocol):
    """What every worker has to know: a frozen dataclass of plain values that JSON can carry.

    The module that defines its class has a function ``work(job, *, stop)``, and takes the job as
    JSON when it is run with ``python -m``. Launcher and workers share the folder ``cohort``.
    """

    @property
    def cohort(self) -> str: ...


class Workers(Protocol):
    """Workers that were launched together; each calls ``work(job, stop=…)`` of the job's module.

    They share nothing but the cohort's folder. Leases keep two of them from doing the same work, so
    an executor may start too many, start them late, or lose some.
    """

    def alive(self) -> int:
        """How many are still working or waiting to be started."""

    def stop(self) -> list[str]:
        """Ask all of them to save their state and end; then a line for each that failed."""


class Executor(Protocol):
    """Starts workers somewhere."""

    def launch(self, job: JobLike, workers: int) -> Workers:
        """Start ``workers`` processes, each with one thread, that work on ``job``."""


def run_job(job: Callable[..., Any], work: Callable[..., object]) -> None:
    """Work on the job in the first argument until it is done, or until asked to stop."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: stopping.set())

    def await_end_of_input() -> None:
        while os.read(0, 4096):
            pass
        stopping.set()

    threading.Thread(target=await_end_of_input, daemon=True).start()
    code = 0
    try:
        work(job(**json.loads(sys.argv[1])), stop=stopping.is_set)
    except CheckwiseError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        code = 2
    # The thread above still reads standard input; an ordinary exit would wait for its lock.
    sys.stderr.flush()
    os._exit(code)


# The settings that each executor takes, besides the number of workers.
TAKES: Final = {
    "local": (),
    "slurm": ("partition", "time", "memory", "cpus", "gpus"),
    "ray": ("memory", "cpus", "gpus", "address"),
}


@dataclass(frozen=True)
class ExecutorSettings:
    """Where workers run; None leaves a value to the executor."""

    kind: str = key(
        "where workers run; this table is no part of the study and may change",
        "local",
        kind=one_of(lambda: list(TAKES)),
    )
    workers: int | None = key(
        "how many workers are started", None, shown="one for every core; required for `slurm`"
    )
    partition: str | None = key("the partition, for `slurm`", None)
    time: str | None = key(
        "time limit of a job, for `slurm`; a worker goes on in its next job",
        None,
        shown='"1:00:00"',
    )
    memory: str | None = key("memory of a worker, such as `4G`", None)
    cpus: int | None = key("CPUs of a worker", None, shown="1")
    gpus: int | None = key("GPUs of a worker", None, kind=whole(0), shown="0")
    address: str | None = key(
        "of a running cluster, for `ray`", None, shown="a cluster on this machine"
    )


def minutes_of(time: str) -> int:
    """A time limit in whole minutes, rounded up.

    Example:
        >>> minutes_of("90"), minutes_of("1:30:00"), minutes_of("1-12"), minutes_of("0:30")
        (90, 90, 2160, 1)
    """
    days, dash, clock = time.strip().rpartition("-")
    parts = clock.split(":")
    # Slurm's own formats: minutes[:seconds], hours:minutes:seconds, days-hours[:minutes[:seconds]]
    units = (3600, 60, 1) if dash or len(parts) == 3 else (60, 1)
    plain = all(map(str.isdecimal, [days, *parts] if dash else parts))
    seconds = 0
    if plain and len(parts) <= len(units):
        amounts = zip(parts, units, strict=False)
        seconds = int(days or 0) * 86400 + sum(int(part) * unit for part, unit in amounts)
    if seconds == 0:
        raise InputError(
            "Expected `time` (--time) in minutes, as hours:minutes:seconds or as days-hours, but "
            f"got {time!r}: for example 4:00:00 for four hours."
        )
    return -(-seconds // 60)


_MEMORY: Final = re.compile(r"(\d+)\s*([KMGT])(?:i?B)?", re.IGNORECASE)
_BYTES: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def bytes_of(memory: str) -> int:
    """An amount of memory in bytes."""
    match = _MEMORY.fullmatch(memory.strip())
    if match is None or int(match[1]) == 0:
        raise InputError(
            f"Expected `memory` (--memory) as a number with K, M, G or T, but got {memory!r}: "
            "for example 4G."
        )
    return int(match[1]) * _BYTES[match[2].upper()]


WORKERS: Final = "workers"
# A file server may show a new folder to other machines only after a while (NFS: up to a minute).
VISIBLE_SECONDS = 90.0
POLL_SECONDS = 0.2


def invite(cohort: Path | str) -> Path:
    """A folder in the cohort whose name nobody knows: who sees it shares the launcher's storage."""
    folder = Path(cohort).absolute() / WORKERS / secrets.token_hex(8)
    with writing(folder):
        folder.mkdir(parents=True)
    return folder


def close(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def not_shared(folder: Path, host: str) -> str:
    return (
        f"Expected {folder.parents[1]} on storage that every worker shares, but "
        f"{WORKERS}/{folder.name} was not read on {host}: use an --out that is the same folder on "
        "all machines."
    )


class RemoteWorker:
    """Works until nothing is left or ``ask_to_stop`` was called; gives a line if that failed.

    The work is done in a thread: engines interrupt the main thread, with a signal handler or an
    exception, and whatever interrupts it can then wait until the state is saved.
    """

    _stopping = False
    _ended = True
    _failure: str | None = None

    def __init__(self, job: JobLike, folder: Path) -> None:
        self.job = job
        self.folder = folder

    def __call__(self) -> str | None:
        """Work; returns when the work is done or the state is saved. Engines may call it again."""
        end = time.monotonic() + VISIBLE_SECONDS
        while not self.folder.is_dir():
            if time.monotonic() > end:
                return not_shared(self.folder, socket.gethostname())
            time.sleep(1.0)
        self._stopping, self._ended, self._failure = False, False, None
        threading.Thread(target=self._work, name="work").start()
        try:
            self.wait()
        except BaseException:
            self.ask_to_stop()
            self.wait()
            raise
        return self._failure

    def ask_to_stop(self, *_: object) -> None:
        """Ask the work to save its state and end; may be called from a signal handler."""
        self._stopping = True

    def wait(self) -> None:
        """Wait for the end of the work. No lock is held, so a signal handler may call it too."""
        while not self._ended:
            time.sleep(POLL_SECONDS)

    def _work(self) -> None:
        try:
            work = import_module(type(self.job).__module__).work
            work(self.job, stop=lambda: self._stopping)
        except BaseException as error:
            self._failure = " ".join(str(error).split())
            if not isinstance(error, CheckwiseError):
                traceback.print_exc()
                self._failure = f"{type(error).__name__}: {self._failure}"
        finally:
            self._ended = True


WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class Ended:
    """How workers ended: one line for each that failed, and the signal that stopped them, or 0."""

    failures: tuple[str, ...] = ()
    interrupted: int = 0


def run_workers(
    executor: Executor, job: JobLike, workers: int, *, watch: Callable[[], None] = lambda: None
) -> Ended:
    """Work on a job; ``watch`` is called about twice a second, less often where it takes long.

    SIGINT and SIGTERM ask the workers to save their state and end.
    """
    interrupted = 0
    failures: list[str] = []
    launched = executor.launch(job, workers)
    try:
        with terminated_like_interrupted():
            while launched.alive():
                began = time.monotonic()
                watch()
                time.sleep(pause_after(time.monotonic() - began, WATCH_SECONDS))
    except KeyboardInterrupt as stop:
        interrupted = stopped_by(stop)
    finally:
        failures = launched.stop()
    return Ended(tuple(failures), interrupted)
