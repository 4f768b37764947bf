"""The page about real logs shows what checkwise makes of them."""

from __future__ import annotations

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
