"""What an executor does: start workers, count those alive, stop them."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from checkwise.errors import CheckwiseError, InputError
from checkwise.predict import stopped_by, terminated_like_interrupted
from checkwise.store import write_text, writing
from checkwise.study.sweep.progress import pause_after


class JobLike(Protocol):
    """What every worker has to know: a frozen dataclass of plain values that JSON can carry.

    The module that defines its class has a function ``work(job, *, stop)``, and takes the job as
    JSON when it is run with ``python -m``.
    """

    @property
    def cohort(self) -> str:
        """The folder that launcher and workers share."""


class Workers(Protocol):
    """Workers that were launched together; each calls ``work(job, stop=…)`` of the job's module.

    They share nothing but the cohort's folder. Leases keep two of them from doing the same work, so
    an executor may start too many, start them late, or lose some.
    """

    def alive(self) -> int:
        """How many are still working or waiting to be started."""

    def stop(self) -> None:
        """Ask all of them to save their state and end; return when they have."""

    def failures(self) -> list[str]:
        """After ``stop``: one line for each worker that ended with an error."""


class Executor(Protocol):
    """Starts workers somewhere."""

    def launch(self, job: JobLike, workers: int) -> Workers:
        """Start ``workers`` processes, each with one thread, that work on ``job``."""


def work_of(job: JobLike) -> Callable[..., None]:
    """The function that does a job."""
    function: Callable[..., None] = import_module(type(job).__module__).work
    return function


# Slurm's own formats: minutes, hours:minutes:seconds, days-hours, days-hours:minutes and so on.
_TIME: Final = re.compile(
    r"(?:(?P<days>\d+)-(?P<hours>\d+)(?::(?P<minutes>\d+)(?::(?P<seconds>\d+))?)?"
    r"|(?P<h>\d+):(?P<m>\d+):(?P<s>\d+)|(?P<only>\d+)(?::(?P<rest>\d+))?)"
)
_MEMORY: Final = re.compile(r"(\d+)\s*([KMGT])(?:i?B)?", re.IGNORECASE)
_BYTES: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class ExecutorSettings:
    """The ``[executor]`` table of a study file, or the options of a command.

    Args:
        kind: ``local``, ``slurm`` or ``ray``.
        workers: how many workers are started; None leaves it to the executor.
        partition: the partition of Slurm that jobs go to.
        time: the time limit of a Slurm job, in one of Slurm's formats.
        memory: memory of a worker, such as ``4G``.
        cpus: CPUs of a worker. A run is trained on one thread whatever this says.
        gpus: GPUs of a worker.
        address: the address of a running Ray cluster.
    """

    kind: str = "local"
    workers: int | None = None
    partition: str | None = None
    time: str | None = None
    memory: str | None = None
    cpus: int | None = None
    gpus: int | None = None
    address: str | None = None


def minutes_of(time: str) -> int:
    """A time limit in whole minutes, rounded up.

    Example:
        >>> minutes_of("90"), minutes_of("1:30:00"), minutes_of("1-12"), minutes_of("0:30")
        (90, 90, 2160, 1)
    """
    match = _TIME.fullmatch(time.strip())
    if match is None:
        raise _refused_time(time)
    part = {name: int(value or 0) for name, value in match.groupdict().items()}
    hours = 24 * part["days"] + part["hours"] + part["h"]
    minutes = 60 * hours + part["minutes"] + part["m"] + part["only"]
    seconds = 60 * minutes + part["seconds"] + part["s"] + part["rest"]
    if seconds == 0:
        raise _refused_time(time)
    return -(-seconds // 60)


def bytes_of(memory: str) -> int:
    """An amount of memory in bytes.

    Example:
        >>> bytes_of("4G"), bytes_of("500 MB")
        (4294967296, 524288000)
    """
    match = _MEMORY.fullmatch(memory.strip())
    if match is None or int(match[1]) == 0:
        raise InputError(
            f"Expected `memory` (--memory) as a number with K, M, G or T, but got {memory!r}: "
            "for example 4G."
        )
    return int(match[1]) * _BYTES[match[2].upper()]


def _refused_time(time: str) -> InputError:
    return InputError(
        "Expected `time` (--time) in minutes, as hours:minutes:seconds or as days-hours, but got "
        f"{time!r}: for example 4:00:00 for four hours."
    )


WORKERS: Final = "workers"
TOKEN: Final = "token"
# A file server may show a new file to other machines only after a while (NFS: up to a minute).
VISIBLE_SECONDS: Final = 90.0


class NotSharedError(InputError):
    """A worker does not see the folder that its launcher sees."""


@dataclass(frozen=True)
class Answer:
    """What a worker said: where it runs, and, once it has ended, how."""

    host: str
    pid: int
    ended: bool = False
    failure: str | None = None


def invite(cohort: Path | str) -> Path:
    """A folder in the cohort, named like the token in it."""
    token = secrets.token_hex(8)
    folder = Path(cohort).absolute() / WORKERS / token
    with writing(folder):
        folder.mkdir(parents=True)
        write_text(folder / TOKEN, f"{token}\n")
    return folder


def check_shared(folder: Path, *, patience: float = VISIBLE_SECONDS) -> None:
    """Refuse to work where the launcher's token cannot be read."""
    end = time.monotonic() + patience
    while not _holds_token(folder):
        if time.monotonic() > end:
            raise not_shared(folder, socket.gethostname())
        time.sleep(min(1.0, patience / 10))


def answer(folder: Path, worker: str, *, ended: bool = False, failure: str | None = None) -> None:
    """Say that a worker reads the launcher's folder, or that it has ended."""
    told = Answer(socket.gethostname(), os.getpid(), ended, failure)
    with writing(folder):
        write_text(folder / f"{worker}.json", json.dumps(asdict(told)) + "\n")


def read_answer(folder: Path, worker: str) -> Answer | None:
    """What a worker said last; None if it has not spoken yet."""
    try:
        return Answer(**json.loads((folder / f"{worker}.json").read_text()))
    except FileNotFoundError:
        return None


def close(folder: Path) -> None:
    """Remove the folder, and with the last one the folder above."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.parent.is_dir() and not any(folder.parent.iterdir()):
        folder.parent.rmdir()


def not_shared(folder: Path, host: str) -> NotSharedError:
    """The error for a worker on ``host`` that does not see ``folder``."""
    cohort = folder.parents[1]
    return NotSharedError(
        f"Expected {cohort} on storage that every worker shares, but the token in "
        f"{WORKERS}/{folder.name} was not read on {host}: use an --out that is the same folder on "
        "all machines.",
        code="system",
    )


def _holds_token(folder: Path) -> bool:
    try:
        return (folder / TOKEN).read_text().strip() == folder.name
    except OSError:
        return False


POLL_SECONDS = 0.2


class RemoteWorker:
    """Answers the launcher, then works until nothing is left or ``ask_to_stop`` was called.

    The work is done in a thread: engines interrupt the main thread, with a signal handler or an
    exception, and whatever interrupts it can then wait until the state is saved.
    """

    def __init__(self, job: JobLike, folder: Path, name: str) -> None:
        self.job = job
        self.folder = folder
        self.name = name
        self._begin()

    def __getstate__(self) -> dict[str, Any]:
        return {"job": self.job, "folder": self.folder, "name": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def __call__(self) -> None:
        """Work; returns when the work is done or the state is saved."""
        check_shared(self.folder)
        answer(self.folder, self.name)
        self._ended = False
        threading.Thread(target=self._work, name="work").start()
        try:
            self.wait()
        except BaseException:
            self.ask_to_stop()
            self.wait()
            raise
        answer(self.folder, self.name, ended=True, failure=self._failure)

    def ask_to_stop(self, *_: object) -> None:
        """Ask the work to save its state and end; may be called from a signal handler."""
        self._stopping = True

    def wait(self) -> None:
        """Wait for the end of the work. No lock is held, so a signal handler may call it too."""
        while not self._ended:
            time.sleep(POLL_SECONDS)

    def _begin(self) -> None:
        self._stopping = False
        self._ended = True
        self._failure: str | None = None

    def _work(self) -> None:
        try:
            work_of(self.job)(self.job, stop=lambda: self._stopping)
        except CheckwiseError as error:
            self._failure = " ".join(str(error).split())
        except BaseException as error:
            traceback.print_exc()
            self._failure = " ".join(f"{type(error).__name__}: {error}".split())
        finally:
            self._ended = True


WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class Ended:
    """How workers ended: one line for each that failed, and the signal that stopped them, or 0."""

    failures: tuple[str, ...]
    interrupted: int


def run_workers(
    executor: Executor, job: JobLike, workers: int, *, watch: Callable[[], None] = lambda: None
) -> Ended:
    """Work on a job; ``watch`` is called about twice a second, less often where it takes long.

    SIGINT and SIGTERM ask the workers to save their state and end.
    """
    interrupted = 0
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
        launched.stop()
    return Ended(tuple(launched.failures()), interrupted)
