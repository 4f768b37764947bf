"""Calibrations of several source domains, and selection after recalibrating."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

import checkwise as cw
from checkwise.calibrators import Fitted, fit, fit_temperature
from checkwise.calibrators.isotonic import ISOTONIC
from checkwise.calibrators.temperature import scaled
from checkwise.calibrators.ts_domains import Likeness
from checkwise.metrics import Logits, entries
from checkwise.records import RunKey, Trajectory
from checkwise.store import read_run
from checkwise.study.folder import write_run
from checkwise.study.protocols import WALD_RECALIBRATED, with_recalibrated_ece
from tests.refusals import refused
from tests.requirements import package

SETTINGS: dict[str, Any] = {"bins": 15, "bandwidth": 0.1}


def pair(stretch: float, rights: int, n: int = 8, shift: float = 0.0) -> tuple[Any, Any]:
    """n examples with logit ``stretch`` for the first class, of which ``rights`` belong to it."""
    z = np.zeros((n, 3), dtype=np.float32)
    z[:, 0] = stretch
    z[:, 2] = -50.0 + shift + np.where(np.arange(n) % 2, 1, -1)  # a class that never is
    return z, np.array([0] * rights + [1] * (n - rights))


def graded(stretch: float, rights: int, n: int = 8) -> tuple[Any, Any]:
    """The same n labels always; the first ``rights`` are predicted rightly, by ``stretch``."""
    y = np.arange(n) % 2
    guess = np.where(np.arange(n) < rights, y, 1 - y)
    return (stretch * np.eye(2)[guess]).astype(np.float32), y


def forced(logits: Logits, name: str) -> Fitted:
    return fit(logits, name, force=True)


DOMAINS: Logits = {"a": pair(2.0, 6), "b": pair(2.0, 7, shift=20.0)}


def test_three_kinds_of_temperature_by_hand() -> None:
    # p(first) has to be 6/8 in a and 7/8 in b, so T_a = 2 / log 3 and T_b = 2 / log 7.
    t_a, t_b = 2 / np.log(3), 2 / np.log(7)
    assert forced(DOMAINS, "ts").temperature == pytest.approx(2 / np.log(13 / 3))
    assert forced(DOMAINS, "ts-multi").temperature == pytest.approx((t_a + t_b) / 2)
    weighted = forced(DOMAINS, "ts-weighted")
    # Logits tell the domains apart, so each example gets its own domain's temperature.
    for domain, t in (("a", t_a), ("b", t_b)):
        z = DOMAINS[domain][0]
        np.testing.assert_allclose(weighted.apply(z), scaled(z, t), rtol=1e-6)
    between = np.concatenate([z for z, _ in DOMAINS.values()]).mean(axis=0, keepdims=True)
    np.testing.assert_allclose(weighted.apply(between), scaled(between, (t_a + t_b) / 2), rtol=1e-6)


def test_one_source_domain_makes_all_of_them_equal() -> None:
    alone = {"a": DOMAINS["a"]}
    nll = [
        forced(alone, name).metrics(alone, **SETTINGS)["a"]["nll"]
        for name in ("ts", "ts-multi", "ts-weighted")
    ]
    assert nll == pytest.approx([nll[0]] * 3)


def test_a_domain_without_an_optimum_has_no_say_in_the_mean() -> None:
    separable: Logits = {**DOMAINS, "c": pair(2.0, 8)}
    fitted = forced(separable, "ts-multi")
    assert fitted.temperature == pytest.approx(forced(DOMAINS, "ts-multi").temperature)
    assert fitted.conditions[-1].startswith("c has no finite temperature: every example")
    assert forced({"c": pair(2.0, 8)}, "ts-multi").temperature == 1.0


def test_shares_are_those_of_a_linear_discriminant() -> None:
    sklearn = package("sklearn.discriminant_analysis")
    random = np.random.default_rng(0)
    logits: Logits = {
        str(d): (
            (random.normal(d, 1 + 0.1 * d, size=(300, 4)) * np.arange(4)).astype(np.float32),
            np.zeros(300, np.int64),
        )
        for d in range(3)
    }
    ours = Likeness.of(logits)
    x = np.concatenate([z - z.mean(axis=1, keepdims=True) for z, _ in logits.values()])
    names = np.repeat(sorted(logits), 300)
    theirs = sklearn.LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1, priors=[1 / 3] * 3)
    theirs.fit(x, names)
    # Theirs standardises each domain before shrinking; the order of likeness is what must agree.
    ours_best = ours.shares(np.concatenate([z for z, _ in logits.values()])).argmax(axis=1)
    assert (ours_best == theirs.predict_proba(x).argmax(axis=1)).mean() > 0.97
    np.testing.assert_allclose(ours.shares(logits["1"][0]).sum(axis=1), 1)


@pytest.mark.parametrize("name", ["ts", "ts-multi", "ts-weighted"])
def test_predictions_do_not_change(name: str) -> None:
    random = np.random.default_rng(1)
    logits: Logits = {}
    for domain in "abc":
        z = random.normal(0, 5, (200, 6)).astype(np.float32)
        y = (z / 3 + random.gumbel(size=z.shape)).argmax(axis=1)  # drawn from softmax(z / 3)
        logits[domain] = z, y
    before = entries(logits, **SETTINGS)
    after = fit(logits, name).metrics(logits, **SETTINGS)
    for domain in logits:
        for metric in ("n", "correct", "accuracy", "worst_class_accuracy"):
            assert before[domain][metric] == after[domain][metric]
        assert after[domain]["nll"] < before[domain]["nll"]


def save(folder: Path, step: int, logits: Logits) -> None:
    path = folder / "predictions" / "source" / f"step-{step:06d}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {
        f"{d}.{kind}": a
        for d, p in logits.items()
        for kind, a in zip(("logits", "labels"), p, strict=True)
    }
    np.savez(path, **arrays)


def test_saved_source_logits_are_read_and_faults_named(tmp_path: Path) -> None:
    write_run(tmp_path, RunKey("PACS", "ERM", ("sketch",), 0, 0), {})
    with refused('missing: step-000100 … npz … `logits = "source"`'):
        read_run(tmp_path).predictions().logits(100)
    save(tmp_path, 100, DOMAINS)
    assert sorted(read_run(tmp_path).predictions().logits(100)) == ["a", "b"]
    save(tmp_path, 100, {"sketch": DOMAINS["a"]})
    with refused("held-out: held-out"):
        read_run(tmp_path).predictions().logits(100)
    (tmp_path / "predictions/source/step-000100.npz").write_bytes(b"PK nonsense")
    with refused("damaged"):
        read_run(tmp_path).predictions().logits(100)


def recorded(saved: dict[int, Logits]) -> Trajectory:
    return Trajectory.from_predictions(saved)


def test_wald_recalibrated_by_hand() -> None:
    # Both steps are right as often; step 1 is overconfident by a constant factor, which scaling
    # takes away entirely, while step 2 errs in opposite directions in the two domains.
    saved: dict[int, Logits] = {
        1: {"a": graded(6.0, 6), "b": graded(6.0, 6)},
        2: {"a": graded(1.386, 7), "b": graded(1.386, 5)},
    }
    run = recorded(saved)
    plain = cw.select(run, "ac-ece", guard=False)
    assert plain.step == 2
    again = with_recalibrated_ece(run, saved.__getitem__)
    chosen = cw.select(again, WALD_RECALIBRATED, guard=False)
    assert chosen.step == 1
    assert again.values["ece"][0] == pytest.approx([0, 0], abs=1e-12)
    t = fit_temperature(*(np.concatenate(p) for p in zip(*saved[2].values(), strict=True))).value
    z, y = saved[2]["a"]
    expected = cw.metrics.ece(logits=z.astype(float) / t, labels=y)
    assert again.values["ece"][1, 0] == pytest.approx(expected)
    # With an absolute threshold the candidates are all that reach it.
    assert cw.select(again, WALD_RECALIBRATED, threshold_pp=75).step == 1
    with refused("empty: threshold_pp … 90"):
        with_recalibrated_ece(run, saved.__getitem__, threshold_pp=90)


def test_wald_isotonic_is_scikit_learns_regression_per_class() -> None:
    random = np.random.default_rng(7)
    y = random.integers(0, 3, 90)
    z = (2.5 * random.normal(size=(90, 3)) + 2 * np.eye(3)[y]).astype(np.float32)
    logits: Logits = {"a": (z[:50], y[:50]), "b": (z[50:], y[50:])}
    again = with_recalibrated_ece(
        recorded({1: logits}), {1: logits}.__getitem__, calibrator=ISOTONIC
    )
    p = np.exp(z.astype(float)) / np.exp(z.astype(float)).sum(axis=1, keepdims=True)
    level = np.stack(
        [IsotonicRegression().fit(p[:, c], y == c).predict(p[:, c]) for c in range(3)], axis=1
    )
    after = level / level.sum(axis=1, keepdims=True) * 90 / 91 + 1 / (3 * 91)
    for k, part in enumerate((slice(0, 50), slice(50, 90))):
        expected = cw.metrics.ece(probs=after[part], labels=y[part])
        assert again.values["ece"][0, k] == pytest.approx(expected, rel=1e-5)


def test_only_candidates_are_opened() -> None:
    saved: dict[int, Logits] = {1: {"a": graded(6.0, 6)}, 2: {"a": graded(0.9, 2)}}
    opened: list[int] = []

    def at(step: int) -> Logits:
        opened.append(step)
        return saved[step]

    with_recalibrated_ece(recorded(saved), at)
    assert opened == [1]


def test_without_recalibration_and_with_a_relative_threshold_wald_is_ac_ece() -> None:
    random = np.random.default_rng(4)
    for _ in range(20):
        accuracy = random.integers(80, 100, (12, 2)) / 100
        run = Trajectory(
            steps=np.arange(12),
            domains=["a", "b"],
            counts=[100, 100],
            values={"accuracy": accuracy, "ece": random.uniform(size=(12, 2))},
        )
        assert cw.select(run, WALD_RECALIBRATED).step == cw.select(run, "ac-ece").step
        best = 100 * accuracy.mean(axis=1).max()
        threshold = f"{best - 0.5:.4f}"
        assert cw.select(run, "wald", threshold_pp=threshold).step == cw.select(run, "ac-ece").step


def test_the_recalibrated_run_keeps_everything_else() -> None:
    saved: dict[int, Logits] = {1: {"a": graded(6.0, 6)}, 2: {"a": graded(0.9, 6)}}
    run = recorded(saved)
    again = with_recalibrated_ece(run, partial(saved.__getitem__))
    back = replace(again, values={**again.values, "ece": run.values["ece"]})
    assert back.digest == run.digest
