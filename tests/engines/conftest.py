"""What the local executor leaves of a study, trained once for all engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.sweeps import Contents, trained_locally, write_small

Reference = Callable[[str], tuple[str, Contents]]


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The file or name of a study, and what its runs keep."""
    known: dict[str, tuple[str, Contents]] = {}

    def trained(name: str) -> tuple[str, Contents]:
        if name not in known:
            folder: Path = tmp_path_factory.mktemp(name)
            study = str(write_small(folder)) if name == "small" else name
            known[name] = (study, trained_locally(study, folder))
        return known[name]

    return trained
