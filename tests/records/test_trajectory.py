"""A trajectory refuses what cannot be meant, and names step, domain and fix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import checkwise as cw
from tests.refusals import refused


def rows(**changes: Any) -> pd.DataFrame:
    """Two steps, two domains."""
    columns: dict[str, Any] = {
        "step": [0, 0, 100, 100],
        "domain": ["art", "photo", "art", "photo"],
        "accuracy": [0.5, 0.25, 0.75, 1.0],
        "nll": [1.0, 2.0, 0.5, 0.25],
        "n": [4, 8, 4, 8],
    }
    return pd.DataFrame({**columns, **changes})


def test_a_tidy_table_becomes_a_grid() -> None:
    run = cw.Trajectory.from_frame(rows())
    assert run.steps.tolist() == [0, 100]
    assert run.domains == ("art", "photo")
    assert run.values["nll"].tolist() == [[1.0, 2.0], [0.5, 0.25]]
    assert run.counts is not None
    assert run.counts.tolist() == [4, 8]
    assert run.correct is not None
    assert run.correct.tolist() == [[2, 2], [3, 8]]


def test_rows_may_come_in_any_order() -> None:
    shuffled = rows().sample(frac=1, random_state=0)
    assert cw.Trajectory.from_frame(shuffled).digest == cw.Trajectory.from_frame(rows()).digest


def test_one_domain_needs_no_domain_column() -> None:
    run = cw.Trajectory.from_frame({"step": [1, 2], "accuracy": [0.5, 0.6]})
    assert run.domains == ("validation",)


@pytest.mark.parametrize("poison", [0.0, 99.0, np.nan, -1.0])
def test_target_rows_are_dropped_before_they_are_read(poison: float) -> None:
    target = pd.DataFrame(
        {"step": [0, 100], "domain": "sketch", "accuracy": poison, "nll": poison, "n": 3}
    )
    both = pd.concat([rows().assign(role="source"), target.assign(role="target")])
    without = cw.Trajectory.from_frame(rows())
    assert cw.Trajectory.from_frame(both).digest == without.digest
    named = both.drop(columns="role")
    assert cw.Trajectory.from_frame(named, held_out="sketch").digest == without.digest


def test_unknown_columns_are_not_looked_at() -> None:
    junk = rows(target_nll=[np.nan] * 4, comment=["a", None, "b", "c"])
    assert cw.Trajectory.from_frame(junk).metrics == ("accuracy", "nll")
    named = cw.Trajectory.from_frame(rows(margin=[1.0, 2, 3, 4]), metrics=["margin"])
    assert named.metrics == ("accuracy", "nll", "margin")


def test_percentages_rounded_in_a_log_leave_the_count_open() -> None:
    run = cw.Trajectory.from_frame({"step": [1], "accuracy": [0.8333], "n": [4000]})
    assert run.counts is not None
    assert run.correct is None
    single = np.float32(2 / 3)
    exact = cw.Trajectory.from_frame({"step": [1], "accuracy": [single], "n": [3]})
    assert exact.correct is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accuracy": [0.5, 25.0, 0.75, 1.0]}, "value: 25 … 0 … 'photo' … 100"),
        ({"accuracy": [0.5, -0.1, 0.75, 1.0]}, "value: 0 … -0.1"),
        ({"nll": [1.0, np.nan, 1.0, 1.0]}, "value: 0 … 'photo' … `diverged`"),
        ({"nll": [1.0, np.inf, 1.0, 1.0]}, "value"),
        ({"nll": [1.0, -0.5, 1.0, 1.0]}, "value: 0"),
        ({"cwece": [0.1, 2.0, 0.1, 0.1]}, "value: 2 … 0 … 100"),
        ({"nll": [1.0, "high", 1.0, 1.0]}, "value: nll … 'high' … 0"),
        ({"step": [0, 0, 0, 0]}, "ambiguous: 2 … 0 … 'art'"),
        ({"step": [0, 0, 100, 200]}, "differs: 100 … 'photo'"),
        ({"step": [0, 0, 100.5, 100]}, "value: step … 100 … 5"),
        ({"step": [0, 0, np.nan, 100]}, "value: step … nan"),
        ({"step": ["a", "b", "c", "d"]}, "value: step"),
        ({"step": [-5, -5, 100, 100]}, "value: 0 … -5"),
        ({"n": [4, 8, 5, 8]}, "differs: 'art' … 4 … 0 … 5 … 100"),
        ({"n": [0, 8, 0, 8]}, "value: 1 … 0 … 'art'"),
        ({"correct": [2, 2, 3, 9]}, "differs: 9 … 8"),
        ({"correct": [1, 2, 3, 8]}, "differs: 1 … 4 … 0.5"),
        ({"role": ["source", "sauce", "source", "source"]}, "format: 'source' … 'target'"),
        ({"role": ["target"] * 4}, "empty"),
        ({"diverged": [True] * 4}, "empty: 2"),
        ({"diverged": ["maybe"] * 4}, "value: 'diverged'"),
    ],
)
def test_bad_tables_are_refused(changes: dict[str, Any], message: str) -> None:
    with refused(message):
        cw.Trajectory.from_frame(rows(**changes))


def test_missing_columns_and_unknown_held_out_domains_are_named() -> None:
    with refused("missing: 'accuracy' … step"):
        cw.Trajectory.from_frame({"step": [1]})
    with refused("unknown: held-out … 'sketch' … art, photo"):
        cw.Trajectory.from_frame(rows(), held_out="sketch")


def test_what_is_no_table_is_refused() -> None:
    with refused("value: NoneType"):
        cw.Trajectory.from_frame(None)
    with refused("differs: 'accuracy' … 1"):
        cw.Trajectory.from_frame({"step": [1, 2], "accuracy": [0.9]})


def test_a_diverged_checkpoint_may_hold_anything() -> None:
    run = cw.Trajectory.from_frame(
        rows(diverged=["false", "false", "true", "true"], nll=[1, 2, np.nan, np.inf])
    )
    assert run.n_diverged == 1


@pytest.mark.parametrize("where", [[True, False], [False, True]])
def test_a_checkpoint_that_diverged_on_one_domain_is_not_chosen(where: list[bool]) -> None:
    run = cw.Trajectory.from_frame(rows(diverged=[False, False, *where]))
    assert run.diverged.tolist() == [False, True]
    assert cw.select(run, "source-acc").step == 0  # step 100 has the higher accuracy


def test_arrays_cannot_be_written_to() -> None:
    run = cw.Trajectory.from_frame(rows())
    with pytest.raises(ValueError, match="read-only"):
        run.values["nll"][0, 0] = 0
    with pytest.raises(TypeError):
        run.values["nll"] = np.zeros((2, 2))  # type: ignore[index]


def outputs(seed: int) -> dict[str, tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    labels = np.random.default_rng(0).integers(0, 3, 20)
    return {name: (rng.normal(size=(20, 3)), labels) for name in ("art", "photo")}


def test_predictions_give_every_metric() -> None:
    run = cw.Trajectory.from_predictions({0: outputs(1), 100: outputs(2)})
    logits, labels = outputs(2)["photo"]
    report = cw.metrics.evaluate(logits=logits, labels=labels)
    for name, value in report.values().items():
        assert run.values[name][1, 1] == value
    assert run.correct is not None
    assert run.correct[1, 1] == report.correct
    assert (run.bins, run.bandwidth) == (15, 0.1)


def test_non_finite_logits_mark_a_checkpoint_diverged() -> None:
    broken = outputs(2)
    broken["art"][0][3, 1] = np.nan
    run = cw.Trajectory.from_predictions({0: outputs(1), 100: broken})
    assert run.diverged.tolist() == [False, True]
    assert run.notes == ("step 100 diverged: outputs of 'art' are not finite",)
    assert cw.select(run).step == 0


def test_predictions_must_be_of_the_same_examples() -> None:
    relabelled = outputs(2)
    relabelled["art"] = (relabelled["art"][0], (relabelled["art"][1] + 1) % 3)
    with refused("differs: labels … 'art' … 100"):
        cw.Trajectory.from_predictions({0: outputs(1), 100: relabelled})
    fewer = {name: (z[:10], y[:10]) for name, (z, y) in outputs(2).items()}
    with refused("differs: examples … 'art' … 100"):
        cw.Trajectory.from_predictions({0: outputs(1), 100: fewer})
    missing = {"art": outputs(2)["art"]}
    with refused("differs: 100 … photo"):
        cw.Trajectory.from_predictions({0: outputs(1), 100: missing})
    with refused("value: 'logits' … 'probs'"):
        cw.Trajectory.from_predictions({0: outputs(1)}, kind="guess")


def test_held_out_predictions_are_never_opened() -> None:
    class Sealed(dict[str, tuple[Any, Any]]):
        def __getitem__(self, name: str) -> tuple[Any, Any]:
            assert name != "sketch", "a held-out domain was read"
            return super().__getitem__(name)

    sealed = Sealed(outputs(1), sketch=(None, None))
    run = cw.Trajectory.from_predictions({0: sealed}, held_out="sketch")
    assert run.digest == cw.Trajectory.from_predictions({0: outputs(1)}).digest


@pytest.mark.parametrize("change", ["steps", "accuracy", "nll", "counts", "domains"])
def test_the_digest_changes_with_anything_that_selection_can_read(change: str) -> None:
    facts: dict[str, Any] = {
        "steps": [1, 2],
        "domains": ["val"],
        "values": {"accuracy": np.c_[[0.5, 0.75]], "nll": np.c_[[0.7, 0.4]]},
        "counts": [8],
    }
    others: dict[str, dict[str, Any]] = {
        "steps": {"steps": [1, 3]},
        "domains": {"domains": ["other"]},
        "counts": {"counts": [16]},
        "accuracy": {"values": facts["values"] | {"accuracy": np.c_[[0.5, 0.875]]}},
        "nll": {"values": facts["values"] | {"nll": np.c_[[0.7, 0.3]]}},
    }
    assert cw.Trajectory(**facts).digest == cw.Trajectory(**facts).digest
    assert cw.Trajectory(**facts).digest != cw.Trajectory(**facts | others[change]).digest


def test_the_index_of_a_data_frame_may_mark_test_rows() -> None:
    frame = pd.DataFrame({"step": [1, 2], "accuracy": [0.8, 0.9], "nll": [0.5, 0.1]})
    marked = frame.assign(is_test=[0, 1])
    with refused("held-out: is_test"):
        cw.Trajectory.from_frame(marked.set_index("is_test"))
    with refused("held-out: is_test"):
        cw.Trajectory.from_frame(marked, columns={"held_out": "is_test"})
    assert len(cw.Trajectory.from_frame(frame.set_index(pd.Index([3, 4], name="row")))) == 2
