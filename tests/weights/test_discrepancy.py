"""Distances between domains, and the checkpoints chosen by them or on mixtures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import checkwise as cw
from checkwise.study.baselines import OpenRun, across_domains, read_record, read_source
from checkwise.study.baselines.across_domains import coral, mmd
from checkwise.study.baselines.evaluate import open_data, open_run
from checkwise.study.folder import open_cohort
from tests.refusals import refused
from tests.weights.cohorts import copied, derive, run_folders


def test_mmd_by_hand() -> None:
    # Rows 0, 2 | 4: squared distances 4, 16, 4, the median 4, so the kernel is exp(−d²/4).
    k = np.exp(-np.array([1.0, 4.0, 1.0]))
    inside = (1 + 1 + 2 * k[0]) / 4
    across = (k[1] + k[2]) / 2
    found = mmd([np.array([[0.0], [2.0]]), np.array([[4.0]])])
    assert found == pytest.approx(inside + 1 - 2 * across)


def test_coral_by_hand() -> None:
    # Variances 2 and 8 of rows whose common standard deviation is √2.5·…: computed directly.
    a, b = np.array([[0.0], [2.0]]), np.array([[0.0], [4.0]])
    scale = np.concatenate([a, b]).std()
    assert coral([a, b]) == pytest.approx(((2 - 8) / scale**2) ** 2 / 4)


@pytest.mark.parametrize("measure", [mmd, coral])
def test_discrepancies_ignore_scale_and_order_and_grow_with_distance(measure: object) -> None:
    random = np.random.default_rng(0)
    parts = [random.normal(size=(20, 3)) * (d + 1) for d in range(3)]
    value = measure(parts)  # type: ignore[operator]
    assert value == pytest.approx(measure([7.0 * p for p in parts]))  # type: ignore[operator]
    assert value == pytest.approx(measure(parts[::-1]))  # type: ignore[operator]
    assert measure([parts[0]] * 3) == pytest.approx(0, abs=1e-12)  # type: ignore[operator]
    assert measure([parts[0], 5 * parts[0]]) > measure([parts[0], 2 * parts[0]])  # type: ignore[operator]
    constant = [np.zeros((4, 2)), np.zeros((3, 2))]
    assert measure(constant) == 0  # type: ignore[operator]


@pytest.fixture
def opened(cohort: Path) -> OpenRun:
    record = open_cohort(cohort)
    key = next(iter(record.runs))
    return open_run(record, key, open_data(record, key.dataset, {}))


def step_of(notes: tuple[str, ...]) -> int:
    return int(notes[0].split()[1])


@pytest.mark.parametrize(("method", "measure"), [("lyu-mmd", mmd), ("lyu-coral", coral)])
def test_lyu_takes_low_loss_then_risk_plus_discrepancy(
    cohort: Path, opened: OpenRun, method: str, measure: object
) -> None:
    folder = opened.folder
    record = next(r for r in derive(folder, method).records if r.run == opened.key)
    run = cw.load(str(folder))
    loss = run.values["nll"].mean(axis=1)
    low = np.flatnonzero(loss <= 1.1 * loss.min())
    assert record.inputs["candidates"] == run.steps[low].tolist()
    apart = []
    for t in low.tolist():
        opened.load(load_file(folder / "checkpoints" / f"step-{run.steps[t]:06d}.safetensors"))
        features = across_domains.source_features(opened)
        assert sorted(features) == sorted(run.domains)
        apart.append(measure(list(features.values())))  # type: ignore[operator]

    def unit(values: np.ndarray) -> np.ndarray:
        width = np.ptp(values)
        return (values - values.min()) / (width + 1e-12) if width else 0 * values

    best = low[int(np.argmin(unit(loss[low]) + unit(np.array(apart))))]
    assert step_of(tuple(record.notes)) == run.steps[best]
    # The result is that checkpoint's own record.
    line = json.loads((folder / "source.jsonl").read_text().splitlines()[best])
    assert read_source(cohort, method, opened.key)["domains"] == line["domains"]
    assert not (cohort / "derived" / method / str(opened.key) / "weights.safetensors").exists()


@pytest.mark.parametrize("by", ["acc", "loss"])
def test_mixup_takes_the_best_on_mixtures(cohort: Path, opened: OpenRun, by: str) -> None:
    method = f"mixup-{by}"
    record = next(r for r in derive(opened.folder, method).records if r.run == opened.key)
    scores = []
    for step in record.inputs["candidates"]:
        opened.load(load_file(opened.folder / "checkpoints" / f"step-{step:06d}.safetensors"))
        judged = [
            across_domains.judge(opened.algorithm.predict(m.x), m)
            for m in across_domains.mix(opened)
        ]
        accuracy, loss = np.mean(judged, axis=0)
        scores.append(-accuracy if by == "acc" else loss)
    assert step_of(tuple(record.notes)) == record.inputs["candidates"][int(np.argmin(scores))]


def test_mixtures_are_of_validation_rows_and_the_same_every_time(opened: OpenRun) -> None:
    first, second = across_domains.mix(opened), across_domains.mix(opened)
    domains = len(opened.source_parts)
    assert len(first) == domains * (domains - 1) // 2
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.share, b.share)
    one, other = opened.source_parts[:2]
    rows = opened.data.inputs.rows(one.index, one.rows)
    others = opened.data.inputs.rows(other.index, other.rows)
    x, share = first[0].x[0], first[0].share[0]
    mixed = share * rows[:, None] + (1 - share) * others[None]
    assert (mixed - x).abs().flatten(2).amax(dim=2).min() < 1e-6


def test_judging_a_mixture_by_hand() -> None:
    mixture = across_domains.Mixture(
        torch.zeros(2, 1), torch.tensor([0.75, 0.5]), torch.tensor([0, 1]), torch.tensor([1, 1])
    )
    accuracy, loss = across_domains.judge(
        torch.log(torch.tensor([[0.8, 0.2], [0.6, 0.4]])), mixture
    )
    assert accuracy == pytest.approx((0.75 + 0.0) / 2)
    expected = -(0.75 * np.log(0.8) + 0.25 * np.log(0.2) + np.log(0.4)) / 2
    assert loss == pytest.approx(expected, rel=1e-6)


def test_weights_that_were_not_kept_are_named(cohort: Path, tmp_path: Path) -> None:
    spoiled = copied(cohort, tmp_path)
    run = run_folders(spoiled)[0]
    for file in (run / "checkpoints").iterdir():
        file.unlink()
    with refused('missing: "all"'):
        derive(run, "mixup-acc", force=True)


def test_a_second_call_does_nothing_and_one_domain_is_refused(cohort: Path) -> None:
    folder = run_folders(cohort)[0]
    derive(folder, "lyu-mmd")
    again = derive(folder, "lyu-mmd")
    assert not again.made
    key = open_cohort(cohort)
    assert read_record(cohort, "lyu-mmd", next(iter(key.runs))) is not None
