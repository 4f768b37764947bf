"""Tables of methods that make a new model or validate elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import scipy.stats

from checkwise.records import RunKey
from checkwise.study import Cohort, Group, Outcome, Pool, columns_over, pair
from checkwise.study.baselines import Derived, write
from checkwise.study.pool import BOTH_ROLES
from checkwise.study.tables import TABLES, build
from checkwise.study.tables.other_methods import seed_blocks
from checkwise.study.tables.typeset import wide
from tests.figures.saved_logits import save_logits
from tests.refusals import refused
from tests.study.cohorts import METRICS, key, tiny_runs, write_cohort
from tests.tables.two_way import two_way_error


def entry(accuracy: float, nll: float) -> dict[str, float]:
    return (
        {"n": 100, "correct": round(100 * accuracy)}
        | dict.fromkeys(METRICS, 0.25)
        | {"accuracy": accuracy, "nll": nll}
    )


def test_averaged_models_stand_beside_choices(tmp_path: Path) -> None:
    path = write_cohort(tmp_path / "tiny", tiny_runs())
    for run, nll in ((key("ERM", 0), 1.0), (key("ERM", 1), 1000.0)):
        write(
            path,
            Derived("swad", run, {}, {"steps": [100, 200]}, 1.0),
            source={"diverged": False, "domains": {"art": entry(0.9, 0.5)}},
            heldout={"sketch": {"diverged": False, "split": "in", **entry(0.7, nll)}},
        )
    table = build("swad", Cohort.open(path))
    mean = table.cell("PACS", "swad", measure="target_nll")
    assert mean.value == pytest.approx(500.5)
    assert mean.n == 2  # every rule on the same runs
    assert table.value("PACS", "source-acc", measure="target_nll") == pytest.approx(1.75)
    assert table.value("PACS", "swad", measure="nll_above_100") == 1
    assert table.value("PACS", "swad", measure="target_nll_median") == pytest.approx(500.5)


def test_what_is_lacking_is_said(tmp_path: Path) -> None:
    pool = Pool([Cohort.open(write_cohort(tmp_path / "tiny", tiny_runs()))])
    with refused("missing: --method … swad"):
        build("swad", pool)
    with refused("unsupported"):
        build("pair", pool)


def test_scaling_averages_cells_and_counts_those_it_improves(tmp_path: Path) -> None:
    path = write_cohort(tmp_path / "tiny", tiny_runs())
    save_logits(path, (100, 200, 300))
    pool = Pool([Cohort.open(path)])
    table = build("temperature", pool)
    raw = pool.columns("ac-nc")["target_nll"]
    erm, irm = raw[:2].mean(), raw[2]
    assert table.value("ac-nc", measure="target_nll") == pytest.approx((erm + irm) / 2)
    improved = table.cell("ac-nc+ts", measure="improved_nll")
    assert improved.n == 2
    assert 0 <= improved.value <= 2
    assert build("temperature-changes", pool).cells


def test_seed_blocks_weigh_cells_alike() -> None:
    def outcome(algorithm: str, domain: str, trial: int, accuracy: float) -> Outcome:
        run = RunKey("A", algorithm, (domain,), 0, trial)
        return Outcome(run, (0,), {}, 0.0, 1, 0.0, {domain: {"accuracy": accuracy}})

    made = [
        outcome("ERM", "x", 0, 0.6),
        outcome("ERM", "y", 0, 0.8),
        outcome("IRM", "x", 0, 0.1),
        outcome("ERM", "x", 1, 0.9),  # IRM lacks this block
    ]
    mine = {each.key: each for each in made}
    half = {"accuracy": 0.5}
    theirs = {k: replace(o, targets=dict.fromkeys(o.targets, half)) for k, o in mine.items()}
    sides = (columns_over(outcomes, sorted(mine)) for outcomes in (mine, theirs))
    found = seed_blocks(pair("a", "b", sorted(mine), ["target_accuracy"], *sides))
    np.testing.assert_allclose(found, [[(0.2 + -0.4) / 2]])


class InnerResults:
    """What the table of contrasts asks a pool for: differences to lodo-acc, run by run."""

    def __init__(self, changes: dict[RunKey, float], evaluated: str = ""):
        self._changes = changes
        self._evaluated = evaluated
        self.keys = tuple(sorted(changes))

    def outcomes(self, rule: str, scope: str) -> dict[RunKey, Outcome]:
        sign = {"ac-nc": 1.0, "ac-lodo": -1.0}.get(rule, 0.0)
        metrics = ("accuracy", "nll", "hard_ece", "hard_cwece")
        return {
            key: Outcome(
                *(key, (0,), {}, 0.0, 1, 0.0),
                {key.held_out[0]: dict.fromkeys(metrics, 0.5 + sign * change)},
            )
            for key, change in self._changes.items()
            if scope == "run" or key.hparams_seed == 0
        }

    def by_role(self) -> list[Group]:
        mine = np.array([key.dataset == self._evaluated for key in self.keys])
        if not mine.any():
            return [Group((), "development", ~mine)]
        both = Group((), BOTH_ROLES, np.ones(len(self.keys), dtype=bool))
        return [Group((), "evaluation", mine), Group((), "development", ~mine), both]


def inner_changes(*datasets: str) -> dict[RunKey, float]:
    """A difference for every run of two algorithms, four domains and 3 × 3 seeds."""
    random = np.random.default_rng(3)
    return {
        RunKey(data, algorithm, (domain,), h, t): float(random.normal(0.05, 0.1))
        for data in datasets
        for algorithm in ("ERM", "VREx")
        for domain in "abcd"
        for h in range(3)
        for t in range(3)
    }


def test_lodo_contrasts_are_by_block_and_domain_at_once_and_beside_that_by_each() -> None:
    changes = inner_changes("A")
    table = TABLES["lodo-changes"](cast(Pool, InnerResults(changes)))
    row = ("fixed", "ac-nc − lodo-acc")
    leading = table.cell(*row, measure="target_nll")
    assert (leading.n, leading.counted_by) == (72, "9 blocks × 4 domains")
    values = np.array([changes[key] for key in sorted(changes)])
    error = two_way_error(
        values,
        [(key.hparams_seed, key.trial_seed) for key in sorted(changes)],
        [key.held_out for key in sorted(changes)],
    )
    half = scipy.stats.t(3).ppf(0.975) * error
    assert (leading.low, leading.high) == pytest.approx(
        (values.mean() - half, values.mean() + half)
    )
    blocks = [
        np.mean([c for k, c in changes.items() if (k.hparams_seed, k.trial_seed) == (h, t)])
        for h in range(3)
        for t in range(3)
    ]
    by_block = table.cell(*row, measure="target_nll_by_block")
    expected = scipy.stats.ttest_1samp(blocks, 0).confidence_interval(0.95)
    assert (by_block.low, by_block.high) == pytest.approx(tuple(expected))
    assert (by_block.n, by_block.counted_by, by_block.seed) == (72, "9 blocks", None)
    by_domain = table.cell(*row, measure="target_accuracy_by_domain")
    domains = [100 * np.mean([c for k, c in changes.items() if k.held_out == (d,)]) for d in "abcd"]
    expected = scipy.stats.ttest_1samp(domains, 0).confidence_interval(0.95)
    assert (by_domain.low, by_domain.high) == pytest.approx(tuple(expected))
    assert (by_domain.n, by_domain.counted_by) == (4, "4 domains")
    new = table.cell(*row, measure="target_accuracy_new_place")
    half = scipy.stats.t(3).ppf(0.975) * np.std(domains, ddof=1) * np.sqrt(1 + 1 / 4)
    assert (new.low, new.high) == pytest.approx((np.mean(domains) - half, np.mean(domains) + half))
    assert (new.n, new.counted_by) == (4, "a new place, from 4 domains")


def test_a_block_of_selected_hyperparameters_is_a_trial() -> None:
    changes = inner_changes("A")
    table = TABLES["lodo-changes"](cast(Pool, InnerResults(changes)))
    row = ("selected", "ac-nc − lodo-acc")
    chosen = {key: change for key, change in changes.items() if key.hparams_seed == 0}
    trials = [np.mean([c for k, c in chosen.items() if k.trial_seed == t]) for t in range(3)]
    expected = scipy.stats.ttest_1samp(trials, 0).confidence_interval(0.95)
    by_block = table.cell(*row, measure="target_nll_by_block")
    assert (by_block.low, by_block.high) == pytest.approx(tuple(expected))
    assert (by_block.n, by_block.counted_by) == (24, "3 blocks")
    assert table.cell(*row, measure="target_nll").counted_by == "3 blocks × 4 domains"


def test_lodo_contrasts_have_rows_for_either_role_and_for_both() -> None:
    changes = inner_changes("A", "B")
    table = TABLES["lodo-changes"](cast(Pool, InnerResults(changes, evaluated="B")))
    row = ("fixed", "ac-lodo − lodo-acc")
    for measure in ("target_hard_ece", "target_hard_cwece"):
        for role, data, over in (
            ("evaluation", "B", "9 blocks × 4 domains"),
            ("development", "A", "9 blocks × 4 domains"),
            (BOTH_ROLES, "AB", "9 blocks × 8 places"),
        ):
            cell = table.cell(*row, measure=measure, role=role)
            mean = np.mean([change for key, change in changes.items() if key.dataset in data])
            assert cell.value == pytest.approx(-100 * mean)
            assert (cell.n, cell.counted_by) == (72 * len(data), over)
    printed = wide(table)
    assert {shown[-2] for shown in printed.rows} == {"72", "144", "24", "48"}
