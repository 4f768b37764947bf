"""One trained cohort for the whole session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.weights.cohorts import train_cohort


@pytest.fixture(scope="session")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of GroupDRO that share their first weights, with averages kept."""
    return train_cohort(tmp_path_factory.mktemp("averages"))
