"""Commands in processes of their own, without importing other people's packages for each.

Every command is a fork of one process that has imported those packages and nothing of checkwise.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from typing import IO

PACKAGES = ("numpy", "pandas", "pyarrow.parquet", "numba", "typer", "rich.progress", "torch")


class CommandServer:
    """Starts the process when the first command is run."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> CommandServer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()

    def run(self, arguments: list[str]) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of ``checkwise ARGUMENTS``."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        code, output, errors = json.loads(self._process.stdout.readline())
        return code, output, errors


def serve() -> None:
    """Answer every line of standard input until it ends."""
    for package in PACKAGES:
        with contextlib.suppress(ImportError):
            importlib.import_module(package)
    assert not any(name.partition(".")[0] == "checkwise" for name in sys.modules)
    for line in sys.stdin:
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            child = os.fork()
            if child == 0:
                _become(json.loads(line), output, errors)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            print(json.dumps([code, _content(output), _content(errors)]), flush=True)


def _become(arguments: list[str], output: IO[bytes], errors: IO[bytes]) -> None:
    for stream, number in ((open(os.devnull), 0), (output, 1), (errors, 2)):  # noqa: SIM115
        os.dup2(stream.fileno(), number)
    code = 1
    try:
        from checkwise.cli import main

        main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


if __name__ == "__main__":
    serve()
