"""Commands in processes of their own, without importing other people's packages for each.

Every command is a fork of one process that has imported those packages and nothing of checkwise.
The fixture `commands` starts that process once and names its socket in `SOCKET`. Outside the tests
the first command starts it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

PACKAGES = (
    *("numpy", "pandas", "pyarrow.parquet", "click", "rich.progress"),
    *("scipy.stats", "scipy.optimize", "torch", "torch._dynamo"),
)
SOCKET = "CHECKWISE_TESTS_COMMAND_SERVER"


@contextlib.contextmanager
def command_server() -> Iterator[str]:
    """A process that answers at the socket whose name is given, until the end."""
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "socket")
        process = subprocess.Popen([sys.executable, "-P", __file__, place], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield place
        finally:
            process.kill()
            process.communicate()


def checkwise(
    arguments: Sequence[object], folder: Path | None = None, **environ: str
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``checkwise ARGUMENTS``."""
    if SOCKET not in os.environ:
        own = contextlib.ExitStack()
        os.environ[SOCKET] = own.enter_context(command_server())
        atexit.register(own.close)
    asked = {
        "arguments": [str(argument) for argument in arguments],
        "folder": str(folder or Path.cwd()),
        "environ": {**os.environ, **environ},
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[SOCKET])
        with connection.makefile("rw") as file:
            file.write(json.dumps(asked) + "\n")
            file.flush()
            code, output, errors = json.loads(file.readline())
    return code, output, errors


def serve(place: str) -> None:
    """Answer one command after the other."""
    for package in PACKAGES:
        with contextlib.suppress(ImportError):
            importlib.import_module(package)
    assert not any(name.partition(".")[0] == "checkwise" for name in sys.modules)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen()
        print("ready", flush=True)
        while True:
            connection, _ = door.accept()
            with connection, connection.makefile("rw") as file:
                answer = _answer(json.loads(file.readline()))
                file.write(json.dumps(answer) + "\n")


def _answer(asked: dict[str, Any]) -> tuple[int, str, str]:
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            _become(asked, output, errors)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code, _content(output), _content(errors)


def _become(asked: dict[str, Any], output: IO[bytes], errors: IO[bytes]) -> None:
    code = 1
    try:
        for stream, number in ((open(os.devnull), 0), (output, 1), (errors, 2)):  # noqa: SIM115
            os.dup2(stream.fileno(), number)
        os.chdir(str(asked["folder"]))
        os.environ.clear()
        os.environ.update(asked["environ"])
        sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        from checkwise.cli import main

        main(asked["arguments"])
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="surrogateescape")


if __name__ == "__main__":
    serve(sys.argv[1])
