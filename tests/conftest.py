"""What every test is watched for: JSON that a command prints is of the form its schema states."""

from __future__ import annotations

import pytest

from checkwise.cli import json_output
from tests.json_forms import checked_line


@pytest.fixture(autouse=True)
def _json_as_its_schema_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_output, "line", checked_line)
