"""Workers as tasks of a Ray cluster: a running one by its address, or one on this machine."""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
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
)

RETRIES: Final = 20  # starts of one worker after the first, for instance on another node
PATIENCE_SECONDS = 180.0


class RayExecutor:
    """Starts one task for each worker; Ray starts it again where its node is lost."""

    def __init__(self, settings: ExecutorSettings) -> None:
        require("ray")
        self._address = settings.address
        self._options: dict[str, Any] = {
            "num_cpus": settings.cpus or 1,
            "num_gpus": settings.gpus or 0,
            "max_retries": RETRIES,
            "runtime_env": {"env_vars": dict(ONE_THREAD)},
        }
        if settings.memory is not None:
            self._options["memory"] = bytes_of(settings.memory)

    def launch(self, job: JobLike, workers: int) -> Workers:
        import ray

        began = not ray.is_initialized()  # or this process is connected already
        if began:
            self._connect()
        try:
            self._check_resources()
        except BaseException:
            if began:
                ray.shutdown()
            raise
        folder = launching.invite(job.cohort)
        task = ray.remote(**self._options)(_work)
        tasks = [task.remote(RemoteWorker(job, folder)) for _ in range(workers)]
        return _Tasks(tasks, folder, began)

    def _connect(self) -> None:
        import ray

        host, colon, port = (self._address or "").rpartition("://")[2].rpartition(":")
        try:
            if colon and port.isdecimal():  # where nothing listens Ray would try for minutes
                socket.create_connection((host, int(port)), timeout=10).close()
            ray.init(
                address=self._address or "local",
                include_dashboard=None if self._address else False,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(
                f"Expected a Ray cluster at {self._address or 'this machine'}, but got: "
                f"{' '.join(str(error).split())[:200]}: start one with `ray start --head`, or "
                "correct --address.",
                code="system",
            ) from None

    def _check_resources(self) -> None:
        """Refuse workers that no node of the cluster could ever take."""
        import ray

        wanted = {
            "CPU": self._options["num_cpus"],
            "GPU": self._options["num_gpus"],
            "memory": self._options.get("memory", 0),
        }
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(all(node.get(k, 0) >= v for k, v in wanted.items()) for node in nodes):
            asked = ", ".join(f"{value} {name}" for name, value in wanted.items() if value)
            raise InputError(
                f"Expected a node of the Ray cluster with {asked} for a worker, but none has that: "
                "lower --cpus, --gpus or --memory.",
                code="system",
            )


class _Tasks:
    def __init__(self, tasks: list[Any], folder: Path, began: bool) -> None:
        self._tasks = tasks
        self._folder = folder
        self._began = began

    def alive(self) -> int:
        return len(self._pending())

    def stop(self) -> list[str]:
        import ray

        for task in self._pending():
            ray.cancel(task, recursive=False)
        end = time.monotonic() + PATIENCE_SECONDS
        while self._pending() and time.monotonic() < end:
            time.sleep(0.2)
        for task in self._pending():
            ray.cancel(task, force=True)
        ended = [self._failure(task) for task in self._tasks]
        failures = [failure for failure in ended if failure is not None]
        if not failures:
            launching.close(self._folder)
        if self._began:
            ray.shutdown()
        return failures

    def _pending(self) -> list[Any]:
        import ray

        return list(ray.wait(self._tasks, num_returns=len(self._tasks), timeout=0)[1])

    def _failure(self, task: Any) -> str | None:
        import ray
        from ray.exceptions import RayError, TaskCancelledError

        try:
            failure: str | None = ray.get(task, timeout=1.0)
        except TaskCancelledError:
            return None
        except RayError as error:
            return " ".join(str(getattr(error, "cause", None) or error).split())
        return failure


def _work(worker: RemoteWorker) -> str | None:
    # Ray cancels a task as Ctrl-C would. A cluster that was started in the background of a shell
    # ignores that, and so would its tasks.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return worker()
