"""Numbers as people read them."""

from __future__ import annotations

from checkwise.page import words

NAN = float("nan")


def test_numbers_have_no_negative_zero() -> None:
    assert words.number(-0.0001, "target_accuracy", signed=True) == "0.00"
    assert words.number(-0.25, "target_accuracy") == "−0.25"
    assert words.number(0.25, "target_nll", signed=True) == "+0.250"
    assert words.number(NAN, "target_nll") == "–"
