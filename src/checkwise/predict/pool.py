"""Evaluates checkpoints in worker processes; one that fails does not stop the others."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from checkwise.errors import CheckwiseError, CheckwiseWarning
from checkwise.predict.continuation import Known, outputs_file
from checkwise.predict.outputs import Facts
from checkwise.predict.worker_process import FunctionError, Worker
from checkwise.store.atomic_write import writing
from checkwise.store.predictions_record import FileState, state_of

LOOK_SECONDS = 1.0  # between looks at the progress where nothing happens


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


@dataclass(frozen=True)
class _Written:
    warnings: tuple[str, ...]


_Event = _Written | Failure | BaseException | None  # None: a thread has ended


class Pool:
    """Threads with a worker each, which share the tasks.

    Args:
        tasks: in the order in which they are begun.
        out: the predictions folder.
        known: facts of domains that already have outputs.
        start: gives a worker, which need not have loaded the function.
        claim: gives the task while nobody else works on it, or what is left of it, or None.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        out: Path,
        known: Mapping[str, Known],
        start: Callable[[], Worker],
        claim: Callable[[Task], AbstractContextManager[Task | None]] = nullcontext,
    ) -> None:
        self._claim = claim
        self._tasks = deque(tasks)
        self._out = out
        self._known = dict(known)
        self._start = start
        self._events: SimpleQueue[_Event] = SimpleQueue()
        self._workers: set[Worker] = set()
        self._guard = threading.Lock()  # of facts and workers
        self._stopping = False
        self.written = 0
        self.failures: list[Failure] = []

    def run(self, workers: int, progress: Callable[[int], None]) -> None:
        """Do all tasks; ``progress`` is called with the number of outputs written, every second.

        However it ends, no process is left, and ``written`` and ``failures`` say what was done.
        """
        threads = [threading.Thread(target=self._serve) for _ in range(workers)]
        for thread in threads:
            thread.start()
        try:
            self._watch(len(threads), progress)
        finally:
            with self._guard:
                self._stopping = True
                for worker in self._workers:
                    worker.kill()
            for thread in threads:
                thread.join()

    def _watch(self, threads: int, progress: Callable[[int], None]) -> None:
        while threads:
            try:
                event = self._events.get(timeout=LOOK_SECONDS)
            except Empty:
                progress(self.written)
                continue
            if event is None:
                threads -= 1
            elif isinstance(event, Failure):
                self.failures.append(event)
            elif isinstance(event, BaseException):
                raise event
            else:
                self.written += 1
                for message in event.warnings:
                    warnings.warn(message, CheckwiseWarning, stacklevel=2)
            progress(self.written)

    def _serve(self) -> None:
        worker: Worker | None = None
        try:
            while not self._stopping and self._tasks:
                try:
                    task = self._tasks.popleft()
                except IndexError:  # another thread was faster
                    break
                with self._claim(task) as mine:
                    if mine is not None:
                        worker = self._evaluate(mine, worker)
        except BaseException as error:
            self._events.put(error)
        finally:
            self._let_go(worker)
            self._events.put(None)

    def _evaluate(self, task: Task, worker: Worker | None) -> Worker | None:
        """Evaluate one checkpoint on its domains; the worker to go on with."""
        for domain in task.domains:
            try:
                if worker is None or not worker.alive:
                    self._let_go(worker)
                    worker = None
                    worker = self._loaded_worker()
                self._events.put(self._write(task, domain, worker))
            except FunctionError as error:
                self._events.put(Failure(task.step, str(task.path), domain, error))
                break
        return worker

    def _write(self, task: Task, domain: str, worker: Worker) -> _Written:
        reply = worker.ask({"evaluate": [str(task.path), domain]})
        self._check_same(task.step, domain, Facts(**reply["facts"]))
        if state_of(task.path) != task.state:
            raise FunctionError(
                "the checkpoint was written again while it was evaluated: run the same command "
                "when training has ended."
            )
        file = outputs_file(self._out, task.step, domain)
        with writing(self._out):
            file.parent.mkdir(exist_ok=True)
        worker.ask({"write": str(file)})
        return _Written(tuple(reply["warnings"]))

    def _check_same(self, step: int, domain: str, facts: Facts) -> None:
        with self._guard:
            kinds = {known.facts.kind for known in self._known.values()}
            known = self._known.setdefault(domain, Known(step, facts))
        differs = known.facts.difference(facts)
        if kinds and facts.kind not in kinds:
            raise FunctionError(
                f"Expected {', '.join(kinds)} for every checkpoint and domain, but got "
                f"{facts.kind}: return one kind."
            )
        if differs is not None:
            raise FunctionError(
                f"The {differs} of domain {domain!r} at step {step} differ from those at step "
                f"{known.step}: evaluate every checkpoint on the same examples, in the same order."
            )

    def _loaded_worker(self) -> Worker:
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
        if worker is not None:
            with self._guard:
                self._workers.discard(worker)
            worker.close()
