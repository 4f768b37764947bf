"""A worker that an engine starts on some machine: the callable that is sent there."""

from __future__ import annotations

import threading
import time
import traceback
from pathlib import Path
from typing import Any

from checkwise.errors import CheckwiseError
from checkwise.sweep.executors.base import JobLike, work_of
from checkwise.sweep.executors.shared_folder import answer, check_shared

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
