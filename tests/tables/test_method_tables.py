"""Tables of methods that make a new model or validate elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import scipy.stats

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.study import Cohort
from checkwise.study.outcome import Outcome
from checkwise.study.pool import Group, Pool
from checkwise.tables import build
from checkwise.tables.other_methods import lodo_changes, seed_blocks
from checkwise.weights.derived import Derived, write
from tests.figures.saved_logits import save_logits
from tests.study.cohorts import METRICS, key, tiny_runs, write_cohort


def entry(accuracy: float, nll: float) -> dict[str, float]:
    return (
        {"n": 100, "correct": round(100 * accuracy)}
        | dict.fromkeys(METRICS, 0.25)
        | {
            "accuracy": accuracy,
            "nll": nll,
        }
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
    with pytest.raises(InputError, match=r"checkwise derive .* --method swad"):
        build("swad", pool)
    with pytest.raises(InputError, match="runs of VREx"):
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
    found = seed_blocks(mine, theirs, ["target_accuracy"], by_trial=False)
    np.testing.assert_allclose(found, [[(0.2 + -0.4) / 2]])


class InnerResults:
    """What the table of contrasts asks a pool for: differences to lodo-acc, run by run."""

    def __init__(self, changes: dict[RunKey, float]):
        self._changes = changes

    def outcomes(self, rule: str, scope: str) -> dict[RunKey, Outcome]:
        sign = {"ac-nc": 1.0, "ac-lodo": -1.0}.get(rule, 0.0)
        metrics = ("accuracy", "nll", "hard_ece", "hard_cwece")
        return {
            key: Outcome(
                *(key, (0,), {}, 0.0, 1, 0.0),
                {key.held_out[0]: dict.fromkeys(metrics, 0.5 + sign * change)},
            )
            for key, change in self._changes.items()
        }

    def everything(self) -> Group:
        return Group((), "development", np.ones(len(self._changes), dtype=bool))


def test_lodo_contrasts_have_t_intervals_over_blocks_and_over_domains() -> None:
    random = np.random.default_rng(3)
    changes = {
        RunKey("A", "ERM", (domain,), h, t): float(random.normal(0.05, 0.1))
        for domain in "abcd"
        for h in range(3)
        for t in range(3)
    }
    table = lodo_changes(cast(Pool, InnerResults(changes)))
    cell = table.cell("fixed", "ac-nc − lodo-acc", measure="target_nll")
    blocks = [
        np.mean([c for k, c in changes.items() if (k.hparams_seed, k.trial_seed) == (h, t)])
        for h in range(3)
        for t in range(3)
    ]
    expected = scipy.stats.ttest_1samp(blocks, 0).confidence_interval(0.95)
    assert (cell.low, cell.high) == pytest.approx(tuple(expected))
    assert (cell.n, cell.counted_by, cell.seed) == (9, "blocks", None)
    trials = table.cell("selected", "ac-nc − lodo-acc", measure="target_nll")
    assert (trials.n, trials.counted_by) == (3, "trials")
    by_domain = table.cell("fixed", "ac-nc − lodo-acc", measure="target_accuracy_by_domain")
    domains = [100 * np.mean([c for k, c in changes.items() if k.held_out == (d,)]) for d in "abcd"]
    expected = scipy.stats.ttest_1samp(domains, 0).confidence_interval(0.95)
    assert (by_domain.low, by_domain.high) == pytest.approx(tuple(expected))
    assert (by_domain.n, by_domain.counted_by) == (4, "4 domains")
    new = table.cell("fixed", "ac-nc − lodo-acc", measure="target_accuracy_new_place")
    half = scipy.stats.t(3).ppf(0.975) * np.std(domains, ddof=1) * np.sqrt(1 + 1 / 4)
    assert (new.low, new.high) == pytest.approx((np.mean(domains) - half, np.mean(domains) + half))
    assert (new.n, new.counted_by) == (4, "a new place, from 4")
