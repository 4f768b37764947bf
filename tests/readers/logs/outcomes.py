"""What `checkwise select` does with a log, within limits of time."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from checkwise.cli import main

LONGEST_MESSAGE = 2_000  # characters
SECONDS = 20


class TooSlowError(BaseException):
    """A log took longer than it may; no `except Exception` catches this."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise ``TooSlowError`` in the code that takes longer."""

    def stop(_: int, __: FrameType | None) -> NoReturn:
        raise TooSlowError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome(path: Path) -> str:
    """``answer``, ``refused``, or what went wrong."""
    out, complaints = io.StringIO(), io.StringIO()
    try:
        with (
            at_most(SECONDS),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(complaints),
        ):
            code = _exit_code(["select", str(path), "--json"])
            if code not in (0, 2):
                _exit_code(["select", str(path), "--json", "--debug"])
    except TooSlowError as error:
        return str(error)
    except Exception:
        return traceback.format_exc()
    said = complaints.getvalue().splitlines()
    if code == 0:
        json.loads(out.getvalue())
        return "answer"
    refusal = said[-1] if said else ""
    if code != 2 or out.getvalue() or not refusal.startswith("checkwise: "):
        return f"exit {code}, printed {out.getvalue()[:200]!r}, complained {said[-3:]}"
    if len(refusal) > LONGEST_MESSAGE:
        return f"a message of {len(refusal)} characters: {refusal[:300]}"
    if any(not line.startswith("checkwise: ") for line in said):
        return f"complained {said}"
    return "refused"


def _exit_code(arguments: list[str]) -> int:
    try:
        main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    raise AssertionError("main always exits")
