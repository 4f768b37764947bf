"""What tests share: a check of printed JSON in each, and a process from which commands are forked.

JSON that a command prints is of the form its schema states. No drawn test fails because the machine
is busy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from checkwise.cli import printing as json_output
from tests.command_server import SOCKET, command_server
from tests.json_forms import checked_line

settings.register_profile("any load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any load")


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
