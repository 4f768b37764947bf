"""Numbers as people read them."""

from __future__ import annotations

import pytest

from checkwise.report import words

NAN = float("nan")


def test_numbers_have_no_negative_zero() -> None:
    assert words.number(-0.0001, "target_accuracy", signed=True) == "0.00"
    assert words.number(-0.25, "target_accuracy") == "−0.25"
    assert words.number(0.25, "target_nll", signed=True) == "+0.250"
    assert words.number(NAN, "target_nll") == "–"


@pytest.mark.parametrize(("things", "said"), [(0, "0 runs"), (1, "1 run"), (30, "30 runs")])
def test_one_thing_is_not_said_in_the_plural(things: int, said: str) -> None:
    assert words.count(things, "run") == said
