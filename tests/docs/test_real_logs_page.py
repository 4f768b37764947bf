"""The page about real logs shows what checkwise makes of them."""

from __future__ import annotations

import pytest

from tests.docs.test_pages import builder
from tests.requirements import requires


@requires("shared")
def test_the_table_and_the_page_are_what_the_logs_give() -> None:
    real_logs = builder("real_logs")
    lines = real_logs.outcomes()
    assert real_logs.TABLE.read_text() == real_logs.table(lines), "run docs/build/real_logs.py"
    shown = builder("page").part(real_logs.PAGE, real_logs.PART)
    assert shown == real_logs.summary(lines), "run docs/build/real_logs.py"
    assert all(reason in shown for reason in real_logs.REASONS.values())
    refused = [line for line in real_logs.TABLE.read_text().splitlines() if "has Logloss, " in line]
    assert [real_logs.reason_of(line) for line in refused] == [
        "nothing says whether a column is of validation"
    ]


def test_an_unknown_refusal_or_kind_stops_the_page() -> None:
    real_logs = builder("real_logs")
    with pytest.raises(SystemExit, match="has words for, but got: No such file"):
        real_logs.reason_of("No such file")
    unknown = real_logs.Outcome("wandb", "someone/something", "log.csv", "", 3, "1 by ac-nll", "")
    with pytest.raises(SystemExit, match="kinds in KINDS, but got wandb"):
        real_logs.table([unknown])
