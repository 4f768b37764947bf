"""A damaged log gives an answer or one clear line; `make torture` reads 10,000 of them."""

from __future__ import annotations

from pathlib import Path

from tests.readers.logs.mutations import damaged, more_seeds, seeds
from tests.readers.logs.outcomes import outcome

HOW_MANY = 300


def test_whole_logs_are_read() -> None:
    outcomes = {path.name: outcome(path) for path in seeds() if path.suffix != ".sql"}
    assert set(outcomes.values()) == {"answer", "refused"}
    assert list(outcomes.values()).count("answer") >= 20


def test_damaged_logs(tmp_path: Path) -> None:
    for more in (False, True):
        wrong = {}
        for number in range(HOW_MANY):
            folder = tmp_path / f"{number} {more}"
            folder.mkdir()
            result = outcome(damaged(number, folder, more_seeds() if more else seeds()))
            if result not in ("answer", "refused"):
                wrong[number] = result
        assert not wrong
