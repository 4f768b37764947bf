"""Checkpoints evaluated by workers that an executor starts: each takes some that no other has.

Everything that workers share is in one folder of the predictions folder:

    .jobs/<session>/tasks.json        what is to be evaluated
    .jobs/<session>/step-…/lease      who evaluates a checkpoint
    .jobs/<session>/step-….failed     why a checkpoint has no outputs
    .jobs/<session>/outputs/          outputs on their way to their place, one rename away

A command that comes later removes the folder. A worker of an earlier one, wherever it still runs,
then has nothing to rename: outputs of two functions are never mixed.
"""

from __future__ import annotations

import json
import random
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from checkwise.errors import CheckwiseError
from checkwise.predict import (
    JOBS,
    Elsewhere,
    Evaluated,
    Failure,
    FunctionName,
    Pool,
    Task,
    Worker,
    known_facts,
    saved_facts,
)
from checkwise.store import FileState, Predictions, is_whole, write_text, writing
from checkwise.study.folder import take
from checkwise.study.sweep.launching import Executor, run_job, run_workers

POLL_SECONDS = 1.0
OUTPUTS: Final = "outputs"
TASKS: Final = "tasks.json"


@dataclass(frozen=True)
class PredictJob:
    """What every worker needs to know; ``cohort`` is the folder ``.jobs``."""

    cohort: str
    session: str
    source: str
    attribute: str
    sha256: str


class _StoppedError(Exception):
    """The worker was asked to stop."""


def work(job: PredictJob, *, stop: Callable[[], bool] = lambda: False) -> None:
    """Evaluate the checkpoints that have no outputs and that no other worker evaluates."""
    session = Path(job.cohort) / job.session
    out = Path(job.cohort).parent
    tasks = [
        Task(
            entry["step"], Path(entry["path"]), FileState(*entry["state"]), tuple(entry["domains"])
        )
        for entry in json.loads((session / TASKS).read_text())
    ]

    def check(_: int) -> None:
        if stop():
            raise _StoppedError

    with tempfile.TemporaryFile() as lock:  # processes of this worker hold it, nobody asks for it

        def start() -> Worker:
            name = FunctionName(job.source, job.attribute)
            return Worker(name, lock=lock.fileno(), sha256=job.sha256)

        while not stop():
            left = _open_tasks(session, out, tasks)
            if not left:
                return
            first = random.randrange(len(left))
            pool = Pool(
                left[first:] + left[:first],
                session / OUTPUTS,
                known_facts(out),
                start,
                lambda task: _claimed(session, out, task),
            )
            try:
                pool.run(1, check)
            except _StoppedError:
                return
            finally:
                for failure in pool.failures:
                    facts = {**vars(failure), "error": str(failure.error)}
                    with writing(session):
                        write_text(_failure_file(session, failure.step), json.dumps(facts))
            if not pool.written and not pool.failures:
                time.sleep(POLL_SECONDS)  # others have the rest, and may die


@contextmanager
def _claimed(session: Path, out: Path, task: Task) -> Iterator[Task | None]:
    """What is left of a task, if nobody else has it; its outputs are put in place afterwards."""
    lease = take(_failure_file(session, task.step).with_suffix(""))
    if lease is None:
        yield None
        return
    with lease:
        mine = next(iter(_open_tasks(session, out, [task])), None)
        yield mine
        for domain in mine.domains if mine is not None else ():
            made = Predictions(session / OUTPUTS).place(task.step, domain)
            place = Predictions(out).place(task.step, domain)
            if is_whole(made):
                with writing(out):
                    place.parent.mkdir(exist_ok=True)
                    made.rename(place)


def evaluate_with(executor: Executor, workers: int) -> Elsewhere:
    def evaluate(
        name: FunctionName,
        sha256: str,
        tasks: Sequence[Task],
        out: Path,
        progress: Callable[[int], None],
    ) -> Evaluated:
        session = out / JOBS / secrets.token_hex(8)
        with writing(out):
            (session / OUTPUTS).mkdir(parents=True)
            plain = [{**vars(task), "path": str(task.path)} for task in tasks]
            write_text(session / TASKS, json.dumps(plain))
        job = PredictJob(str(session.parent), session.name, name.source, name.attribute, sha256)

        def count() -> int:
            files = (Predictions(out).place(t.step, d) for t in tasks for d in t.domains)
            return sum(map(is_whole, files))

        number = min(workers, len(tasks))
        ended = run_workers(executor, job, number, watch=lambda: progress(count()))
        told = [json.loads(file.read_text()) for file in session.glob("*.failed")]
        failures = [Failure(**{**facts, "error": CheckwiseError(facts["error"])}) for facts in told]
        failures += _unlike(out, tasks)
        if not ended.interrupted and _open_tasks(session, out, tasks):
            default = "Expected workers to evaluate every checkpoint, but some are left."
            raise CheckwiseError(ended.failures[0] if ended.failures else default)
        return Evaluated(count(), tuple(failures), ended.interrupted)

    return evaluate


def _open_tasks(session: Path, out: Path, tasks: Sequence[Task]) -> list[Task]:
    """What is left of tasks: domains without outputs, of checkpoints that did not fail."""
    place = Predictions(out).place
    left = [
        replace(task, domains=tuple(d for d in task.domains if not is_whole(place(task.step, d))))
        for task in tasks
        if not _failure_file(session, task.step).exists()
    ]
    return [task for task in left if task.domains]


def _unlike(out: Path, tasks: Sequence[Task]) -> Iterator[Failure]:
    """Remove outputs on other examples than those of the first step; two workers began at once."""
    known = known_facts(out)
    for task in tasks:
        for domain in task.domains:
            file = Predictions(out).place(task.step, domain)
            first = known.get(domain)
            if first is None or not is_whole(file):
                continue
            differs = first.facts.difference(saved_facts(file))
            if differs is not None:
                file.unlink()
                reason = (
                    f"The {differs} of domain {domain!r} at step {task.step} differ from those at "
                    f"step {first.step}: evaluate every checkpoint on the same examples, in the "
                    "same order."
                )
                yield Failure(task.step, str(task.path), domain, CheckwiseError(reason))


def _failure_file(session: Path, step: int) -> Path:
    return session / f"step-{step:06d}.failed"


if __name__ == "__main__":
    run_job(PredictJob, work)
