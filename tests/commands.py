"""Commands in this process: how they end, and what they print."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkwise.cli import main


def run(*words: object) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    return int(stop.value.code or 0)


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    code = run(*words)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def answer(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    """What a command answers with ``--json``."""
    code, printed, error = call(capsys, *words, "--json")
    assert code == 0, error
    return json.loads(printed)


def complaint(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What a command that is refused says."""
    code, _, error = call(capsys, *words)
    assert code == 2
    return error
