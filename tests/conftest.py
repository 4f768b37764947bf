"""What tests share: a check of printed JSON in each, and a process from which commands are forked.

JSON that a command prints is of the form its schema states.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from checkwise.cli import printing as json_output
from tests.command_server import SOCKET, command_server
from tests.json_forms import checked_line


@pytest.fixture(autouse=True)
def _json_as_its_schema_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_output, "line", checked_line)


@pytest.fixture(scope="session")
def commands() -> Iterator[None]:
    """One process from which commands are forked; see `tests.command_server.checkwise`."""
    with command_server() as place:
        os.environ[SOCKET] = place
        yield
        del os.environ[SOCKET]
