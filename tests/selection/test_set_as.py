"""Settings survive the name of a metric, whatever is in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as with_settings
from hypothesis import strategies as st

import checkwise as cw
from checkwise.selection.set_as import in_words, is_settings, plain, settings_in, settings_name
from tests.refusals import refused

SAFE = re.compile(r"[A-Za-z0-9_./-]+")  # what MLflow, TensorBoard and Lightning's loggers all take
texts = st.text(max_size=12)
names = st.text(alphabet="abcdef_05ü /%", min_size=1, max_size=8).filter(
    lambda name: name != "rule"
)
scalars = st.none() | st.booleans() | st.integers() | texts | st.floats(allow_nan=False)
values = scalars | st.lists(texts, max_size=3) | st.dictionaries(texts, st.integers(), max_size=3)


# Hypothesis makes its table of characters first, which takes a second.
@given(rule=names, settings=st.dictionaries(names, values, max_size=4))
@with_settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_name_carries_any_settings(rule: str, settings: dict[str, Any]) -> None:
    name = settings_name({"rule": rule, **settings})
    assert SAFE.fullmatch(name)
    assert not {"", ".", ".."} & set(name.split("/"))  # MLflow takes it for a path
    told = {key: plain(value) for key, value in settings.items() if value is not None}
    read = settings_in(f"eval_{name}")
    assert read.pop("rule") == rule
    assert read.keys() == told.keys()
    for key, value in told.items():
        is_decimal = isinstance(value, str) and not isinstance(read[key], str)
        assert (float(value) if is_decimal else value) == read[key]


def test_a_name_says_the_tolerance_and_what_is_not_usual() -> None:
    live = cw.LiveSelector("ac-nc", delta_pp="0.50", weights={"photo": 2, "art": 1})
    name = settings_name(live.chosen_by)
    assert name.startswith("checkwise/settings/ac-nc/delta_pp/0.50/weights/")
    read = settings_in(name)
    assert read["weights"] == {"photo": 2, "art": 1}
    assert in_words(live.chosen_by) == 'delta_pp 0.50, weights {"photo":2,"art":1}'
    alone = cw.LiveSelector("source-acc").chosen_by
    assert settings_name(alone) == "checkwise/settings/source-acc"


def test_a_selection_and_the_live_one_that_led_to_it_have_the_same_name() -> None:
    for options in ({}, {"guard": True}, {"tolerance": "fixed", "q": 2, "ties": "latest"}):
        live = cw.LiveSelector("ac-nc", delta_pp=1, **options)
        for step, nll in ((1, 0.4), (2, 0.3)):
            live.add(step, {"val": {"accuracy": 0.999, "nll": nll, "cwece": nll / 9, "n": 1000}})
        assert live.selection is not None
        assert settings_name(live.selection.settings) == settings_name(live.chosen_by)


@pytest.mark.parametrize(
    "name", ["checkwise/settings", "checkwise/settings/", "x", "checkwise/settings/ac/delta_pp"]
)
def test_other_names_carry_nothing(name: str) -> None:
    assert settings_in(name) == {}


def test_a_prefix_of_a_trainer_is_no_hindrance() -> None:
    for prefix in ("", "eval_", "eval/", "eval_photo_"):
        assert is_settings(f"{prefix}checkwise/settings/ac-nc/delta_pp/1")
    assert not is_settings("mycheckwise/settings/ac-nc")


@pytest.mark.parametrize(
    "told", ["sources/5", "sources/null", "trajectory/1", "sources/_5b_22test_22_5d"]
)
def test_settings_that_no_rule_takes_are_refused(tmp_path: Path, told: str) -> None:
    names = ["step", *(f"checkwise/{d}/{m}" for d in ("val", "test") for m in ("accuracy", "nll"))]
    header = ",".join([*names, f"checkwise/settings/ac-nll/delta_pp/1/{told}"])
    log = tmp_path / "log.csv"
    log.write_text(f"{header}\n1,0.5,2,0.9,1,1\n2,0.6,1,0.1,9,1\n")
    run = cw.load(log)
    assert run.domains == ("val",)
    with refused("value: ac-nll"):
        cw.select(run)
    assert cw.select(run, "ac-nll").step == 2


def test_settings_that_cannot_be_read_are_said_once(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    damaged = "checkwise/settings/ac-nll/delta_pp"
    header = f"step,checkwise/val/accuracy,checkwise/val/nll,{damaged}"
    log.write_text(f"{header}\n1,0.5,2,1\n2,0.6,1,1\n")
    run = cw.load(log)
    (note,) = [note for note in run.notes if "settings" in note]
    assert f"{damaged} cannot be read" in note
    assert not run.chosen_by
    assert cw.select(run).step == 2
