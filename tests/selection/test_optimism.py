"""What selection adds to the results of its choice: by hand, and in a small simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import checkwise as cw
from checkwise.sure.draws import folds_of
from tests.docs.test_pages import builder
from tests.refusals import refused
from tests.selection.test_stability import resampled_runs
from tests.selection.validated import predictions, validated_run


@pytest.mark.parametrize("grouped", [False, True])
def test_it_is_the_choice_without_a_part_measured_on_that_part(grouped: bool) -> None:
    saved = predictions(checkpoints=6)
    groups = {name: np.arange(40) // 4 for name in saved[0]} if grouped else None
    run = cw.Trajectory.from_predictions(saved, groups=groups)
    rest, left_out = folds_of(run, 5, 2, seed=0)
    for a, b in zip(rest.counts, left_out.counts, strict=True):
        assert (a + b == 1).all()
        assert (b.reshape(5, 2, 40).sum(axis=0) == 1).all()  # every example is left out once
    seen, unseen = (resampled_runs(saved, part.counts) for part in (rest, left_out))
    chosen = [cw.select(one, "ac-nll", delta_pp=4) for one in seen]
    whole = cw.select(run, "ac-nll", delta_pp=4)
    found = whole.optimism(folds=5, repeats=2)
    for name, sign in (("accuracy", 1), ("nll", -1)):
        there = [
            other.values[name][one.index].mean() for one, other in zip(chosen, unseen, strict=True)
        ]
        here = [one.columns[name][one.index] for one in chosen]
        expected = sign * np.mean(np.array(here) - np.array(there))
        assert found[name].optimism == pytest.approx(expected, abs=1e-9)
        assert found[name].corrected == pytest.approx(
            found[name].measured - sign * found[name].optimism
        )
        assert found[name].measured == whole.columns[name][whole.index]
        assert found[name].low < found[name].measured < found[name].high


def test_without_a_choice_there_is_no_optimism_and_the_interval_is_the_usual_one() -> None:
    run = validated_run(checkpoints=1, examples=200, domains=1)
    assert run.examples is not None
    found = cw.select(run, "source-acc").optimism(repeats=1)["accuracy"]
    assert found.optimism == pytest.approx(0, abs=1e-12)
    p = found.measured
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * (p * (1 - p) / 200) ** 0.5, rel=0.1)


def test_the_correction_works_where_all_is_luck() -> None:
    """51 checkpoints, many of them equally good, 50 examples per domain: nearly four points."""
    rows = builder("sure_optimism").simulate(50, "source-acc", 25)
    accuracy = next(row for row in rows if row["metric"] == "accuracy")
    assert accuracy["measured"] > 0.02
    assert abs(accuracy["corrected"]) < accuracy["measured"] / 2
    assert accuracy["covered"] >= 0.8


def test_what_it_needs() -> None:
    run = validated_run()
    single = validated_run(groups={name: np.zeros(40, dtype=int) for name in run.domains})
    with refused("missing"):
        cw.select(replace(run, examples=None)).optimism()
    with refused("unsupported"):
        cw.select(single).optimism()
