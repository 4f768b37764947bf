"""A worker as a process: a job as JSON comes in, signals and the end of its input stop it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from checkwise.errors import CheckwiseError


def run_job(job: Callable[..., Any], work: Callable[..., object]) -> None:
    """Work on the job in the first argument until it is done, or until asked to stop."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: stopping.set())
    threading.Thread(target=_await_end_of_input, args=(stopping,), daemon=True).start()
    try:
        work(job(**json.loads(sys.argv[1])), stop=stopping.is_set)
    except CheckwiseError as error:
        print(" ".join(str(error).split()), file=sys.stderr, flush=True)
        os._exit(2)
    # The thread above still reads standard input; an ordinary exit would wait for its lock.
    sys.stderr.flush()
    os._exit(0)


def _await_end_of_input(stopping: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    stopping.set()
