"""Tables of a tiny cohort, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from checkwise.records import RunKey
from checkwise.selection import Columns, select_many
from checkwise.study import MAIN_METRICS, Cohort, Pool, place_interval
from checkwise.study.figures import by_algorithm
from checkwise.study.pool import BOTH_ROLES
from checkwise.study.tables import TABLES, build, build_all
from checkwise.study.tables.cells import worst_domains
from checkwise.study.tables.every_table import SLOW
from checkwise.study.tables.rank_agreement import inside_feasible
from checkwise.study.tables.typeset import caption
from checkwise.study.units import unit_intervals
from tests.refusals import refused
from tests.study.cohorts import WrittenRun, demo_like, tiny_runs, write_cohort

STEPS = (0, 100, 200, 300)


def run(
    key: RunKey,
    correct: tuple[int, ...],
    nll: tuple[float, ...],
    cwece: tuple[float, ...],
    target: tuple[int, ...],
    target_nll: tuple[float, ...],
) -> WrittenRun:
    return WrittenRun(
        key,
        STEPS,
        correct,
        {"nll": nll, "cwece": cwece, "ece": cwece},
        target,
        {"nll": target_nll, "cwece": (0.01, 0.04, 0.03, 0.02), "ece": (0.01, 0.04, 0.03, 0.02)},
        domains=("cartoon", "photo"),
    )


def two_domains() -> list[WrittenRun]:
    """One data set, one algorithm, two held-out domains, one seed: a single WHD block.

    art: Θ = {100, 200} with opposed NLL and CwECE. sketch: Θ = {100, 200, 300}; ac-nc takes 300.
    """
    return [
        run(
            RunKey("Tiny", "ERM", ("art",), 0, 0),
            (20, 180, 179, 100),
            (2.0, 0.6, 0.5, 0.4),
            (0.0, 0.010, 0.030, 0.005),
            (10, 60, 66, 50),
            (2.3, 1.0, 0.8, 0.9),
        ),
        run(
            RunKey("Tiny", "ERM", ("sketch",), 0, 0),
            (20, 180, 179, 179),
            (2.0, 0.6, 0.5, 0.4),
            (0.0, 0.030, 0.020, 0.010),
            (10, 50, 52, 49),
            (2.3, 2.0, 1.5, 1.2),
        ),
    ]


@pytest.fixture
def pair(tmp_path: Path) -> Pool:
    return Pool([Cohort.open(write_cohort(tmp_path / "pair", two_domains(), role="evaluation"))])


def test_means_per_data_set(pair: Pool) -> None:
    chosen = {key.held_out[0]: o.steps for key, o in pair.outcomes("ac-nc").items()}
    assert chosen["sketch"] == (300,)
    assert chosen["art"] == (200,)  # D∞(200) = 0.02/(0.02 + η) < D∞(100) = 0.1/(0.1 + η)
    table = build("main", pair)
    value = {c.measure: c.value for c in table.cells if c.row == ("Tiny", "ac-nc")}
    assert value["target_accuracy"] == pytest.approx((66 + 49) / 2)
    assert value["target_nll"] == pytest.approx((0.8 + 1.2) / 2)
    assert value["target_cwece"] == pytest.approx(2.5)
    assert value["gap_pp"] == pytest.approx(0.5)
    assert table.value("Tiny", "source-acc", measure="target_accuracy") == pytest.approx(55)
    assert {c.role for c in table.cells} == {"evaluation"}


def test_paired_changes_with_both_units_of_whd(pair: Pool) -> None:
    table = build("by-algorithm", pair)
    accuracy = table.cell("Tiny", "ERM", measure="target_accuracy")  # +6 and −1
    assert accuracy.value == pytest.approx(2.5)
    assert np.isnan([accuracy.low, accuracy.high]).all()  # one block, two domains: too few
    assert (accuracy.n, accuracy.scale, accuracy.seed) == (2, 100, None)
    over_runs = build("main-changes", pair).cell(measure="target_accuracy_over_runs")
    assert [over_runs.low, over_runs.high] == pytest.approx([-1, 6])
    assert (over_runs.seed, over_runs.counted_by) == (20260908, "runs")
    nll = table.cell("Tiny", "ERM", measure="target_nll")  # −0.2 and −0.8
    assert nll.value == pytest.approx(-0.5)
    assert table.value("Tiny", "ERM", measure="target_nll_median") == pytest.approx(-0.5)
    whd = table.cell("Tiny", "ERM", measure="whd")  # min(66, 49) − min(60, 50)
    assert whd.value == pytest.approx(-1)
    assert (whd.n, whd.unit) == (1, "blocks")
    assert table.cell("Tiny", "ERM", measure="whd_cells").unit == "cells"


def test_the_mean_of_the_feasible_set_has_the_whd_of_its_expected_accuracy(pair: Pool) -> None:
    found = worst_domains(pair.outcomes("ac-mean"))
    assert list(found.values()) == pytest.approx([(0.50 + 0.52 + 0.49) / 3])


def test_an_incomplete_block_has_no_worst_domain(tmp_path: Path) -> None:
    runs = two_domains()
    lone = replace(runs[0], key=RunKey("Tiny", "ERM", ("art",), 0, 1))
    pool = Pool([Cohort.open(write_cohort(tmp_path / "c", [*runs, lone]))])
    assert list(worst_domains(pool.outcomes("ac-nc"))) == [("Tiny", "ERM", 0, 0)]
    three = [*runs, replace(runs[0], key=RunKey("Tiny", "ERM", ("clipart",), 0, 0))]
    lacks = [replace(run, key=replace(run.key, trial_seed=1)) for run in runs]
    pool = Pool([Cohort.open(write_cohort(tmp_path / "d", [*three, *lacks]))])
    assert list(worst_domains(pool.outcomes("ac-nc"))) == [("Tiny", "ERM", 0, 0)]


def own_seeds() -> list[WrittenRun]:
    """Two held-out domains, and every run with seeds of its own."""
    first, second = two_domains()
    return [first, replace(second, key=RunKey("Tiny", "ERM", ("sketch",), 1, 1))]


@pytest.mark.parametrize("runs", [own_seeds(), two_domains()[:1]], ids=["seeds", "one domain"])
@pytest.mark.parametrize("name", ["main-changes", "by-algorithm", "component-source"])
def test_nothing_is_shown_as_whd_where_no_block_has_several_domains(
    tmp_path: Path, runs: list[WrittenRun], name: str
) -> None:
    table = build(name, Cohort.open(write_cohort(tmp_path / "c", runs)))
    assert table.value(*table.cells[0].row, measure="gap_pp") >= 0
    assert not [cell for cell in table.cells if cell.measure.startswith("whd")]
    assert "WHD" not in caption(table)


def test_losses_count_runs(pair: Pool) -> None:
    table = build("losses", pair)
    value = {c.measure: c.value for c in table.cells if c.row == ("all", "ac-nc − source-acc")}
    assert (value["gain"], value["equal"], value["lose"], value["lose_1pp"]) == (1, 0, 1, 1)
    assert value["lose_1pp_share"] == pytest.approx(50)
    assert value["percentile_5"] == pytest.approx(-1 + 0.05 * 7)


def test_composition_counts_feasible_sets(pair: Pool) -> None:
    value = {c.measure: c.value for c in build("composition", pair).cells if c.row == ("Tiny",)}
    assert value["feasible_total"] == 5
    assert (value["singletons"], value["multi"]) == (0, 2)
    assert (value["pairs"], value["pairs_opposed"]) == (1, 1)
    assert (value["nondominated_one"], value["nondominated_many"]) == (1, 1)
    assert (value["differs"], value["differs_share"]) == (2, 100)


def test_disagreement_counts_runs(pair: Pool) -> None:
    table = build("disagreement", pair)
    # art: nll → 200, cwece → 100; sketch: both 300.
    assert table.value("Tiny", "ac-nll / ac-cwece", measure="disagree") == 1
    assert table.value("Tiny", "source-acc / ac-nc", measure="disagree") == 2


def test_pure_selection_reports_steps(pair: Pool) -> None:
    table = build("pure", pair)
    assert table.value("Tiny", "pure-cwece", measure="step_0_share") == 100
    assert table.value("Tiny", "pure-nll", measure="step") == 300
    assert table.value("Tiny", "source-acc", measure="step") == 100


def test_plateau_ranges_are_inside_the_feasible_set(pair: Pool) -> None:
    value = {c.measure: c.value for c in build("plateau", pair).cells}
    assert value["eligible"] == 2.5
    assert value["range_source_accuracy"] == pytest.approx(0.5)  # points
    assert value["range_source_nll"] == pytest.approx((0.1 + 0.2) / 2)
    assert value["range_source_cwece"] == pytest.approx(0.02)  # not scaled
    assert value["range_target_nll"] == pytest.approx((0.2 + 0.8) / 2)


def test_tolerance_widens_the_set(pair: Pool) -> None:
    table = build("tolerance", pair)
    assert [table.value(f"δ = {d}", measure="eligible") for d in ("0.1", "0.5", "1.0")] == [
        1,
        2.5,
        2.5,
    ]
    change = build("tolerance-changes", pair).cell(
        "δ = 0.1 − δ = 0.5", measure="target_accuracy_over_runs"
    )
    assert change.value == pytest.approx(-2.5)
    assert change.seed == 20260924


def test_rank_correlation_needs_three_feasible_checkpoints(pair: Pool) -> None:
    table = build("rank-correlation", pair)
    # sketch alone is valid: utility −(1, .5, 0) against target NLL 2.0, 1.5, 1.2 and CwECE falling.
    assert table.value("Tiny", "AC utility", measure="rho") == pytest.approx(1)
    assert table.value("Tiny", "AC utility", measure="valid") == 1
    assert table.value("Tiny", "AC utility", measure="checkpoints") == 5  # over all runs
    # Source accuracy (180, 179, 179) against target accuracy (50, 52, 49): ties get mean ranks.
    rho = table.value("Tiny", "source accuracy", measure="rho")
    assert rho == pytest.approx(0.0)


def test_rank_correlation_takes_near_ties_as_ties(tmp_path: Path) -> None:
    """The ends of opposed objectives differ by η alone, which must not order them."""
    key = RunKey("Tiny", "ERM", ("art",), 0, 0)
    opposed = run(
        key,
        (20, 180, 179, 179),
        (2.0, 0.6, 0.5, 0.4),
        (0.0, 0.010, 0.020, 0.030),
        (10, 60, 66, 50),
        (2.3, 1.0, 0.8, 0.9),
    )
    pool = Pool([Cohort.open(write_cohort(tmp_path / "opposed", [opposed]))])
    expected = scipy.stats.spearmanr([1.0, 0.5, 1.0], [1.0, 0.5, 0.5])[0]
    assert inside_feasible(pool)[key].utility_rho == pytest.approx(expected)


def test_regret_is_the_shortfall_to_the_best_in_hindsight(pair: Pool) -> None:
    table = build("regret", pair)
    row = ("Tiny", "any checkpoint", "ac-nc")
    assert table.value(*row, measure="regret_accuracy") == pytest.approx((0 + 3) / 2)
    assert table.value(*row, measure="regret_nll") == pytest.approx(0.0)
    assert table.value("Tiny", "in Θ", "source-acc", measure="regret_nll") == pytest.approx(0.5)
    assert "not deployable" in table.title


def test_ranking_is_judged_where_there_is_something_to_rank(tmp_path: Path) -> None:
    pool = Pool([Cohort.open(write_cohort(tmp_path / "tiny", tiny_runs()))])
    table = build("ranking-value", pool)
    every = table.cell("all", "ac-nc − ac-mean", measure="target_nll")
    ranked = table.cell("|Θ| > 1", "ac-nc − ac-mean", measure="target_nll")
    assert (every.n, ranked.n) == (3, 2)
    assert every.value == pytest.approx((-0.15 - 0.05 + 0) / 3)
    assert ranked.value == pytest.approx((-0.15 - 0.05) / 2)


def test_sensitivity_counts_choices_that_change(pair: Pool) -> None:
    table = build("sensitivity", pair)
    # Without η the opposed pair ties and the higher accuracy wins: step 100 instead of 200.
    assert table.value("η = 0", measure="choices_changed") == 1
    assert table.value("Pareto filter", measure="choices_changed") == 0


def test_inference_prints_the_number_of_clusters(tmp_path: Path) -> None:
    pool = Pool([Cohort.open(demo_like(tmp_path / "demo"))])
    table = build("inference", pool)
    rows = {(c.row[1], c.row[2]) for c in table.cells}
    assert rows == {
        *(("run", "30"), ("block", "6"), ("draw", "1"), ("trial", "6"), ("domain", "3")),
        ("block × domain", "6 × 3"),
    }
    two_way = table.cell("target_nll", "block × domain", "6 × 3", "t", measure="change")
    changes = pool.differences("ac-nc", "source-acc", ["target_nll"])
    found = unit_intervals(changes.values[:, 0], changes.keys)["block_domain"]
    assert (two_way.low, two_way.high) == (found.low, found.high)
    elsewhere = table.cell("target_nll", "domain", "3", "new place", measure="change")
    places = place_interval(changes.values[:, 0], changes.keys)
    assert (elsewhere.low, elsewhere.high) == (places.new_low, places.new_high)
    run_t = table.cell("target_nll", "run", "30", "t", measure="change")
    percentile = build("main-changes", pool).cell(measure="target_nll")
    assert run_t.value == pytest.approx(percentile.value)
    assert run_t.seed is None


def test_seeds_are_no_unit_where_no_two_runs_share_them(tmp_path: Path) -> None:
    table = build("inference", Cohort.open(write_cohort(tmp_path / "c", own_seeds())))
    assert {cell.row[1] for cell in table.cells} == {"run", "domain"}
    assert table.note.startswith("No two runs share seeds. run: every run by itself. domain:")


def test_equivalence_needs_a_margin(pair: Pool) -> None:
    with refused("missing"):
        build("equivalence", pair)
    table = build("equivalence", pair, margins={"target_accuracy": 0.5})
    assert table.cells[0].row == ("target_accuracy", "0.5", "1 block")
    assert table.cells[0].level == 0.9


def test_roles_are_pooled_only_with_a_word(tmp_path: Path) -> None:
    development = write_cohort(tmp_path / "dev", tiny_runs())
    evaluation = write_cohort(tmp_path / "eval", two_domains(), name="pair", role="evaluation")
    cohorts = [Cohort.open(development), Cohort.open(evaluation)]
    table = build("main-changes", cohorts)
    sizes = {c.role: c.n for c in table.cells if c.measure == "target_accuracy"}
    assert sizes == {"evaluation": 2, "development": 3, BOTH_ROLES: 5}
    by_role = {c.row[0]: c.role for c in build("main", cohorts).cells}
    assert by_role == {"PACS": "development", "Tiny": "evaluation"}


def test_a_run_belongs_to_one_cohort(tmp_path: Path) -> None:
    first = Cohort.open(write_cohort(tmp_path / "a", tiny_runs()))
    second = Cohort.open(write_cohort(tmp_path / "b", tiny_runs()))
    with refused("ambiguous"):
        Pool([first, second])


def test_every_table_is_made_and_every_number_carries_its_facts(tmp_path: Path) -> None:
    pool = Pool([Cohort.open(demo_like(tmp_path / "demo"))])
    made = list(build_all(pool, margins={"target_accuracy": 0.5}))
    lacking = [each[0] for each in made if isinstance(each, tuple)]
    assert lacking == ["swad", "temperature", "temperature-changes", "pair", "lodo", "lodo-changes"]
    tables = [each for each in made if not isinstance(each, tuple)]
    names = [name for name in TABLES if name not in (*SLOW, *lacking)]
    assert [table.name for table in tables] == [*names, "equivalence"]
    for each in tables:
        frame = each.frame()
        assert {"n", "scale", "seed", "role", "unit", "level"} <= set(frame)
        assert (frame["role"] == "development").all()
        assert frame["scale"].isin([1, 100]).all()
        drawn = frame["low"].notna() & np.isfinite(frame["low"]) & frame["seed"].notna()
        assert (frame.loc[drawn, "resamples"] > 0).all()


def test_unknown_tables_and_absent_logits_are_refused(pair: Pool) -> None:
    with refused("unknown: main, main-changes"):
        build("mian", pair)
    with refused("missing"):
        build("risk-coverage", pair)


def test_tables_of_one_contrast_are_about_the_rule_that_is_named(tmp_path: Path) -> None:
    tiny = Cohort.open(write_cohort(tmp_path / "tiny", tiny_runs()))
    about = Pool([tiny], rule="pure-nll", reference="ac-early")
    changes = build("main-changes", about)
    direct = {c.metric: c for c in tiny.contrasts(["pure-nll"], "ac-early", metrics=MAIN_METRICS)}
    assert changes.title == "pure-nll − ac-early, paired by run"
    for metric, contrast in direct.items():
        (cell,) = (c for c in changes.cells if c.measure == f"{metric}_over_runs")
        assert (cell.value, cell.low, cell.high) == (contrast.mean, contrast.low, contrast.high)
    rows = {cell.row[-1] for cell in build("main", about).cells}
    assert rows == {"pure-nll", "ac-early"}


def test_a_rule_is_not_compared_with_itself(tmp_path: Path) -> None:
    tiny = Cohort.open(write_cohort(tmp_path / "tiny", tiny_runs()))
    with refused("value: ac-nc"):
        Pool([tiny], reference="ac-nc")


def test_many_places_are_the_unit_of_every_change(tmp_path: Path) -> None:
    runs = [
        replace(run, key=replace(run.key, held_out=(f"p{place}",), trial_seed=place))
        for place in range(6)
        for run in two_domains()[place % 2 : place % 2 + 1]
    ]
    pool = Pool([Cohort.open(write_cohort(tmp_path / "places", runs))])
    nll = build("main-changes", pool).cell(measure="target_nll")
    changes = pool.differences("ac-nc", "source-acc", ["target_nll"])
    found = place_interval(changes.values[:, 0], changes.keys)
    assert (nll.low, nll.high, nll.counted_by) == (found.low, found.high, "6 places")
    new = build("main-changes", pool).cell(measure="target_nll_new_place")
    assert (new.low, new.high, new.counted_by) == (
        *(found.new_low, found.new_high),
        "a new place, from 6 places",
    )
    frame = build("main-changes", pool).frame()
    assert frame.set_index("measure")["interval_over"]["target_nll"] == "6 places"


def tied(distances: list[float]) -> np.ndarray:
    """Every distance, or the next smaller one where that is closer than 1e-9."""
    equal: dict[float, float] = {}
    last = -1.0
    for one in sorted(distances):
        equal[one] = equal[last] if one - last < 1e-9 else one
        last = one
    return np.array([equal[one] for one in distances])


def test_rank_correlation_given_the_step(tmp_path: Path) -> None:
    """Residuals of ranks on the ranks of the step, correlated: what a regression gives."""
    pool = Pool([Cohort.open(demo_like(tmp_path / "demo"))])
    table = build("rank-correlation", pool)
    by_hand, by_step, nll = [], [], []
    for key, chosen in select_many({k: pool.trajectory(k) for k in pool.keys}, "ac-nc").items():
        if not inside_feasible(pool)[key].valid:
            continue
        inside = chosen.ranking.eligible
        errors = [
            np.stack([side[name][inside] for name in ("nll", "cwece")])
            for side in (Columns.of(pool.trajectory(key)), pool.target(key))
        ]
        low = [e.min(axis=1, keepdims=True) for e in errors]
        high = [e.max(axis=1, keepdims=True) for e in errors]
        utility = [
            -tied(((e - a) / (b - a + 1e-12)).max(axis=0).tolist())
            for e, a, b in zip(errors, low, high, strict=True)
        ]
        step = scipy.stats.rankdata(pool.trajectory(key).steps[inside])
        ranks = [scipy.stats.rankdata(u) for u in utility]
        left = [r - np.polyval(np.polyfit(step, r, 1), step) for r in ranks]
        by_hand.append(scipy.stats.pearsonr(*left)[0])
        by_step.append(scipy.stats.spearmanr(-step, utility[1])[0])
        nll.append(scipy.stats.spearmanr(utility[0], -errors[1][0])[0])
    cell = table.cell("RotatedMNIST", "AC utility", measure="rho_given_step")
    assert cell.n == len(by_hand) > 5
    assert cell.value == pytest.approx(np.mean(by_hand), abs=1e-9)
    assert table.value("RotatedMNIST", "AC utility", measure="rho_by_step") == pytest.approx(
        np.mean(by_step)
    )
    assert table.value("RotatedMNIST", "AC utility, target NLL", measure="rho") == pytest.approx(
        np.mean(nll)
    )


def runs_at(places: int) -> list[WrittenRun]:
    """Two runs at every held-out place, with a target NLL that differs by place and draw."""
    return [
        replace(
            two_domains()[1],
            key=RunKey("Tiny", "ERM", (f"p{place}",), 1, 10 * place + draw),
            target={
                "nll": (2.3, 2.0, 1.5, 1.2 + 0.2 * place + 0.1 * draw),
                "ece": (0.1, 0.1, 0.1, 0.1),
                "cwece": (0.1, 0.1, 0.1, 0.1),
            },
        )
        for place in range(places)
        for draw in range(2)
    ]


def test_rank_agreement_counts_few_domains_too(tmp_path: Path) -> None:
    pool = Pool([Cohort.open(write_cohort(tmp_path / "places", runs_at(4)))])
    tau = build("kendall", pool).cell("Tiny", "ERM", measure="tau_nll")
    per_run = np.array(
        [
            scipy.stats.kendalltau(Columns.of(pool.trajectory(k))["nll"], pool.target(k)["nll"])[0]
            for k in pool.keys
        ]
    )
    of_domain = [
        per_run[[k.held_out == (f"p{place}",) for k in pool.keys]].mean() for place in range(4)
    ]
    expected = scipy.stats.ttest_1samp(of_domain, 0).confidence_interval(0.95)
    assert (tau.low, tau.high) == pytest.approx((expected.low, expected.high))
    assert tau.counted_by == "4 domains"
    drawn = by_algorithm.rank_agreements(pool).cells
    assert {cell.tau.over for cell in drawn} == {"4 domains"}


def test_tests_and_rank_agreement_count_many_places_too(tmp_path: Path) -> None:
    pool = Pool([Cohort.open(write_cohort(tmp_path / "places", runs_at(6)))])
    changes = pool.differences("ac-nc", "source-acc", ["target_nll"])
    found = place_interval(changes.values[:, 0], changes.keys)
    assert build("multiplicity", pool).value(
        "target_nll", "ac-nc", "6 places", measure="p"
    ) == pytest.approx(found.p)
    table = build("equivalence", pool, margins={"target_nll": 0.5})
    assert table.cells[0].row[2] == table.cells[0].counted_by == "6 places"
    tau = build("kendall", pool).cell("Tiny", "ERM", measure="tau_nll")
    per_run = [
        scipy.stats.kendalltau(Columns.of(pool.trajectory(k))["nll"], pool.target(k)["nll"])[0]
        for k in pool.keys
    ]
    by_place = place_interval(np.array(per_run), pool.keys)
    assert (tau.value, tau.low, tau.high) == pytest.approx(
        (by_place.mean, by_place.low, by_place.high)
    )
    assert tau.counted_by == "6 places"
