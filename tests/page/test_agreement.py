"""The page's scripts choose what the library chooses, to the last bit."""

from __future__ import annotations

import json
from dataclasses import replace
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkwise.errors import NoGuaranteeError
from checkwise.page import payload
from checkwise.page.packed_numbers import key_facts, metric_facts
from checkwise.page.starting_data import KINDS, page_rules
from checkwise.records import RunKey, Trajectory
from checkwise.selection import Selection, select, select_many
from checkwise.study import Contrast, Differences, clusters, contrasts, sentences, verdict
from checkwise.study.figures.trajectory import trajectory_facts
from checkwise.study.inference import cluster_means
from checkwise.study.report.build import quantiles
from checkwise.study.units import UnitInterval
from checkwise.words import number
from tests.page.random_runs import Case, arguments, cases
from tests.page.scripts import needs_node, run_script

pytestmark = needs_node

CHOOSE = """
  const rules = Object.fromEntries(given.data.rules.map((rule) => [rule.name, rule]));
  return (await unpack(given.data)).map((run, i) => {
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
METRICS = ("nll", "brier", "ece", "cwece", "hard_ece", "hard_cwece", "worst_class_accuracy")
FILES = ("exact.js", "runs.js", "rules.js", "explain.js")
COMPARING = ("units.js", "compare.js")


def explored(runs: dict[str, Trajectory]) -> dict[str, Any]:
    """Runs and rules as the page holds them, every metric of every domain."""
    return {**payload(runs, budget=10**9), "rules": page_rules((*METRICS, "accuracy"))}


def in_the_page(found: list[Case], folder: Path) -> list[dict[str, Any]]:
    given = {
        "data": explored({str(i): case.run for i, case in enumerate(found)}),
        "settings": [case.setting for case in found],
    }
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
        assert same(page["accuracy"], chosen.columns["accuracy"])
        assert same(page["gap_pp"], chosen.columns["gap_pp"])
        assert page["order"] == np.argsort(chosen.rank).tolist()
        steps = case.run.steps
        assert steps[page["ties"]].tolist() == list(chosen.ties)
        assert steps[page["near"]].tolist() == list(chosen.near_ties)
        assert page["words"] == chosen.explain()
        assert page["bound"].get("none", "") == no_bound(chosen)
        if not no_bound(chosen):
            bound_pp = chosen.guarantee().bound_pp
            assert page["bound"]["bound_pp"] == pytest.approx(bound_pp, rel=1e-12)


def test_the_page_and_the_figure_draw_the_same_numbers(tmp_path: Path) -> None:
    """``study report --figures`` draws ac-nc; the page draws the same facts of a run."""
    drawn = [case for case in cases(400, seed=2) if {"nll", "cwece"} <= set(case.run.values)][:100]
    assert len(drawn) == 100
    body = """
      const rules = Object.fromEntries(given.rules.map((rule) => [rule.name, rule]));
      const metrics = Object.fromEntries(given.metrics.map((metric) => [metric.name, metric]));
      const list = (values) => Array.from(values, (x) => (Number.isNaN(x) ? null : x));
      const asked = { delta: decimal('0.5'), q: Infinity, weights: 'equal', worst: false };
      return (await unpack(given)).map((run) => {
        const [chosen, usual] = ['ac-nc', 'source-acc'].map((name) =>
          select(run, { ...asked, rule: rules[name] }));
        const { accuracy, eligible, tolerance, panels, marks } =
          figureFacts(metrics, chosen, usual);
        return {
          accuracy: list(accuracy), eligible, tolerance,
          panels: panels.map(({ name, values }) => [name, list(values)]),
          marks: marks.map(({ rule, index }) => [rule, run.steps[index]]),
        };
      });"""
    data = explored({str(i): case.run for i, case in enumerate(drawn)})
    files = (*FILES, *COMPARING, "plot.js", "run_view.js")
    for case, page in zip(drawn, run_script(files, body, data, tmp_path), strict=True):
        usual = select(case.run, "source-acc", guard=False)
        facts = trajectory_facts(case.run, select(case.run, "ac-nc", guard=False), [usual], "run")
        assert same(page["accuracy"], facts.accuracy)
        assert page["eligible"] == list(facts.feasible)
        assert page["tolerance"] == facts.delta_pp
        assert page["marks"] == [[mark.rule, mark.step] for mark in facts.marks]
        assert [name for name, _ in page["panels"]] == list(facts.metrics)
        for name, values in page["panels"]:
            assert same(values, facts.metrics[name])


def no_bound(chosen: Selection) -> str:
    """Why there is no bound; empty if there is one."""
    try:
        chosen.guarantee()
    except NoGuaranteeError as error:
        return str(error)
    return ""


def test_the_choice_by_tolerance_is_that_of_every_tolerance(tmp_path: Path) -> None:
    takes = [c for c in cases(1500, seed=5) if "delta_pp" in c.chosen.params]
    body = """
      const rules = Object.fromEntries(given.data.rules.map((rule) => [rule.name, rule]));
      return (await unpack(given.data)).map((run, i) => {
        const s = given.settings[i];
        const q = Number(s.q.replace('inf', 'Infinity'));
        return sweep(run, { ...s, q, rule: rules[s.rule] }, 3);
      });"""
    given = {
        "data": explored({str(i): case.run for i, case in enumerate(takes)}),
        "settings": [case.setting for case in takes],
    }
    for case, pieces in zip(takes, run_script(FILES, body, given, tmp_path), strict=True):
        assert [p["to"] for p in pieces[:-1]] == [p["from"] for p in pieces[1:]]
        for piece in pieces:
            rule, params, options = arguments(case.setting)
            middle = (piece["from"] + piece["to"]) / 2
            if piece["to"] - piece["from"] > 1e-6:  # nearer ones are one and the same in places
                asked = {**params, "delta_pp": repr(middle)}
                chosen = select(case.run, rule, guard=False, **asked, **options)
                assert chosen.index == piece["index"]


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


def test_numbers_are_shown_as_python_shows_them(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    numbers = (random.normal(size=600) * 10.0 ** random.integers(-6, 5, 600)).tolist()
    numbers += [0.0, -0.0, -0.0001, 0.125, -0.375, 2.5, 0.005, -0.25, 99.995]
    body = """return given.flatMap((value) => [0, 2, 3, 4].flatMap((decimals) =>
      [false, true].map((signed) => shown(value, { decimals }, signed))))
      .concat([NaN, Infinity, -Infinity].map((value) => shown(value, POINTS)));"""
    page = run_script(("exact.js",), body, numbers, tmp_path)
    expected = [
        number(value, decimals, signed=signed)
        for value in numbers
        for decimals in (0, 2, 3, 4)
        for signed in (False, True)
    ]
    assert page == [*expected, *(number(x, 2) for x in (np.nan, np.inf, -np.inf))]
    assert [number(-0.0001, 2, signed=True), number(-0.25, 2)] == ["0.00", "−0.25"]


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


def many_runs(number: int = 540, checkpoints: int = 51, domains: int = 3) -> dict[str, Trajectory]:
    """As many runs as the largest study has, with every metric."""
    random = np.random.default_rng(0)
    counts = np.array([401, 467, 785])[:domains]
    found = {}
    for i in range(number):
        share = 0.9 + 0.01 * random.normal(size=(checkpoints, domains))
        correct = np.clip(np.rint(share * counts), 0, counts).astype(np.int64)
        values = {name: random.random((checkpoints, domains)) for name in METRICS}
        found[str(i)] = Trajectory(
            steps=np.arange(0, 100 * checkpoints, 100),
            domains=[f"domain {e}" for e in range(domains)],
            values={**values, "accuracy": correct / counts},
            counts=counts,
            correct=correct,
            key=RunKey("PACS", "ERM", ("sketch",), i // 9, i % 9),
        )
    return found


def test_540_runs_fit_and_are_chosen_from_alike(tmp_path: Path) -> None:
    """How soon the page answers is measured by ``benchmarks/report_page.py``."""
    runs = many_runs()
    held = [{name: run.values[name][:, 0] for name in METRICS} for run in runs.values()]
    data = {**payload(runs, held), "rules": page_rules(METRICS), "quantiles": quantiles(len(runs))}
    assert len(json.dumps(data)) < 5.3e6  # the rest of such a page takes less than 0.6 MB
    body = """
      const runs = await unpack(given);
      const rule = given.rules.find((one) => one.name === 'ac-nc');
      return ['0.1', '2'].map((delta) => {
        const asked = { rule, delta: decimal(delta), q: Infinity };
        return selectAll(runs, { ...asked, weights: 'equal', worst: false }).map((s) => s.index);
      });
    """
    found = run_script((*FILES, *COMPARING), body, data, tmp_path)
    for delta, indices in zip(("0.1", "2"), found, strict=True):
        chosen = select_many(runs, "ac-nc", delta_pp=delta)
        assert indices == [selection.index for selection in chosen.values()]


def test_medians_are_numpys(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    columns = [np.sort(random.normal(size=n)).tolist() for n in (1, 2, 3, 30, 31)]
    body = "return given.map((values) => [50, 75].map((p) => percentile(values, p)));"
    for values, found in zip(
        columns, run_script(("exact.js",), body, columns, tmp_path), strict=True
    ):
        assert found == pytest.approx(np.percentile(values, [50, 75]).tolist(), rel=1e-12)


def designs(number: int = 120) -> list[tuple[list[RunKey], list[float]]]:
    """Runs of many designs, with differences that share more or less along every line."""
    random = np.random.default_rng(8)
    made = []
    for _ in range(number):
        seeds, trials, domains = (int(n) for n in random.integers(1, (6, 6, 9)))  # up to 8
        keys = [
            RunKey("PACS", algorithm, (f"domain {d}",), h, t)
            for algorithm in ("ERM", "IRM")
            for d in range(domains)
            for h in range(seeds)
            for t in range(trials)
        ]
        values = random.normal(random.choice([0.0, -0.3, 0.8]), 0.3, len(keys))
        for unit in ("hparams_seed", "trial_seed", "held_out"):
            shared = {label: random.normal() for label in sorted({getattr(k, unit) for k in keys})}
            share = random.choice([0.0, 0.05, 0.5])
            values += share * np.array([shared[getattr(key, unit)] for key in keys])
        made.append((sorted(keys), values.tolist()))
    constant = (made[-1][0], [0.25] * len(made[-1][0]))
    return [*made, constant, seeds_of_their_own(), *(seeds_of_their_own(n) for n in (6, 7, 8))]


def seeds_of_their_own(domains: int = 5) -> tuple[list[RunKey], list[float]]:
    """Found by runs and by domains; blocks × domains would be their spread with few degrees."""
    keys = [RunKey("PACS", "ERM", (f"domain {i % domains}",), 1, i) for i in range(4 * domains)]
    values = {
        key: 0.35 + 0.63 * (-1) ** (i // domains) + 0.01 * (i % domains)
        for i, key in enumerate(keys)
    }
    return sorted(keys), [values[key] for key in sorted(keys)]


def test_runs_with_seeds_of_their_own_are_judged_by_runs_and_domains() -> None:
    row = compared(*seeds_of_their_own())
    assert row.units["block_domain"].includes_zero
    assert (verdict(row).direction, verdict(row).against) == ("worse", ())
    assert "blocks × domains" not in sentences.by_unit([row])[0]


def test_intervals_by_unit_and_what_they_allow_are_the_librarys(tmp_path: Path) -> None:
    body = """return given.designs.map(({ keys, values }) => {
      const zeros = values.map(() => 0);
      const one = contrast(values, zeros, given.metric, keys, given.quantiles);
      return {
        crossed: one.crossed,
        units: one.units, shown: shownInterval(one), verdict: verdictOf(one),
        over: one.over, mean: one.mean, low: one.low, high: one.high,
        said: effect(one) + cautionOf(one),
      };
    });"""
    made = designs()
    given = {
        "designs": [
            {"keys": [key_facts(key) for key in keys], "values": values} for keys, values in made
        ],
        "metric": metric_facts("nll"),
        "quantiles": quantiles(max(len(keys) for keys, _ in made)),
    }
    kinds, without, by_domain = set(), 0, 0
    sentences_compared = dict.fromkeys(OVER.values(), 0)
    for (keys, values), page in zip(
        made, run_script((*FILES, *COMPARING), body, given, tmp_path), strict=True
    ):
        row = as_on_the_page(compared(keys, values))
        for unit, expected in {"run": over_runs(keys, values), **row.units}.items():
            found = page["units"][unit]
            assert found["groups"] == expected.groups
            ends = [np.nan if found[end] is None else found[end] for end in ("low", "high")]
            assert ends == pytest.approx(
                [expected.low, expected.high], rel=1e-9, abs=1e-12, nan_ok=True
            )
        assert OVER[page["over"]] == row.over
        assert page["crossed"] == row.crossed
        ends = [np.nan if page[end] is None else page[end] for end in ("mean", "low", "high")]
        assert ends == pytest.approx([row.mean, row.low, row.high], rel=1e-9, nan_ok=True)
        run = page["units"]["run"]["low"], page["units"]["run"]["high"]
        by_runs = verdict(replace(row, over_runs=run))
        shown = row.units["block"]
        clear = shown.decides and not shown.includes_zero
        assert page["verdict"]["direction"] == (by_runs.direction if clear else "unclear")
        if shown.groups < 2 and row.over == "blocks":
            without += 1
            assert page["shown"] == "no interval from one block"
        elif not shown.decides:
            assert page["said"].endswith("too few to tell")
        elif row.low <= 0 <= row.high:
            assert page["said"].endswith(", an interval that includes zero")
        elif clear and "run" not in by_runs.against:
            assert page["verdict"]["reach"] == by_runs.reach
            sentences_compared[row.over] += 1
            said = replace(row, over_runs=run)
            assert page["said"] == sentences.effect(said) + sentences.caution(said)
        by_domain += by_runs.against == ("domain", "block_domain")
        kinds.add((by_runs.direction, by_runs.reach, bool(by_runs.against)))
    assert len(kinds) >= 8
    assert min(sentences_compared.values()) > 0, sentences_compared
    assert without > 2
    assert by_domain  # domains alone can make a difference unclear


OVER = {
    "place": "places",
    "domain": "domains",
    "block": "blocks",
    "block_domain": "blocks × domains",
}


def as_on_the_page(row: Contrast) -> Contrast:
    """As the library has it; over blocks where that has nothing but single runs."""
    if row.over != "runs":
        return row
    block = row.units["block"]
    return replace(row, low=block.low, high=block.high, over="blocks", over_runs=None)


def compared(keys: list[RunKey], values: list[float]) -> Contrast:
    """The library's contrast of these differences, with the intervals by every unit."""
    mine = np.array(values)[:, None]
    table = Differences("a", "b", tuple(keys), ("target_nll",), mine, np.zeros_like(mine))
    (row,) = contrasts(table)
    return row


def over_runs(keys: list[RunKey], values: list[float]) -> UnitInterval:
    """The cluster-t interval with every run as its own cluster: Student's interval of a mean."""
    means = cluster_means(np.array(values)[:, None], clusters(keys, "run"))
    low, high = means.interval()
    return UnitInterval(means.clusters, float(low[0]), float(high[0]), np.nan)


def test_the_page_has_rules_of_every_kind() -> None:
    assert {rule["kind"] for rule in page_rules(METRICS)} == set(KINDS.values())
