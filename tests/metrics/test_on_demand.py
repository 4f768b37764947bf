"""Smooth and debiased calibration errors: their definitions, relplot's answers, where they work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import checkwise as cw
from checkwise.metrics import METRICS
from checkwise.metrics.debiased import top_label_gap
from checkwise.metrics.smooth_ece import cosine_coefficients, error_at, smooth_ece
from tests.metrics.golden.make import BANDWIDTHS, CASES
from tests.refusals import refused
from tests.selection.validated import predictions

GOLDEN = Path(__file__).parent / "golden" / "relplot.npz"


def literal_error(said: np.ndarray, right: np.ndarray, bandwidth: float) -> float:
    """∫ |r̂| with every mirror image of every example, on a fine grid."""
    t = (np.arange(8000) + 0.5) / 8000
    smoothed = np.zeros(len(t))
    for u, r in zip(said, right - said, strict=True):
        for images in range(-3, 4):
            for centre in (2 * images + u, 2 * images - u):
                smoothed += r * np.exp(-(((t - centre) / bandwidth) ** 2) / 2)
    return float(np.abs(smoothed).mean() / (len(said) * bandwidth * np.sqrt(2 * np.pi)))


@pytest.mark.parametrize("bandwidth", [0.01, 0.1, 0.7])
def test_the_smooth_error_is_its_definition(bandwidth: float) -> None:
    random = np.random.default_rng(1)
    said = np.concatenate([random.random(25), [0.0, 1.0]])
    right = (random.random(27) < 0.6).astype(float)
    waves = cosine_coefficients(said, right - said)
    assert error_at(waves, bandwidth) == pytest.approx(
        literal_error(said, right, bandwidth), abs=2e-6
    )


@pytest.mark.parametrize("case", list(CASES))
def test_the_smooth_error_agrees_with_relplot(case: str) -> None:
    """relplot evaluates on a coarse mesh and finds the bandwidth to 0.001."""
    with np.load(GOLDEN) as golden:
        said, right = golden[f"{case}|said"], golden[f"{case}|right"]
        waves = cosine_coefficients(said, right - said)
        ours = [error_at(waves, bandwidth) for bandwidth in BANDWIDTHS]
        assert ours == pytest.approx(golden[f"{case}|at"].tolist(), rel=0.01, abs=1e-4)
        found = smooth_ece(said, right - said)
        assert found == pytest.approx(float(golden[f"{case}|smece"]), rel=0.02, abs=1e-3)
    assert error_at(waves, found) == pytest.approx(found, rel=1e-3)  # its own bandwidth


def test_a_small_smooth_error_is_found_too() -> None:
    said = np.full(1000, 0.5)
    right = np.arange(1000) % 2
    assert smooth_ece(said, right - said) == pytest.approx(0, abs=1e-12)
    right[:3] = 1  # two more right than said: 0.002
    assert smooth_ece(said, right - said) == pytest.approx(0.002, abs=1e-9)


def test_the_debiased_error_of_the_top_label_is_its_definition() -> None:
    random = np.random.default_rng(0)
    probs = random.dirichlet(np.ones(3), 80)
    labels = random.integers(0, 3, 80)
    expected = 0.0
    top, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    for b in range(15):
        inside = (b / 15 < top) & (top <= (b + 1) / 15)
        if inside.sum() > 1:
            a = correct[inside].mean()
            gap = (a - top[inside].mean()) ** 2 - a * (1 - a) / (inside.sum() - 1)
            expected += inside.sum() / 80 * gap
    assert top_label_gap(probs, labels) == pytest.approx(expected, abs=1e-12)
    assert cw.metrics.debiased_ece(probs=probs, labels=labels) == pytest.approx(max(0, expected))


def test_on_demand_metrics_are_in_no_record_unless_a_rule_asks() -> None:
    wanted = [name for name, metric in METRICS.items() if metric.on_demand]
    assert wanted == ["smece", "debiased_ece", "debiased_cwece"]
    saved = predictions(checkpoints=5)
    run = cw.Trajectory.from_predictions(saved)
    assert not set(wanted) & set(run.metrics)
    for name in wanted:
        chosen = cw.select(run, "ac", objectives=[name], delta_pp=20)
        by_hand = {
            step: np.mean([METRICS[name](logits=z, labels=y) for z, y in domains.values()])
            for step, domains in saved.items()
            if step in chosen.feasible_steps
        }
        assert chosen.step == min(by_hand, key=lambda step: (by_hand[step], step))
        assert cw.select_many({"a": run}, "ac", objectives=[name], delta_pp=20)["a"].step == (
            chosen.step
        )
    with refused("missing: smece"):
        cw.select(replace(run, examples=None), "ac", objectives=["smece"])
