"""Contrasts fixed beforehand: the file, the numbers by place, and the verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.study import (
    Cohort,
    ContrastResult,
    contrast_results,
    read_contrasts,
    register_set,
    registered_sets,
)
from checkwise.study.contrast_set import PlannedContrast, parse_contrasts
from checkwise.study.contrast_verdicts import Condition, decided, from_places, without_results
from checkwise.study.folder import LOG, OPENED
from checkwise.study.folder.registration import read_log
from tests.refusals import refused
from tests.study.cohorts import WrittenRun, write_cohort

NLL: dict[str, Any] = {
    "name": "nll",
    "family": "main",
    "rule": "ac-nc",
    "reference": "source-acc",
    "metric": "target_nll",
}
ACCURACY = {**NLL, "name": "accuracy", "metric": "target_accuracy"}


def written(changes: Mapping[str, Sequence[tuple[float, int]]]) -> list[WrittenRun]:
    """Runs in which ac-nc takes step 300 and source-acc step 200.

    ``changes`` gives, by place, what that does to NLL and to correct answers (of 100) in each run.
    """
    return [
        WrittenRun(
            RunKey("traps", "ERM", (place,), 1, 100 * i + j),
            (100, 200, 300),
            (150, 190, 190),
            {"nll": (0.9, 0.5, 0.4), "cwece": (0.5, 0.2, 0.1)},
            (40, 50, 50 + points),
            {"nll": (2.0, 1.0, 1.0 + nll)},
        )
        for i, (place, runs) in enumerate(changes.items())
        for j, (nll, points) in enumerate(runs)
    ]


CHANGES = {
    "a": [(-0.30, 0), (-0.10, 1)],
    "b": [(-0.25, 1)],
    "c": [(-0.15, 0), (-0.35, 0), (-0.10, -1)],
    "d": [(-0.22, 1)],
    "e": [(-0.18, 0)],
}


def fixed(*contrasts: Mapping[str, Any], **top: Any) -> Any:
    return parse_contrasts({**top, "contrast": list(contrasts)}, "mine.toml")


@pytest.fixture
def cohort(tmp_path: Path) -> Cohort:
    return Cohort.open(write_cohort(tmp_path / "traps", written(CHANGES), role="evaluation"))


def test_numbers_are_means_by_place_and_t_over_places(cohort: Cohort) -> None:
    nll, accuracy = contrast_results(cohort, fixed(NLL, ACCURACY))
    means = {place: np.mean([c[0] for c in runs]) for place, runs in CHANGES.items()}
    assert nll.by_place == pytest.approx(means)
    reference = stats.ttest_1samp(list(means.values()), 0)
    assert (nll.low, nll.high) == pytest.approx(tuple(reference.confidence_interval(0.95)))
    assert nll.p == pytest.approx(reference.pvalue)
    points = [np.mean([c[1] for c in runs]) for runs in CHANGES.values()]
    second = stats.ttest_1samp(points, 0)
    assert (accuracy.mean, accuracy.p) == pytest.approx((np.mean(points), second.pvalue))
    assert nll.holm == pytest.approx(2 * reference.pvalue)  # the smaller of two
    assert accuracy.holm == pytest.approx(max(second.pvalue, 2 * reference.pvalue))
    assert (nll.verdict, accuracy.verdict) == ("found", "not found")
    assert (nll.runs, nll.missing, nll.places) == (8, 0, 5)
    assert nll.worst is not None
    assert nll.worst[0] == "e"
    assert nll.worst[1] == pytest.approx(-0.18)
    # A true change of that size reaches the strictest level of Holm in 80 of 100 studies.
    error = np.std(points, ddof=1) / np.sqrt(5)
    least = (stats.t.ppf(1 - 0.025 / 2, 4) + stats.t.ppf(0.8, 4)) * error
    assert accuracy.detectable == pytest.approx(least)


def result(values: Sequence[float], **planned: Any) -> ContrastResult:
    one = PlannedContrast(**{"hoped": "lower", **NLL, **planned})
    return from_places(one, {str(i): v for i, v in enumerate(values)}, len(values))


def test_verdicts() -> None:
    fell, rose, noise = [-1.0, -1.1, -0.9, -1.0], [1.0, 1.1, 0.9, 1.0], [-1.0, 1.0, 0.2, -0.3]
    found, contradicted, unclear = decided([result(fell), result(rose), result(noise)])
    assert found.verdict == "found"
    assert contradicted.verdict == "contradicted"
    assert unclear.verdict == "not found"
    assert unclear.detectable > 1
    (other,) = decided([result(fell, hoped="higher")])
    assert other.verdict == "contradicted"


def test_holm_counts_contrasts_without_a_p_value() -> None:
    """A contrast that cannot be computed does not make the others easier to find."""
    alone, none = decided([result([-1.0, -0.5, -0.8]), result([0.3])])
    assert alone.holm == pytest.approx(2 * alone.p)
    assert (none.verdict, none.holm) == ("not found", 1.0)


@pytest.mark.parametrize(("low", "verdict"), [(-0.49, "found"), (-0.5, "not found")])
def test_a_side_condition_has_to_hold_as_well(low: float, verdict: str) -> None:
    one = result([-1.0, -1.1, -0.9, -1.0])
    condition = Condition("target_accuracy", 0.5, 0.0, low, 1.0, low > -0.5)
    (tested,) = decided([from_places(one.planned, one.by_place, 4, condition=condition)])
    assert tested.verdict == verdict


def test_a_side_condition_is_computed_by_place(cohort: Cohort) -> None:
    for margin, holds in ((5.0, True), (0.1, False)):
        asked = {**NLL, "not_worse": {"metric": "target_accuracy", "by": margin}}
        (one,) = contrast_results(cohort, fixed(asked))
        assert one.condition is not None
        points = [np.mean([c[1] for c in runs]) for runs in CHANGES.values()]
        interval = stats.ttest_1samp(points, 0).confidence_interval(0.95)
        assert (one.condition.low, one.condition.high) == pytest.approx(tuple(interval))
        assert (one.condition.holds, one.verdict == "found") == (holds, holds)


def test_an_estimate_only_has_no_test(cohort: Cohort) -> None:
    (one,) = contrast_results(cohort, fixed({**NLL, "family": ""}))
    assert one.verdict == "estimate only"
    assert np.isnan([one.p, one.holm, one.detectable]).all()
    assert one.low < one.mean < one.high


def test_two_places_decide_nothing(tmp_path: Path) -> None:
    runs = written({"a": [(-0.5, 0)], "b": [(-0.5001, 0)]})
    (one,) = contrast_results(Cohort.open(write_cohort(tmp_path / "two", runs)), fixed(NLL))
    assert (one.p < 0.05, one.verdict) == (True, "not found")


def test_the_worst_place_of_each(cohort: Cohort) -> None:
    asked = {**ACCURACY, "at": "worst place", "family": ""}
    (one,) = contrast_results(cohort, fixed(asked))
    assert one.by_place == pytest.approx({"ac-nc: c": 50 - 1 / 3, "source-acc: a": 50.0})
    assert one.mean == pytest.approx(-1 / 3)
    assert one.worst is None


def test_missing_runs_are_counted(tmp_path: Path) -> None:
    runs = written(CHANGES)
    runs[0] = WrittenRun(**{**vars(runs[0]), "target_diverged": (300,)})
    (one,) = contrast_results(Cohort.open(write_cohort(tmp_path / "traps", runs)), fixed(NLL))
    assert (one.runs, one.missing) == (7, 1)
    assert one.by_place["a"] == pytest.approx(-0.10)


def by_three_places(name: str, *means: float) -> ContrastResult:
    (planned,) = fixed({**NLL, "name": name}).contrasts
    return from_places(planned, dict(zip("abc", means, strict=True)), runs=3)


def test_a_verdict_without_the_whole_family_is_the_one_that_any_of_it_would_give() -> None:
    sure, close, none = (-1.0, -1.001, -1.002), (-1.0, -1.3, -1.6), (-1.0, 1.0, 0.3)
    there = [by_three_places(name, *m) for name, m in zip("scn", (sure, close, none), strict=True)]
    assert 2 * there[1].p < 0.05 < 4 * there[1].p
    (planned,) = fixed({**NLL, "name": "gone"}).contrasts
    found = decided([*there, without_results(planned, 3), without_results(planned, 3)])
    assert [one.verdict for one in found] == ["found", None, "not found", None, None]
    assert all(isnan(one.holm) and one.reason for one in found)
    for p in (0.0, 0.01, 0.04, 0.5, 1.0):  # whatever the others give
        others = [replace(there[0], p=p), replace(there[0], p=p)]
        whole = decided([*there, *others])
        assert [whole[0].verdict, whole[2].verdict] == ["found", "not found"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"metric": "target_nnl"}, "did you mean 'target_nll'"),
        ({"rule": "ac-nk"}, "ac-nc"),
        ({"hoped": "better"}, "higher, lower"),
        ({"reference": "ac-nc"}, "another one than the rule"),
        ({"rule": "source-acc+ts-oracle"}, "does not look at the target"),
        ({"not_worse": {"metric": "target_accuracy"}}, "by"),
        ({"not_worse": {"metric": "target_accuracy", "by": 0}}, "between 0"),
        ({"not_worse": {"metric": "target_accuracy", "by": 1}, "family": ""}, "side condition"),
        ({"where": {"rule": "ac-nc", "temperature_below": 1}}, "with a temperature"),
        ({"at": "worst place"}, "the mean where a contrast is tested"),
        ({"params": {"delta": "x", "nothing": 1}}, "nothing"),
        ({"rule": "mean-probs", "params": {"k": 3}}, "takes none"),
        ({"famly": "main"}, "did you mean 'family'"),
    ],
)
def test_mistakes_in_the_file_are_named(change: Mapping[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        fixed({**NLL, **change})


def test_a_file_needs_contrasts_with_names_of_their_own(tmp_path: Path) -> None:
    with refused("empty"):
        fixed()
    with refused("ambiguous"):
        fixed(NLL, {**NLL, "metric": "target_ece"})
    (tmp_path / "torn.toml").write_text("[[contrast]\n")
    with refused("format: TOML"):
        read_contrasts(tmp_path / "torn.toml")


def test_the_log_keeps_everything_and_gives_it_back(cohort: Cohort) -> None:
    asked = fixed(
        {**NLL, "params": {"delta_pp": "1"}, "not_worse": {"metric": "target_ece", "by": 0.5}},
        {**ACCURACY, "where": {"rule": "source-acc+ts", "temperature_below": 1}},
        title="Traps",
        note="One confirmation.",
    )
    nll_only = fixed(NLL, title="Traps")
    with refused("missing: logits"):  # source-acc+ts needs them
        register_set(cohort, asked)
    assert not (cohort.path / LOG).exists()
    assert parse_contrasts(asked.as_dict(), "log") == asked
    found = register_set(cohort, nll_only)
    assert found.fixed == nll_only
    (entry,) = read_log(cohort.path)
    assert entry["recipes"]["ac-nc"]["params"]["delta_pp"] == "1/2"
    assert entry["code"]["sha256"]
    assert list(entry["places"]) == list(CHANGES)
    assert len(entry["journals"]) == entry["planned"] == 8
    assert found.standing.state == "before"
    contrast_results(cohort, nll_only)
    assert read_log(cohort.path)[1]["kind"] == OPENED
    assert register_set(cohort, fixed(ACCURACY)).standing.state == "late"
    first, second = registered_sets(cohort.path)
    assert (first.standing.state, first.standing.others) == ("before", 0)
    assert (second.standing.state, second.standing.others) == ("late", 1)


def test_only_finished_runs_are_watched(tmp_path: Path) -> None:
    runs = written(CHANGES)
    runs[1] = WrittenRun(**{**vars(runs[1]), "finished": False})
    found = register_set(Cohort.open(write_cohort(tmp_path / "traps", runs)), fixed(NLL))
    assert (found.runs, found.planned) == (7, 8)
    assert (found.standing.changed, found.standing.added) == (0, 1)


def test_compare_knows_contrasts_that_were_registered(cohort: Cohort) -> None:
    from checkwise.study import registrations

    register_set(cohort, fixed(NLL))
    told = registrations(cohort.path, ["ac-nc", "ac-nll"], {}, metrics=["target_nll", "target_ece"])
    assert told["ac-nc"].state == "before"
    assert told["ac-nc"].unregistered == ("target_ece",)
    assert told["ac-nll"].state == "none"
