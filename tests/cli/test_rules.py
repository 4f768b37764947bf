"""``checkwise rules``: everything there is, readable on a narrow and on a wide terminal."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

import checkwise as cw
from checkwise.cli import printing
from checkwise.cli.deploy import _average
from checkwise.study import methods
from tests.cli.calls import said


def test_rules_are_listed_for_machines() -> None:
    content = json.loads(said("rules", "--json"))
    rules = {rule["name"]: rule for rule in content["rules"]}
    assert set(cw.rules()) == set(rules)
    assert rules["ac-nc"]["needs"] == ["accuracy", "nll", "cwece"]
    assert rules["ac-nc"]["parameters"]["q"] == "inf"


@pytest.mark.parametrize("width", [80, 200])
def test_no_word_is_cut(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "WIDE", width)
    text = said("rules")
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    printed = Counter(text.split())
    for rule in cw.rules().values():
        assert printed[rule.name] >= 2, "once with what it chooses, once with what it takes"
    for summary in [r.summary for r in cw.rules().values()] + [
        m.summary for m in methods().values() if not (m.is_rule or m.expected)
    ]:
        assert not Counter(summary.split()) - printed
    assert "threshold_pp=required" in printed


def test_a_wide_terminal_has_a_line_for_each() -> None:
    lines = said("rules").splitlines()
    for rule in cw.rules().values():
        assert any(line.split()[:1] == [rule.name] and rule.summary in line for line in lines)


def test_an_average_that_is_named_is_one_of_deploy() -> None:
    averages = re.findall(r"deploy --average (\w+)", said("rules"))
    assert averages
    for average in averages:
        assert _average(average)[0]
