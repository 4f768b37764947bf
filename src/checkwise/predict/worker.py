"""A child process of ``checkwise predict``: runs the user's function when the parent asks.

Started as ``python -P -m checkwise.predict.worker``, which keeps the current folder out of where
Python looks for modules. Requests and replies are lines of JSON. The first request names the
function; ``evaluate`` calls it and keeps what it returned; ``write`` writes that. If the parent
ends, so does the child, in whatever it does: files appear whole or not at all.
"""

from __future__ import annotations

import json
import os
import threading
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from checkwise.errors import CheckwiseError, CheckwiseWarning
from checkwise.predict.function import Function, FunctionName
from checkwise.predict.outputs import Outputs, check_outputs
from checkwise.store import StoreError, writing

LONGEST_REASON = 400  # characters; the rest is in the traceback
Reply = dict[str, Any]


def main() -> None:
    """Serve requests until the parent says that there are no more, or ends."""
    requests = _requests(os.dup(0))
    with os.fdopen(os.dup(1), "w", buffering=1) as replies:
        # The function may read and print: neither may land among the messages.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        function, loaded = _load(FunctionName(**next(requests)["load"]))
        print(json.dumps(loaded), file=replies)
        if function is not None:
            server = _Server(function)
            for request in requests:
                if "end" in request:
                    break
                print(json.dumps(server.answer(request)), file=replies)
    os._exit(0)  # the thread that reads requests is not waited for


class _Server:
    def __init__(self, function: Function) -> None:
        self._function = function
        self._outputs: Outputs | None = None

    def answer(self, request: Reply) -> Reply:
        try:
            if "write" in request:
                assert self._outputs is not None
                file = Path(request["write"])
                with writing(file.parent):
                    self._outputs.write(file)
                return {}
            return self._evaluate(*request["evaluate"])
        except (Exception, SystemExit) as error:
            return _failure(error)

    def _evaluate(self, path: str, domain: str) -> Reply:
        self._outputs = None  # let go of the last ones before the next are computed
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always", CheckwiseWarning)
            self._outputs = check_outputs(self._function(path, domain))
        said = [str(w.message) for w in raised if issubclass(w.category, CheckwiseWarning)]
        return {"facts": self._outputs.facts, "warnings": said}


def _load(name: FunctionName) -> tuple[Function | None, Reply]:
    try:
        function, sha256 = name.load()
    except (Exception, SystemExit) as error:
        failure = _failure(error)
        if not isinstance(error, CheckwiseError):
            failure["failed"] = (
                f"Expected to load --function {name.short}, but got {failure['failed']}: correct "
                "the file; what it imports has to be installed or beside it."
            )
        return None, failure
    return function, {"sha256": sha256}


def _failure(error: BaseException) -> Reply:
    reason = " ".join(str(error).split())
    if not isinstance(error, CheckwiseError):
        reason = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    if len(reason) > LONGEST_REASON:
        reason = reason[: LONGEST_REASON - 1] + "…"
    trace = "".join(traceback.format_exception(error))
    return {"failed": reason, "traceback": trace, "disk": isinstance(error, StoreError)}


def _requests(descriptor: int) -> Iterator[Reply]:
    """Requests as they come. The end of input ends the process, even in the midst of work."""
    lines: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        with os.fdopen(descriptor, "rb") as pipe:
            for line in pipe:
                lines.put(line)
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield json.loads(lines.get())


if __name__ == "__main__":
    main()
