"""The facts behind figures, by hand or against the metrics; drawing them is repeatable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from checkwise.metrics import evaluate
from checkwise.study import Cohort, Pool, Predictions
from checkwise.study.figures import (
    FIGURES,
    by_algorithm,
    by_setting,
    distance,
    occlusion,
    one_run,
    style,
    trajectory,
    write_figures,
)
from checkwise.study.tables import build
from tests.figures.saved_logits import made, save_logits
from tests.refusals import refused
from tests.study.cohorts import WrittenRun, key, tiny_runs, trained_with, write_cohort


def pool_of(folder: Path, runs: list[WrittenRun]) -> Pool:
    return Pool([Cohort.open(write_cohort(folder / "c", runs))])


@pytest.fixture
def tiny(tmp_path: Path) -> Pool:
    return pool_of(tmp_path, tiny_runs())


def predictions(seed: int, scale: float = 2.0) -> Predictions:
    logits, labels = made(seed, 300, 5, scale)
    return Predictions(100, "art", logits, labels)


def two(p: list[list[float]], labels: list[int]) -> Predictions:
    return Predictions(0, "d", np.log(np.array(p)).astype(np.float32), np.array(labels))


def test_the_trajectory_marks_both_choices(tiny: Pool) -> None:
    found = trajectory.facts(tiny, key("ERM", 0))
    assert [(mark.rule, mark.step) for mark in found.marks] == [("source-acc", 100), ("ac-nc", 200)]
    assert found.feasible == (True, True, False)
    assert found.delta_pp == 0.5


def test_the_target_distance_is_over_all_checkpoints(tiny: Pool) -> None:
    # NLL 1.5, 1.2, 1.0 → 1, 0.4, 0; CwECE 0.04, 0.03, 0.02 → 1, 0.5, 0; ECE is constant → 0.
    found = distance.target_distance(tiny, key("ERM", 0))
    assert found.tolist() == pytest.approx([np.sqrt(2), np.hypot(0.4, 0.5), 0.0])
    points = {
        point.rule: point for point in distance.distance_points(tiny, ["source-acc", "ac-nc"])
    }
    assert points["source-acc"].accuracy == pytest.approx(50)
    assert points["ac-nc"].accuracy == pytest.approx((62 + 49 + 40) / 3)
    assert points["ac-nc"].n == 3


def test_changes_per_algorithm(tiny: Pool) -> None:
    found = {(c.algorithm, c.rule, c.metric): c for c in by_algorithm.algorithm_changes(tiny)}
    change = found["ERM", "NC, D2", "target_nll"]
    assert change.mean == pytest.approx(-0.2)
    assert change.n == 2
    assert len(found) == 2 * 2 * 2


def test_rank_agreement_is_that_of_the_table(tiny: Pool) -> None:
    found = by_algorithm.rank_agreements(tiny)
    table = build("kendall", tiny)
    for cell in found.cells:
        theirs = table.cell(cell.dataset, cell.algorithm, measure=f"tau_{cell.metric}")
        shown = (cell.tau.mean, cell.tau.low, cell.tau.high)
        assert shown == pytest.approx((theirs.value, theirs.low, theirs.high), nan_ok=True)
        assert cell.tau.n == theirs.n


def test_the_tolerance_sweep_starts_at_the_reference(tiny: Pool) -> None:
    found = by_setting.tolerance_facts(tiny)
    assert found[0].delta_pp == 0
    assert found[0].candidates == 1
    assert list(found[0].changes["target_nll"]) == [0, 0, 0]
    half = next(each for each in found if each.delta_pp == 0.5)
    assert half.candidates == pytest.approx(5 / 3)
    assert half.changes["target_nll"][0] == pytest.approx(-0.4 / 3)


def test_confident_errors_carry_their_counts_and_coverage() -> None:
    sure = two([[0.95, 0.05], [0.95, 0.05], [0.6, 0.4], [0.05, 0.95]], [0, 1, 1, 1])
    (found,) = one_run.count_confident_errors({"ac-nc": sure})
    assert (found.errors, found.count, found.n) == (1, 3, 4)
    assert found.rate == pytest.approx(1 / 3)
    assert found.coverage == 0.75
    (edge,) = one_run.count_confident_errors({"ac-nc": two([[0.5, 0.5], [0.5, 0.5]], [0, 1])}, 0.5)
    assert (edge.errors, edge.count) == (1, 2)  # at least the threshold's confidence


def test_shared_errors_keep_each_ones_own_wrong_confidence() -> None:
    right, wrong = [0.1, 0.8, 0.1], [0.8, 0.1, 0.1]
    labels = [1, 2, 1, 1, 1]  # of the last three, one is right in both and two in one of them
    first = two([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], right, right, wrong], labels)
    second = two([[0.5, 0.3, 0.2], [0.2, 0.7, 0.1], right, wrong, right], labels)
    found = one_run.count_shared_errors(first, second)
    assert found.shared == 2
    assert found.same.tolist() == [True, False]
    assert [side.round(6).tolist() for side in found.true_label] == [[0.2, 0.1], [0.3, 0.1]]
    assert [side.round(6).tolist() for side in found.wrong] == [[0.7, 0.6], [0.5, 0.7]]
    assert found.share_lowered() == 0.5
    assert found.share_lowered(same_only=True) == 1.0


def test_shared_errors_need_the_same_examples() -> None:
    with refused("differs"):
        one_run.count_shared_errors(two([[0.7, 0.3]], [0]), two([[0.7, 0.3]], [1]))


def test_diagrams_add_up_to_the_metrics() -> None:
    given = predictions(1)
    found = one_run.reliability_diagrams({"ac-nc": given})
    report = evaluate(logits=given.logits, labels=given.labels)
    assert found.soft["ac-nc"].error == pytest.approx(report.ece, rel=1e-6)
    assert found.hard["ac-nc"].error == pytest.approx(report.hard_ece, rel=1e-6)
    assert found.hard["ac-nc"].weight.sum() == pytest.approx(1)


def test_risk_at_full_coverage_is_the_error_rate() -> None:
    given = predictions(2)
    found = one_run.risk_curves({"ac-nc": given})["ac-nc"]
    report = evaluate(logits=given.logits, labels=given.labels)
    assert found.at(1.0) == pytest.approx(1 - report.accuracy)


def test_occlusion_keeps_the_class_of_the_whole_image() -> None:
    # Class 0 looks at the upper left patch, class 1 at the lower right one.
    image = np.zeros((1, 32, 32))
    image[0, :16, :16] = 1.0
    image[0, 16:, 16:] = 0.5

    def predict(x: np.ndarray) -> np.ndarray:
        return np.stack([4 * x[:, 0, :16, :16].mean((1, 2)), 4 * x[:, 0, 16:, 16:].mean((1, 2))], 1)

    found = occlusion.facts(predict, image, label=1)
    assert found.predicted == 0
    p = 1 / (1 + np.exp(-2.0))
    assert [name for name, _ in found.top] == [0, 1]
    assert [share for _, share in found.top] == pytest.approx([p, 1 - p])
    assert found.confidence[0, 0] == pytest.approx(p - 1 / (1 + np.exp(2.0)))
    assert found.confidence[0, 1] == pytest.approx(0)
    assert found.confidence[1, 1] < 0  # evidence against the prediction
    assert found.nll[1, 1] > 0 > found.nll[0, 0]
    shown = np.repeat(image.transpose(1, 2, 0), 3, axis=2)
    occlusion.draw({"ac-nc": found}, shown, classes={0: "a", 1: "b"}, exemplar=shown)


def test_every_figure_is_written_where_there_are_logits(tmp_path: Path) -> None:
    path = write_cohort(tmp_path / "tiny", trained_with(1e-3, 3e-4, 1e-3, 3e-4))
    save_logits(path, (100, 200, 300))
    cohort = Cohort.open(path)
    reasons = dict(write_figures(cohort, tmp_path / "out"))
    assert "Expected the weights of step" in str(reasons.pop("occlusion"))
    assert reasons == dict.fromkeys(name for name in FIGURES if name != "occlusion")
    written = {file.name for file in (tmp_path / "out").iterdir()}
    assert written == {f"{name}.{kind}" for name in reasons for kind in ("pdf", "png")}
    assert (tmp_path / "out" / "kendall.pdf").read_bytes()[:4] == b"%PDF"


def test_figures_without_logits_say_why(tiny: Pool, tmp_path: Path) -> None:
    names = ["trajectory", "reliability"]
    with refused("missing: held-out"):
        list(write_figures(tiny, tmp_path, only=names))
    with refused("unknown: trajectory"):
        list(write_figures(tiny, tmp_path, only=["pie"]))


def test_saving_twice_gives_the_same_bytes(tiny: Pool, tmp_path: Path) -> None:
    for name in ("a", "b"):
        style.save(trajectory.draw(trajectory.facts(tiny)), tmp_path / name, "trajectory")
    for kind in ("pdf", "png"):
        one, other = (tmp_path / name / f"trajectory.{kind}" for name in ("a", "b"))
        assert one.read_bytes() == other.read_bytes()


def test_figures_are_about_the_rule_that_is_named(tiny: Pool, tmp_path: Path) -> None:
    about = Pool(tiny.cohorts, rule="pure-nll", reference="ac-early")
    marks = trajectory.facts(about, key("ERM", 0)).marks
    assert [mark.rule for mark in marks] == ["ac-early", "pure-nll"]
    assert {change.rule for change in by_algorithm.algorithm_changes(about)} == {"pure-nll"}
    assert "ac-early" in [point.rule for point in distance.distance_points(about)]
    with refused("unsupported: pure-nll"):
        by_setting.tolerance_facts(about)
    with refused("unsupported: swad"):
        trajectory.facts(Pool(tiny.cohorts, rule="swad"))


@pytest.fixture
def two_sets(tmp_path: Path) -> Pool:
    """The tiny cohort as development data, and ERM alone on other data as evaluation."""
    office = [replace(run, key=replace(run.key, dataset="OfficeHome")) for run in tiny_runs()[:2]]
    return Pool(
        [
            Cohort.open(write_cohort(tmp_path / "pacs", tiny_runs())),
            Cohort.open(write_cohort(tmp_path / "office", office, role="evaluation")),
        ]
    )


def test_titles_name_the_data_that_was_drawn(two_sets: Pool, tiny: Pool) -> None:
    title = by_algorithm.draw_changes(by_algorithm.algorithm_changes(two_sets)).get_suptitle()
    assert title == (
        "Rule − source-acc, OfficeHome and PACS, 1–4 runs per algorithm, development + evaluation, "
        "95% over runs"
    )
    title = by_algorithm.draw_changes(by_algorithm.algorithm_changes(tiny)).get_suptitle()
    assert title == "Rule − source-acc, PACS, 1–2 runs per algorithm, development, 95% over runs"
    # The first scope is the evaluation data alone.
    title = by_setting.draw_tolerance(by_setting.tolerance_facts(two_sets)).get_suptitle()
    assert title == "ac-nc − source-acc, OfficeHome, 2 runs, evaluation, 95% over runs"


def test_the_shading_of_rank_agreement_is_explained(tiny: Pool) -> None:
    found = by_algorithm.rank_agreements(tiny)
    figure = by_algorithm.draw_rank_agreements(found)
    title = figure.get_suptitle()
    assert title.splitlines()[0].endswith("development, 95% over runs")
    assert title.endswith("shaded: from 0 to the mean over all runs of the panel")
    tau = [build("kendall", tiny).cell("PACS", a, measure="tau_nll") for a in ("ERM", "IRM")]
    mean = sum(cell.n * cell.value for cell in tau) / sum(cell.n for cell in tau)
    assert found.panel_means["nll"] == pytest.approx(mean)


def test_the_effect_at_every_learning_rate_is_that_of_its_runs(tmp_path: Path) -> None:
    runs = trained_with(1e-3, 1e-3, 3e-4, 3e-4)
    found = by_setting.learning_rate_facts(pool_of(tmp_path, runs))
    assert [each.rate for each in found] == [3e-4, 1e-3]
    # ERM's trials go from NLL 1.5 to 1.2 and from 2.0 to 1.9; IRM has one candidate.
    assert found[0].changes["target_nll"] == (0.0,)
    assert found[1].changes["target_nll"] == pytest.approx((-0.3, -0.1))
    assert found[1].changes["target_accuracy"] == pytest.approx((2.0, -1.0))


def test_one_learning_rate_makes_no_curve(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, trained_with(*[1e-3] * 4))
    with refused("empty: pacs-ladder"):
        by_setting.learning_rate_facts(pool)


def test_a_run_without_a_finite_nll_keeps_its_accuracy(tmp_path: Path) -> None:
    runs = trained_with(1e-3, 1e-3, 3e-4, 3e-4)
    runs[0] = replace(runs[0], target_lacks=("nll",))  # as an older journal may be
    found = by_setting.learning_rate_facts(pool_of(tmp_path, runs))
    assert [each.n for each in found] == [1, 2]
    assert found[1].changes["target_nll"] == pytest.approx((-0.1,))
    assert found[1].changes["target_accuracy"] == pytest.approx((2.0, -1.0))
    assert by_setting.missing_at_rates(found) == {"target_nll": 1}
    assert by_setting.draw_learning_rate(found).get_suptitle().endswith("not shown: 1 of Δ NLL")


def test_a_rate_without_any_finite_nll_has_no_mean_of_it(tmp_path: Path) -> None:
    runs = trained_with(1e-3, 1e-3, 3e-4, 3e-4)
    runs[2] = replace(runs[2], target_lacks=("nll",))
    found = by_setting.learning_rate_facts(pool_of(tmp_path, runs))
    nll, accuracy = by_setting.draw_learning_rate(found).axes
    assert list(np.asarray(nll.lines[-1].get_xdata())) == [1e-3]
    assert list(np.asarray(accuracy.lines[-1].get_xdata())) == [3e-4, 1e-3]


def test_missing_values_are_not_taken_for_one_learning_rate(tmp_path: Path) -> None:
    runs = trained_with(1e-3, 1e-3, 3e-4, 3e-4)
    runs[2] = replace(runs[2], target_diverged=(100,))
    pool = pool_of(tmp_path, runs)
    with refused("empty: held-out … 1 … 2"):
        by_setting.learning_rate_facts(pool)
