"""What every validation example said: in memory, from folders, with groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.errors import InputError
from checkwise.records import Examples, Outcomes
from tests.refusals import refused

SIZES = {"art": 30, "photo": 17}


def saved(
    seed: int = 0, *, steps: int = 4, classes: int = 5, grouped: bool = False
) -> dict[int, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    labels = {name: rng.integers(0, classes, n) for name, n in SIZES.items()}
    groups = {name: rng.integers(0, 4, n) for name, n in SIZES.items()}

    def outputs(name: str) -> Any:
        z = rng.normal(size=(SIZES[name], classes)).astype(np.float32)
        return (z, labels[name], groups[name]) if grouped else (z, labels[name])

    return {100 * t: {name: outputs(name) for name in SIZES} for t in range(steps)}


def run_of(outputs: Any, **facts: Any) -> tuple[cw.Trajectory, Any]:
    """A run and its examples, whose arrays are there."""
    run = cw.Trajectory.from_predictions(outputs, **facts)
    assert run.examples is not None
    return run, run.examples


def by_hand(outputs: Any) -> tuple[Any, Any]:
    """Correctness and NLL of every row, literally."""
    correct, nll = [], []
    for z, y in zip(*outputs[:2], strict=True):
        z = z.astype(np.float64)
        correct.append(z[y] == max(z) and list(z).index(max(z)) == y)
        nll.append(-(z[y] - np.log(np.exp(z - max(z)).sum()) - max(z)))
    return np.array(correct), np.array(nll)


def test_examples_say_what_the_rows_say() -> None:
    outputs = saved()
    run, examples = run_of(outputs)
    assert run.correct is not None
    assert examples.domains == run.domains
    assert examples.has_logits
    for e, name in enumerate(run.domains):
        for t, step in enumerate(run.steps.tolist()):
            correct, nll = by_hand(outputs[step][name])
            assert np.array_equal(examples.correct[e][t], correct)
            np.testing.assert_allclose(examples.nll[e][t], nll, rtol=1e-12)
            np.testing.assert_array_equal(examples.logits(step)[name][0], outputs[step][name][0])
        assert np.array_equal(examples.labels[e], outputs[0][name][1])
        assert np.array_equal(examples.correct[e].sum(axis=1), run.correct[:, e])
    assert examples.groups is None


def test_a_predictions_folder_has_the_same_examples(tmp_path: Path) -> None:
    outputs = saved(1, grouped=True)
    for step, domains in outputs.items():
        folder = tmp_path / f"step-{step:06d}"
        folder.mkdir()
        for name, (z, y, g) in domains.items():
            np.savez(folder / f"{name}.npz", logits=z, labels=y, groups=g)
    read: Any = cw.load(tmp_path).examples
    here = run_of(outputs)[1]
    assert read.digest == here.digest
    for e in range(2):
        assert np.array_equal(read.correct[e], here.correct[e])
        assert np.array_equal(read.nll[e], here.nll[e])
        assert np.array_equal(read.groups[e], here.groups[e])
        same = read.groups[e][:, None] == read.groups[e][None, :]
        given = outputs[0][read.domains[e]][2]
        assert np.array_equal(same, given[:, None] == given[None, :])
    logits, labels = read.logits(100)["art"]
    assert np.array_equal(logits, outputs[100]["art"][0])
    assert np.array_equal(labels, outputs[100]["art"][1])


def test_groups_by_name_are_numbers() -> None:
    names = {"art": [f"site {i // 3}" for i in range(30)], "photo": list(range(17))}
    _, examples = run_of(saved(), groups=names)
    assert examples.groups[0].tolist() == [i // 3 for i in range(30)]
    assert examples.groups[1].tolist() == list(range(17))


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ({"art": [0] * 30}, "missing: photo"),
        ({"art": [0] * 30, "photo": [0] * 16}, "value: 17"),
        ({"art": [0] * 30, "photo": [0.5] * 17}, "value"),
        ([0, 1], "value: {domain"),
    ],
)
def test_groups_that_do_not_fit_are_refused(groups: Any, expected: str) -> None:
    with refused(expected):
        cw.Trajectory.from_predictions(saved(), groups=groups)


def test_groups_that_change_between_steps_are_refused() -> None:
    outputs = saved(grouped=True)
    z, y, g = outputs[200]["art"]
    outputs[200]["art"] = (z, y, np.where(np.arange(len(g)) == 3, 99, g))
    with refused("differs: groups … 'art' … 200"):
        cw.Trajectory.from_predictions(outputs)


@pytest.mark.parametrize("lacking", [0, 100, 300])
def test_groups_at_some_steps_alone_are_refused(lacking: int, tmp_path: Path) -> None:
    outputs = saved(grouped=True)
    outputs[lacking]["art"] = outputs[lacking]["art"][:2]
    said = f"groups of the examples of domain 'art' at every step.*step {lacking} has none"
    with pytest.raises(InputError, match=said):
        cw.Trajectory.from_predictions(outputs)
    for step, domains in outputs.items():
        folder = tmp_path / f"step-{step:06d}"
        folder.mkdir()
        for name, arrays in domains.items():
            named = dict(zip(("logits", "labels", "groups"), arrays, strict=False))
            np.savez(folder / f"{name}.npz", **named)
    with pytest.raises(InputError, match=said):
        cw.load(tmp_path)


def test_a_diverged_checkpoint_has_nothing_correct() -> None:
    outputs = saved()
    outputs[100]["art"][0][3, 2] = np.nan
    run, examples = run_of(outputs)
    assert run.diverged.tolist() == [False, True, False, False]
    for e in range(2):
        assert not examples.correct[e][1].any()
        assert np.isnan(examples.nll[e][1]).all()
        assert np.isfinite(examples.nll[e][[0, 2, 3]]).all()


def test_marking_a_checkpoint_diverged_empties_its_row() -> None:
    run, examples = run_of(saved())
    marked: Any = replace(run, diverged=np.array([True, False, False, False])).examples
    assert not marked.correct[0][0].any()
    assert examples.correct[0][0].any()


def test_a_subset_has_the_rows_of_its_steps() -> None:
    _, examples = run_of(saved())
    some = examples.subset([100, 300])
    assert some.steps.tolist() == [100, 300]
    assert np.array_equal(some.correct[1], examples.correct[1][[1, 3]])
    assert np.array_equal(some.nll[1], examples.nll[1][[1, 3]])
    assert some.has_logits


def test_examples_do_not_change_the_digest_of_a_run() -> None:
    run = cw.Trajectory.from_predictions(saved())
    assert replace(run, examples=None).digest == run.digest


def test_examples_of_another_run_are_refused() -> None:
    (run, examples), (_, others) = (run_of(saved(seed)) for seed in (0, 1))
    with refused("differs: 'art' … 0"):
        replace(run, examples=others)
    with refused("differs"):
        replace(run, examples=examples.subset([0, 100]))
    fewer = Outcomes(tuple(one[:, :-1] for one in examples.correct))
    with refused("differs: 30 … 'art' … 29"):
        replace(run, examples=Examples(domains=run.domains, steps=run.steps, outcomes=fewer))


def test_lazy_examples_are_read_once_and_then_checked() -> None:
    (run, examples), (_, others) = (run_of(saved(seed)) for seed in (0, 1))
    asked: list[int] = []

    def read() -> Outcomes:
        asked.append(1)
        return Outcomes(others.correct if len(asked) == 1 else examples.correct)

    lazy = Examples(domains=run.domains, steps=run.steps, outcomes=read)
    attached: Any = replace(run, examples=lazy).examples
    assert not asked
    with refused("differs"):
        _ = attached.correct
    lazy = Examples(domains=run.domains, steps=run.steps, outcomes=read)
    attached = replace(run, examples=lazy).examples
    assert np.array_equal(attached.correct[0], examples.correct[0])
    assert attached.nll is None
    assert len(asked) == 2


def test_the_order_of_domains_does_not_change_the_digest() -> None:
    run, examples = run_of(saved())
    order = (1, 0)
    turned = Examples(
        domains=tuple(run.domains[e] for e in order),
        steps=run.steps,
        outcomes=Outcomes(tuple(examples.correct[e] for e in order)),
    )
    assert turned.digest == examples.digest


def test_reports_have_no_examples() -> None:
    report: Any = cw.metrics.evaluate(logits=3 * np.eye(3), labels=[0, 1, 2])
    assert cw.Trajectory.from_predictions({0: {"val": report}}).examples is None
    assert cw.Trajectory(steps=[1], domains=["val"], values={"accuracy": [[0.5]]}).examples is None


def test_probabilities_have_examples_without_logits() -> None:
    p = np.array([[0.75, 0.25], [0.5, 0.5]])
    _, examples = run_of({0: {"val": (p, [0, 1])}}, kind="probs")
    assert examples.correct[0].tolist() == [[True, False]]
    assert not examples.has_logits
    with refused("missing"):
        examples.logits(0)


def test_groups_of_some_validation_sets_alone_are_refused() -> None:
    logits, labels = 3 * np.eye(3)[[0, 1, 2, 0]], np.array([0, 1, 2, 1])
    live = cw.LiveSelector(tolerance="paired")
    with refused("differs: 1"):
        live.add(1, {"art": (logits, labels, [0, 0, 1, 1]), "photo": (logits, labels)})
    assert live.choice is None
