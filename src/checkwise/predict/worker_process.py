"""A worker as its parent sees it: a process that is asked, answers, fails or ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import Any

from checkwise.errors import CheckwiseError
from checkwise.predict.function import FunctionName
from checkwise.store.atomic_write import StoreError
from checkwise.threads import ONE_THREAD


class FunctionError(CheckwiseError):
    """The user's function, or what it returned, failed; ``trace`` is the worker's traceback."""

    def __init__(self, reason: str, trace: str = "") -> None:
        super().__init__(reason)
        # Shown where Python shows how errors came about, which is under --debug only.
        self.__cause__ = _WorkerError(trace) if trace else None


class _WorkerError(Exception):
    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Worker:
    """One process; used by one thread at a time.

    Args:
        name: the function.
        lock: a file descriptor that the process holds open as long as it lives.
        sha256: what the function's file has to be; None for the first worker, which finds out.
    """

    def __init__(self, name: FunctionName, *, lock: int, sha256: str | None = None) -> None:
        with ExitStack() as stack:  # where the process cannot start, the log is closed
            self._log = stack.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "checkwise.predict.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                # As many threads as the user says, or one: the same for any number of workers.
                env={**ONE_THREAD, **os.environ},
                pass_fds=[lock],
                start_new_session=True,  # Ctrl-C reaches the parent alone
            )
            stack.pop_all()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self._name = name
        self.sha256 = sha256
        self._loaded = False

    def load(self) -> None:
        """Load the function, unless that was done.

        Raises:
            FunctionError: it cannot be loaded, or has changed.
        """
        if self._loaded:
            return
        sha256: str = self.ask({"load": asdict(self._name)})["sha256"]
        if self.sha256 not in (None, sha256):
            raise FunctionError(f"{self._name.short} was changed meanwhile: run the command again.")
        self.sha256, self._loaded = sha256, True

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for the reply.

        Raises:
            FunctionError: the function failed, or the process ended.
            StoreError: outputs cannot be written.
        """
        try:
            self._to.write(json.dumps(request).encode() + b"\n")
            self._to.flush()
            line = self._from.readline()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise FunctionError(self._how_it_ended())
        reply: dict[str, Any] = json.loads(line)
        if reply.get("disk"):
            raise StoreError(reply["failed"])
        if "failed" in reply:
            raise FunctionError(reply["failed"], reply["traceback"])
        return reply

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process at once; a thread that waits for its reply goes on."""
        self._process.kill()

    def close(self) -> None:
        """Let the process end, and wait for it."""
        with suppress(OSError):
            self._to.write(b'{"end": true}\n')
            self._to.flush()
        self._process.wait()
        with suppress(OSError):
            self._to.close()
        self._from.close()
        self._log.close()

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        last = f", after printing: {lines[-1][:200]}" if lines else ""
        killed = " (out of memory?)" if code == -9 else ""
        return f"the process of the function ended with exit code {code}{killed}{last}"
