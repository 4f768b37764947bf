"""Processes that call the user's function, and the threads that hand out checkpoints to them."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from checkwise.errors import CheckwiseError, CheckwiseWarning
from checkwise.predict.function import FunctionName
from checkwise.predict.outputs import Facts, Known
from checkwise.predict.stopping import ONE_THREAD, Child
from checkwise.store import FileState, Predictions, StoreError, writing

LOOK_SECONDS = 1.0  # between looks at the progress


class FunctionError(CheckwiseError):
    """The user's function, or what it returned, failed; the worker's traceback is a note."""

    def __init__(self, reason: str, trace: str = "") -> None:
        super().__init__(reason)
        if trace:
            self.add_note(trace)  # shown where Python shows tracebacks, which is under --debug only


class Worker:
    """One process; used by one thread at a time.

    ``lock`` is a file descriptor that it holds open as long as it lives; ``sha256`` is what the
    function's file has to be, None for the first worker, which finds out.
    """

    def __init__(self, name: FunctionName, *, lock: int, sha256: str | None = None) -> None:
        self._child = Child(
            "-P",
            "-m",
            "checkwise.predict.worker",
            # As many threads as the user says, or one: the same for any number of workers.
            env={**ONE_THREAD, **os.environ},
            pass_fds=[lock],
            start_new_session=True,  # Ctrl-C reaches the parent alone
        )
        self._name = name
        self._loaded = False
        self.sha256 = sha256

    def load(self) -> None:
        """Load the function, unless that was done."""
        if self._loaded:
            return
        sha256: str = self.ask({"load": asdict(self._name)})["sha256"]
        if self.sha256 not in (None, sha256):
            raise FunctionError(f"{self._name.short} was changed meanwhile: run the command again.")
        self.sha256, self._loaded = sha256, True

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for the reply."""
        try:
            self._child.to.write(json.dumps(request).encode() + b"\n")
            self._child.to.flush()
            line = self._child.replies.readline()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            code, last = self._child.process.wait(), self._child.last_line()
            raise FunctionError(
                f"the process of the function ended with exit code {code}"
                f"{' (out of memory?)' if code == -9 else ''}"
                f"{f', after printing: {last[:200]}' if last else ''}"
            )
        reply: dict[str, Any] = json.loads(line)
        if reply.get("disk"):
            raise StoreError(reply["failed"])
        if "failed" in reply:
            raise FunctionError(reply["failed"], reply["traceback"])
        return reply

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._child.process.poll() is None

    def kill(self) -> None:
        """End the process at once; a thread that waits for its reply goes on."""
        self._child.process.kill()

    def close(self) -> None:
        """Let the process end, and wait for it."""
        with suppress(OSError):
            self._child.to.write(b'{"end": true}\n')
            self._child.to.flush()
        self._child.close()


@dataclass(frozen=True)
class Task:
    """A checkpoint, and the domains that are missing."""

    step: int
    path: Path
    state: FileState
    domains: tuple[str, ...]


@dataclass(frozen=True)
class Failure:
    """Why a checkpoint has no outputs; its later domains were not tried."""

    step: int
    path: str
    domain: str
    error: CheckwiseError


class Pool:
    """Threads with a worker each, which share the tasks, for the predictions folder ``out``.

    ``known`` are the facts of domains that already have outputs, ``start`` gives a worker, which
    need not have loaded the function. ``claim`` gives a task while nobody else works on it, or what
    is left of it, or None.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        out: Path,
        known: Mapping[str, Known],
        start: Callable[[], Worker],
        claim: Callable[[Task], AbstractContextManager[Task | None]] = nullcontext,
    ) -> None:
        self._tasks = deque(tasks)
        self._out = Predictions(out)
        self._known = dict(known)
        self._start = start
        self._claim = claim
        self._said: deque[str] = deque()
        self._workers: set[Worker] = set()
        self._guard = threading.Lock()  # of facts, counts and workers
        self._stopping = False
        self.written = 0
        self.failures: list[Failure] = []

    def run(self, workers: int, progress: Callable[[int], None]) -> None:
        """Do all tasks; ``progress`` is called with the number of outputs written, every second.

        However it ends, no process is left, and ``written`` and ``failures`` say what was done.
        """
        with ThreadPoolExecutor(max(1, workers)) as threads:
            running = {threads.submit(self._serve) for _ in range(workers)}
            try:
                while running:
                    ended, running = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
                    while self._said:
                        warnings.warn(self._said.popleft(), CheckwiseWarning, stacklevel=2)
                    progress(self.written)
                    for thread in ended:
                        thread.result()
            finally:
                with self._guard:
                    self._stopping = True
                    for worker in self._workers:
                        worker.kill()

    def _serve(self) -> None:
        """Take tasks while there are any; a checkpoint that fails ends with its first domain."""
        worker: Worker | None = None
        try:
            while not self._stopping:
                try:
                    task = self._tasks.popleft()
                except IndexError:
                    return
                with self._claim(task) as mine:
                    try:
                        for domain in mine.domains if mine is not None else ():
                            worker = self._ready(worker)
                            self._evaluate(task, domain, worker)
                    except FunctionError as error:
                        if not self._stopping:  # which ends processes in the midst of their work
                            failure = Failure(task.step, str(task.path), domain, error)
                            self.failures.append(failure)
        finally:
            self._let_go(worker)

    def _ready(self, worker: Worker | None) -> Worker:
        """A worker that has loaded the function: this one, or a new one where it has ended."""
        if worker is not None and worker.alive:
            return worker
        self._let_go(worker)
        worker = self._start()
        with self._guard:
            self._workers.add(worker)
            if self._stopping:
                worker.kill()
        try:
            worker.load()
        except BaseException:
            self._let_go(worker)
            raise
        return worker

    def _let_go(self, worker: Worker | None) -> None:
        with self._guard:
            ours = worker in self._workers
            self._workers -= {worker}
        if worker is not None and ours:
            worker.close()

    def _evaluate(self, task: Task, domain: str, worker: Worker) -> None:
        reply = worker.ask({"evaluate": [str(task.path), domain]})
        self._check_same(task.step, domain, Facts(*reply["facts"]))
        if FileState.of(task.path) != task.state:
            raise FunctionError(
                "the checkpoint was written again while it was evaluated: run the same command "
                "when training has ended."
            )
        file = self._out.place(task.step, domain)
        with writing(self._out.folder):
            file.parent.mkdir(exist_ok=True)
        worker.ask({"write": str(file)})
        self._said.extend(reply["warnings"])
        with self._guard:
            self.written += 1

    def _check_same(self, step: int, domain: str, facts: Facts) -> None:
        with self._guard:
            kinds = {known.facts.kind for known in self._known.values()}
            known = self._known.setdefault(domain, Known(step, facts))
        if kinds and facts.kind not in kinds:
            raise FunctionError(
                f"Expected {', '.join(kinds)} for every checkpoint and domain, but got "
                f"{facts.kind}: return one kind."
            )
        differs = known.facts.difference(facts)
        if differs is not None:
            raise FunctionError(
                f"The {differs} of domain {domain!r} at step {step} differ from those at step "
                f"{known.step}: evaluate every checkpoint on the same examples, in the same order."
            )
