"""What one test said, another does not hear."""

from __future__ import annotations

import pytest

from tests.cli.calls import heard


@pytest.fixture(autouse=True)
def _silence() -> None:
    heard()
