"""The page about real logs shows what checkwise makes of them."""

from __future__ import annotations

import pytest

from tests.docs.test_pages import builder
from tests.requirements import requires


@requires("shared")
def test_the_page_is_what_the_logs_give() -> None:
    real_logs = builder("real_logs")
    assert real_logs.PAGE.read_text() == real_logs.page(real_logs.outcomes()), (
        "run docs/build/real_logs.py"
    )


def test_every_reason_for_a_refusal_is_on_the_page() -> None:
    real_logs = builder("real_logs")
    text = real_logs.PAGE.read_text()
    assert all(reason in text for reason in real_logs.REASONS.values())


def test_a_column_that_may_be_of_training_is_not_called_one() -> None:
    real_logs = builder("real_logs")
    refused = [line for line in real_logs.PAGE.read_text().splitlines() if "has Logloss, " in line]
    assert [real_logs.reason_of(line) for line in refused] == [
        "nothing says whether a column is of validation"
    ]


def test_an_unknown_refusal_or_kind_stops_the_page() -> None:
    real_logs = builder("real_logs")
    with pytest.raises(SystemExit, match="has words for, but got: No such file"):
        real_logs.reason_of("No such file")
    unknown = real_logs.Outcome("wandb", "someone/something", "log.csv", "", 3, "1 by ac-nll", "")
    with pytest.raises(SystemExit, match="kinds in KINDS, but got wandb"):
        real_logs.page([unknown])
