"""A damaged log gives an answer or one clear line; `make torture` reads 10,000 of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.readers.logs.mutations import damaged, more_seeds, seeds
from tests.readers.logs.outcomes import outcome

BATCHES, OF = 12, 25


def test_whole_logs_are_read() -> None:
    outcomes = {path.name: outcome(path) for path in seeds() if path.suffix != ".sql"}
    assert set(outcomes.values()) == {"answer", "refused"}
    assert list(outcomes.values()).count("answer") >= 20


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_logs(batch: int, tmp_path: Path) -> None:
    for number in range(batch * OF, (batch + 1) * OF):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert outcome(damaged(number, folder)) in ("answer", "refused"), number


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_logs_of_more_kinds(batch: int, tmp_path: Path) -> None:
    for number in range(batch * OF, (batch + 1) * OF):
        folder = tmp_path / str(number)
        folder.mkdir()
        result = outcome(damaged(number, folder, more_seeds()))
        assert result in ("answer", "refused"), number
