"""The page's scripts choose what the library chooses, to the last bit."""

from __future__ import annotations

from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkwise.errors import NoGuaranteeError
from checkwise.report.payload import payload
from tests.report.random_runs import Case, cases
from tests.report.scripts import needs_node, run_script

pytestmark = needs_node

CHOOSE = """
  const rules = Object.fromEntries(given.data.rules.map((rule) => [rule.name, rule]));
  return unpack(given.data).map((run, i) => {
    const s = given.settings[i];
    const selection = select(run, {
      ...s, rule: rules[s.rule], delta: decimal(s.delta), threshold: decimal(s.threshold),
      q: Number(s.q.replace('inf', 'Infinity')),
    });
    const { ties, near } = tiesOf(selection);
    const order = ranked(selection);
    return {
      index: selection.index,
      eligible: selection.eligible,
      score: Array.from(selection.score, (x) => (Number.isNaN(x) ? null : x)),
      accuracy: Array.from(selection.view.accuracy, (x) => (Number.isNaN(x) ? null : x)),
      gap_pp: Array.from(selection.view.gap_pp, (x) => (Number.isNaN(x) ? null : x)),
      order, ties, near, words: explain(selection), bound: guarantee(selection),
    };
  });
"""
FILES = ("exact.js", "runs.js", "rules.js", "explain.js")


def in_the_page(found: list[Case], folder: Path) -> list[dict[str, Any]]:
    data = payload({str(i): case.run for i, case in enumerate(found)}, budget=10**9)
    given = {"data": data, "settings": [case.setting for case in found]}
    answers: list[dict[str, Any]] = run_script(FILES, CHOOSE, given, folder)
    return answers


def test_thousands_of_random_trajectories(tmp_path: Path) -> None:
    found = cases(3000)
    kinds = {case.setting["rule"] for case in found}
    assert len(kinds) >= 14
    assert sum(bool(case.chosen.ties) for case in found) > 100
    assert sum(bool(case.chosen.near_ties) for case in found) > 5
    for case, page in zip(found, in_the_page(found, tmp_path), strict=True):
        chosen = case.chosen
        assert page["index"] == chosen.index, case.setting
        assert page["eligible"] == chosen.ranking.eligible.tolist()
        inside = chosen.ranking.eligible
        assert same(page["score"], np.where(inside, chosen.ranking.score, np.nan), inside)
        assert same(page["accuracy"], chosen.view.standing.accuracy)
        assert same(page["gap_pp"], chosen.view.standing.gap_pp)
        assert page["order"] == np.argsort(chosen.rank).tolist()
        steps = case.run.steps
        assert steps[page["ties"]].tolist() == list(chosen.ties)
        assert steps[page["near"]].tolist() == list(chosen.near_ties)
        assert page["words"] == chosen.explain()
        try:
            expected = chosen.guarantee()
        except NoGuaranteeError as error:
            assert page["bound"] == {"none": str(error)}
        else:
            assert page["bound"]["bound_pp"] == pytest.approx(expected.bound_pp, rel=1e-12)


def same(found: list[float | None], expected: Any, among: Any = None) -> bool:
    """Equal to the last bit; null stands for nan."""
    mine = np.array([np.nan if x is None else x for x in found])
    keep = slice(None) if among is None else among
    return np.array_equal(mine[keep], np.asarray(expected)[keep], equal_nan=True)


def test_sums_and_formats_are_pythons(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    sums = [
        (random.normal(size=k) * 10.0 ** random.integers(-12, 12, k)).tolist()
        for k in random.integers(1, 12, 2000)
    ]
    sums += [[1e16, 1.0, -1e16], [0.1] * 10, [2.0**53, 1.0, 1e-9], [1.0, 2.0**-53, 2.0**-106]]
    numbers = [x for row in sums[:400] for x in row]
    numbers += [0.125, 0.375, 2.5, -0.5, 0.0, 99.995, 0.40625, 1e-5, 123456.0, 9999.5, 0.00012345]
    body = """return {
      sums: given.sums.map(fsum),
      fixed: given.numbers.map((x) => fixed(x, 2)),
      general: given.numbers.map((x) => general(x, 4)),
      ratios: given.ratios.map(([a, b]) => ratio(BigInt(a), BigInt(b))),
    };"""
    ratios = [
        (str(int(a)), str(int(b) + 1)) for a, b in random.integers(0, 2**62, (500, 2)).tolist()
    ]
    given = {"sums": sums, "numbers": numbers, "ratios": ratios}
    page = run_script(("exact.js",), body, given, tmp_path)
    assert page["sums"] == [fsum(row) for row in sums]
    assert page["fixed"] == [f"{x:.2f}" for x in numbers]
    assert page["general"] == [f"{x:.4g}" for x in numbers]
    assert page["ratios"] == [int(a) / int(b) for a, b in ratios]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0.5", ["1", "2"]), (".25", ["1", "4"]), ("5e-1", ["1", "2"]), ("2", ["2", "1"])],
)
def test_a_tolerance_is_the_decimal_that_was_written(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    body = """const d = decimal(given); const g = gcd(d.num, d.den);
      return [String(d.num / g), String(d.den / g)];"""
    assert run_script(("exact.js",), body, text, tmp_path) == expected


@pytest.mark.parametrize("text", ["", ".", "-1", "0,5", "half", "1e", "Infinity", "0x10", "1_0"])
def test_what_is_no_tolerance_is_refused(tmp_path: Path, text: str) -> None:
    assert run_script(("exact.js",), "return decimal(given);", text, tmp_path) is None
