"""Settings in words: the tolerance, and what is not usual."""

from __future__ import annotations

from pathlib import Path

import checkwise as cw
from checkwise.selection import in_words, not_usual


def test_words_say_the_tolerance_and_what_is_not_usual() -> None:
    live = cw.LiveSelector("ac-nc", delta_pp="0.50", weights={"photo": 2, "art": 1})
    assert in_words(live.chosen_by) == 'weights {"photo":2,"art":1}, delta_pp 0.50'
    assert in_words(cw.LiveSelector("source-acc").chosen_by) == ""


def test_a_selection_and_the_live_one_that_led_to_it_say_the_same() -> None:
    for options in ({}, {"guard": True}, {"tolerance": "fixed", "q": 2, "ties": "latest"}):
        live = cw.LiveSelector("ac-nc", delta_pp=1, **options)
        for step, nll in ((1, 0.4), (2, 0.3)):
            live.add(step, {"val": {"accuracy": 0.999, "nll": nll, "cwece": nll / 9, "n": 1000}})
        assert live.selection is not None
        assert not_usual(live.selection.settings) == not_usual(live.chosen_by)


def test_a_log_sets_nothing(tmp_path: Path) -> None:
    """Names of columns are numbers' names and nothing else."""
    log = tmp_path / "log.csv"
    names = ["checkwise/val/accuracy", "checkwise/val/nll"]
    for other in ("checkwise/settings/ac-nll/delta_pp/50", "eval_checkwise/settings/source-acc"):
        log.write_text(f"step,{','.join(names)},{other}\n1,0.5,1,1\n2,0.6,2,1\n")
        run = cw.load(log)
        assert run.chosen_by == {}
        assert run.domains == ("val",)
        assert cw.select(run).step == 2
