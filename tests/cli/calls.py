"""The command line, called in this process: exit codes, and what was said since it was last heard.

``run`` gives the exit code and keeps the words for ``heard``; the others stand for both.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

import pytest

from checkwise.cli import main
from tests.refusals import names

_OUT, _ERR = StringIO(), StringIO()


class Heard(NamedTuple):
    """Standard output and standard error."""

    out: str
    err: str


def heard() -> Heard:
    """What commands said since this was last asked."""
    found = Heard(_OUT.getvalue(), _ERR.getvalue())
    for stream in (_OUT, _ERR):
        stream.seek(0)
        stream.truncate()
    return found


def run(*words: object) -> int:
    """The exit code."""
    with redirect_stdout(_OUT), redirect_stderr(_ERR), pytest.raises(SystemExit) as stop:
        main([*map(str, words)])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def said(*words: object) -> str:
    """What a command that does what it says prints."""
    heard()
    code, (out, err) = run(*words), heard()
    assert code == 0, err
    return out


def refusal(*words: object) -> str:
    """What a command that cannot use its input says: the reason in one line, the last."""
    code, _, err = ran(*words)
    assert code == 2, err
    assert _is_one_line(err), err
    return err


def answer(*words: object) -> Any:
    """The JSON of a command."""
    return json.loads(said(*words, "--json"))


def selection(*words: object) -> Any:
    """The choice of ``select`` in one run, as JSON."""
    (entry,) = answer("select", *words)["runs"]
    return entry["selection"]


def _is_one_line(error: str) -> bool:
    return error.endswith("\n") and error.splitlines()[-1].startswith("checkwise: ")


def ran(*words: object) -> tuple[int, str, str]:
    """The exit code, standard output and standard error; never a traceback."""
    heard()
    code, (out, err) = run(*words), heard()
    assert "Traceback" not in err
    return code, out, err


def otherwise(expected: Mapping[str, str], **places: object) -> list[str]:
    """The command lines that are not refused in one line with these names, and what came.

    Words in capitals stand for places. Only before a copy that fails the answer may be said.
    """
    found = []
    for line, named in expected.items():
        words = shlex.split(line)
        for name, place in places.items():
            words = [word.replace(name, str(place)) for word in words]
        code, out, err = ran(*words)
        silent = not out or "--copy-to" in line
        if code != 2 or not silent or not _is_one_line(err) or not names(named, err):
            found.append(f"{line}: {code}: {out}{err}")
    return found
