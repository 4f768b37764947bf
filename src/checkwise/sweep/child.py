"""A worker process: ``python -m checkwise.sweep.child '<job as JSON>'``.

It ends cleanly when it is sent SIGINT or SIGTERM, and when its standard input ends, which is what
happens when the process that started it dies.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from checkwise.errors import CheckwiseError
from checkwise.sweep.worker import Job, work


def main() -> None:
    """Work until there is nothing left to do, or until asked to stop."""
    job = Job(**json.loads(sys.argv[1]))
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    threading.Thread(target=_await_end_of_input, args=(asked,), daemon=True).start()
    try:
        work(job, stop=asked.is_set)
    except CheckwiseError as error:
        print(" ".join(str(error).split()), file=sys.stderr, flush=True)
        os._exit(2)
    # The thread above still reads standard input; an ordinary exit would wait for its lock.
    sys.stderr.flush()
    os._exit(0)


def _await_end_of_input(asked: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    asked.set()


if __name__ == "__main__":
    main()
