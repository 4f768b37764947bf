"""Workers as an array of Slurm jobs, submitted with submitit.

A worker that comes near its time limit saves its state, and Slurm queues it again; a job that is
requeued or preempted starts again; a cancelled one saves its state and ends.
"""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import time
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError, require
from checkwise.predict import ONE_THREAD
from checkwise.study.sweep import launching
from checkwise.study.sweep.launching import (
    ExecutorSettings,
    JobLike,
    RemoteWorker,
    Workers,
    bytes_of,
    minutes_of,
)

# Short jobs start sooner, and a worker whose time is over goes on in its next job.
TIME: Final = "1:00:00"
PATIENCE_SECONDS = 180.0
POLL_SECONDS = 5.0
_UNLIMITED: Final = 1_000_000  # time limits that a job may reach


class SlurmWorker(RemoteWorker):
    """The callable that submitit runs in a job. submitit handles SIGUSR2 and calls ``checkpoint``;
    SIGTERM, from ``scancel`` and from preemption, comes here."""

    def __call__(self) -> str | None:
        signal.signal(signal.SIGTERM, self.ask_to_stop)
        return super().__call__()

    def checkpoint(self) -> Any:
        """Save the state; what submitit shall run when the job starts again."""
        from submitit.helpers import DelayedSubmission

        self.ask_to_stop()
        self.wait()
        return DelayedSubmission(self)


class SlurmExecutor:
    """Submits one array of workers."""

    def __init__(self, settings: ExecutorSettings) -> None:
        require("submitit")
        for program in ("sbatch", "squeue", "scancel", "scontrol"):
            if shutil.which(program) is None:
                raise InputError(
                    f"Expected Slurm on this machine, but the command {program} is not here: run "
                    "this where jobs are submitted, or use --executor local.",
                    code="system",
                )
        self._parameters: dict[str, Any] = {
            "job_name": "checkwise",
            "time": minutes_of(settings.time or TIME),
            "cpus_per_task": settings.cpus or 1,
            "setup": [f"export {name}={value}" for name, value in ONE_THREAD.items()],
        }
        if settings.partition is not None:
            self._parameters["partition"] = settings.partition
        if settings.memory is not None:
            self._parameters["mem"] = f"{-(-bytes_of(settings.memory) // 2**20)}M"
        if settings.gpus:
            self._parameters["gpus_per_node"] = settings.gpus

    def launch(self, job: JobLike, workers: int) -> Workers:
        import submitit
        from submitit.core.utils import FailedJobError

        folder = launching.invite(job.cohort)
        executor = submitit.SlurmExecutor(folder / "slurm", max_num_timeout=_UNLIMITED)
        executor.update_parameters(**self._parameters)
        try:
            # submitit repeats there what sbatch says, which the message below has.
            with redirect_stderr(io.StringIO()), executor.batch():
                jobs = [executor.submit(SlurmWorker(job, folder)) for _ in range(workers)]
        except BaseException as error:
            launching.close(folder)
            if not isinstance(error, FailedJobError | subprocess.CalledProcessError):
                raise
            said = [line.partition("error: ")[2] for line in str(error).splitlines()]
            reason = "; ".join(filter(None, said)) or " ".join(str(error).split())
            raise InputError(
                f"Expected Slurm to accept the jobs, but it said: {reason}: correct the options, "
                "or [executor] of the study file.",
                code="system",
            ) from None
        return _Array(jobs, folder)


class _Array:
    def __init__(self, jobs: list[Any], folder: Path) -> None:
        self._jobs = {job.job_id: job for job in jobs}
        self._folder = folder
        self._asked = -POLL_SECONDS
        self._left = frozenset(self._jobs)

    def alive(self) -> int:
        if time.monotonic() - self._asked >= POLL_SECONDS:
            self._look()
        return len(self._left)

    def stop(self) -> list[str]:
        self._look()
        cancelled = self._left
        if cancelled:
            _run("scancel", *sorted(cancelled))
        end = time.monotonic() + PATIENCE_SECONDS
        while self._left and time.monotonic() < end:
            time.sleep(1.0)
            self._look()
        ended = [self._failure(number) for number in self._jobs if number not in cancelled]
        failures = [failure for failure in ended if failure is not None]
        if not failures:
            launching.close(self._folder)
        return failures

    def _look(self) -> None:
        """Ask Slurm which jobs it still has; nothing has changed where it does not answer."""
        self._asked = time.monotonic()
        numbers = ",".join(self._jobs)
        done = _run("squeue", "--noheader", "--array", "--jobs", numbers, "-o", "%i")
        # Once all of them are forgotten, Slurm no longer knows the numbers.
        if done.returncode == 0 or "Invalid job id" in done.stderr:
            self._left = frozenset(done.stdout.split())

    def _failure(self, number: str) -> str | None:
        job = self._jobs[number]
        if job.paths.result_pickle.exists():
            failure: str | None = job.result()
            return failure
        # Slurm knows for some minutes where a job ran that has ended.
        shown = _run("scontrol", "show", "job", number).stdout.split()
        fields = dict(field.partition("=")[::2] for field in shown)
        host = fields.get("BatchHost", "its node")
        if not job.paths.stdout.exists():  # a job that cannot open its log fails without a word
            return launching.not_shared(self._folder, host)
        return (
            f"The Slurm job {number} on {host} ended before its work was done; its log is in "
            f"{self._folder / 'slurm'}."
        )


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "")
