"""Other bins: errors against their definitions, and choices against the rule written out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkwise.errors import InputError
from checkwise.metrics import class_wise_gap
from checkwise.store import source_predictions_file
from checkwise.study import Cohort, Pool
from checkwise.study.tables import build
from checkwise.study.tables.every_table import SLOW
from checkwise.study.tables.from_logits import DEBIASED, HARD, SOFT, VARIANTS
from tests.figures.saved_logits import made
from tests.metrics import reference
from tests.refusals import refused
from tests.study.cohorts import WrittenRun, key, mark_again, write_cohort

Array = np.ndarray[Any, np.dtype[Any]]

SCALES = (0.6, 0.8, 1.0, 1.2, 1.4, 1.7)
STEPS = tuple(range(100, 701, 100))
RUNS = 4


def slow_debiased(p: Array, y: Array, bins: int) -> float:
    """The definition, class by class, bin by bin, example by example."""
    n, classes = p.shape
    parts = []
    for c in range(classes):
        for b in range(1, bins + 1):
            inside = [
                i
                for i in range(n)
                if (b - 1) / bins < p[i, c] <= b / bins or (b == 1 and not p[i, c])
            ]
            if len(inside) < 2:
                continue
            frequency = sum(y[i] == c for i in inside) / len(inside)
            confidence = sum(p[i, c] for i in inside) / len(inside)
            chance = frequency * (1 - frequency) / (len(inside) - 1)
            parts.append(len(inside) / n * ((frequency - confidence) ** 2 - chance))
    return float(sum(parts) / classes)


@pytest.mark.parametrize(("n", "classes", "bins"), [(1, 2, 15), (60, 3, 15), (200, 7, 4)])
def test_the_debiased_error_is_its_definition(n: int, classes: int, bins: int) -> None:
    z, y = made(n, n, classes, 2.0)
    expected = slow_debiased(reference.softmax(z), y, bins)
    assert class_wise_gap(reference.softmax(z), y, bins) == pytest.approx(expected, abs=1e-12)


def test_debiased_bins_are_closed_above() -> None:
    random = np.random.default_rng(3)
    p = random.multinomial(4, [0.5, 0.3, 0.2], 200) / 4  # exactly on the edges of four bins
    y = random.integers(0, 3, 200)
    assert class_wise_gap(p, y, 4) == pytest.approx(slow_debiased(p, y, 4), abs=1e-12)


def test_the_debiased_error_is_right_on_average() -> None:
    """Two kinds of predictions, one perfectly calibrated, the other off by 0.2."""
    random = np.random.default_rng(0)
    said, true = np.repeat([0.3, 0.9], [10, 20]), np.repeat([0.3, 0.7], [10, 20])
    p = np.stack([1 - said, said], axis=1)
    draws = random.random((4000, 30)) < true
    found = [class_wise_gap(p, y.astype(np.int64)) for y in draws]
    error = np.std(found) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(20 / 30 * 0.2**2, abs=4 * error)
    assert error < 0.001  # what chance adds to the plain squared gap is ten times that


def outputs(trial: int, t: int) -> tuple[Array, Array]:
    """Logits of a run's t-th checkpoint: all but the last get the same examples right."""
    z, y = made(trial, 200, 5, 1.0)
    noise = np.random.default_rng(100 * trial + t).normal(scale=0.02, size=z.shape)
    if t == len(SCALES):
        return -z, y
    return (SCALES[t] * z + _harmless(z, noise)).astype(np.float32), y


def _harmless(z: Array, noise: Array) -> Array:
    """Noise where it changes no prediction."""
    same = (z + noise / min(SCALES)).argmax(1) == z.argmax(1)
    return np.where(same[:, None], noise, 0.0)


def written(trial: int, bins: int = 15, bandwidth: float = 0.1) -> WrittenRun:
    """A run whose journal says what its logits say, in both source domains."""
    found = [
        reference.evaluate(y, logits=z, bins=bins, bandwidth=bandwidth)
        for z, y in (outputs(trial, t) for t in range(len(STEPS)))
    ]
    random = np.random.default_rng(trial)
    return WrittenRun(
        key("ERM", trial),
        STEPS,
        [round(200 * entry["accuracy"]) for entry in found],
        {name: [entry[name] for entry in found] for name in ("nll", "cwece", "ece")},
        random.integers(30, 60, len(STEPS)).tolist(),
        {"nll": random.uniform(1, 2, len(STEPS)).tolist()},
        extra={"bins": bins, "bandwidth": bandwidth},
    )


def save(folder: Path, run: WrittenRun) -> None:
    for t, step in enumerate(run.steps):
        z, y = outputs(run.key.trial_seed, t)
        arrays = {f"{d}.logits": z for d in run.domains} | {f"{d}.labels": y for d in run.domains}
        path = folder / source_predictions_file(step)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **arrays)  # type: ignore[arg-type]
    mark_again(folder)


@pytest.fixture
def runs() -> list[WrittenRun]:
    return [written(trial) for trial in range(RUNS)]


@pytest.fixture
def cohort(tmp_path: Path, runs: list[WrittenRun]) -> Cohort:
    """Runs with their logits, and one without."""
    lacking = replace(runs[0], key=key("IRM", 0))
    path = write_cohort(tmp_path / "binned", [*runs, lacking])
    for run in runs:
        save(path / "runs" / str(run.key), run)
    return Cohort.open(path)


def error_of(variant: str, z: Array, y: Array) -> float:
    if variant == DEBIASED:
        return slow_debiased(reference.softmax(z), y, 15)
    bins, bandwidth = SOFT.get(variant, (15, 0.1))
    found = reference.evaluate(y, logits=z, bins=bins, bandwidth=bandwidth)
    return found["hard_cwece" if variant == HARD else "cwece"]


def ranked_by(variant: str, trial: int) -> int:
    """The rule written out: every checkpoint but the last is feasible and equally accurate."""
    saved = [outputs(trial, t) for t in range(len(SCALES))]
    errors = np.array(
        [[reference.nll_from_logits(z, y), error_of(variant, z, y)] for z, y in saved]
    )
    low, high = errors.min(axis=0), errors.max(axis=0)
    distance = ((errors - low) / (high - low + 1e-12)).max(axis=1)
    return int(distance.argmin())


def test_choices_follow_the_error_they_are_ranked_by(
    cohort: Cohort, runs: list[WrittenRun]
) -> None:
    table = build("binning", cohort)
    usual = [ranked_by("B = 15, h = 0.1", trial) for trial in range(RUNS)]
    counts = {}
    for variant in VARIANTS:
        chosen = [ranked_by(variant, trial) for trial in range(RUNS)]
        counts[variant] = sum(a != b for a, b in zip(chosen, usual, strict=True))
        moved = table.cell(variant, "ac-nc", measure="choices_changed")
        assert (moved.value, moved.n) == (counts[variant], RUNS)
        for reference_at, name in ((usual, "ac-nc"), ([0] * RUNS, "source-acc")):
            nll = [
                run.target["nll"][a] - run.target["nll"][b]
                for run, a, b in zip(runs, chosen, reference_at, strict=True)
            ]
            accuracy = [
                run.target_correct[a] - run.target_correct[b]
                for run, a, b in zip(runs, chosen, reference_at, strict=True)
            ]
            row = (variant, name)
            assert table.value(*row, measure="target_nll") == pytest.approx(np.mean(nll))
            assert table.value(*row, measure="target_nll_median") == pytest.approx(np.median(nll))
            assert table.value(*row, measure="target_accuracy") == pytest.approx(np.mean(accuracy))
    assert counts["B = 15, h = 0.1"] == 0
    assert len(set(counts.values())) > 2  # the runs are such that bins matter


def test_it_says_how_many_runs_it_could_use(cohort: Cohort) -> None:
    assert build("binning", cohort).note.startswith(f"{RUNS} of {RUNS + 1} runs have")
    assert "binning" in SLOW


def test_only_logits_of_feasible_checkpoints_are_needed(cohort: Cohort) -> None:
    before = build("binning", cohort)
    files = [
        cohort.path / "runs" / str(key("ERM", trial)) / source_predictions_file(step)
        for trial, step in ((0, STEPS[-1]), (1, STEPS[2]))
    ]
    files[0].unlink()
    assert build("binning", Cohort.open(cohort.path)) == before
    files[1].unlink()
    after = build("binning", Cohort.open(cohort.path))
    assert after.cell(HARD, "source-acc", measure="target_nll").n == RUNS - 1


def test_logits_of_another_run_are_refused(cohort: Cohort, runs: list[WrittenRun]) -> None:
    folder = cohort.path / "runs" / str(key("ERM", 0))
    save(folder, replace(runs[1], domains=("art", "photo")))
    with refused("damaged: correct of 'art' … step-000100.npz"):
        build("binning", cohort)
    save(folder, replace(runs[0], domains=("art", "cartoon")))
    with refused("damaged: 100"):
        build("binning", cohort)


def surer(z: Array, y: Array) -> tuple[Array, Array]:
    """Every prediction as before, a little more confident."""
    return (1.001 * z).astype(np.float32), y


def turned(z: Array, y: Array) -> tuple[Array, Array]:
    """Every other example with its classes turned by one: the same p[y], other classes."""
    half = np.arange(len(y)) % 2 == 0
    return np.where(half[:, None], np.roll(z, 1, axis=1), z), np.where(half, (y + 1) % 5, y)


@pytest.mark.parametrize(("other", "name"), [(surer, "nll"), (turned, "cwece")])
def test_logits_with_as_many_right_are_refused_for_what_else_they_say(
    cohort: Cohort, other: Callable[[Array, Array], tuple[Array, Array]], name: str
) -> None:
    folder = cohort.path / "runs" / str(key("ERM", 0))
    path = folder / source_predictions_file(STEPS[1])
    with np.load(path) as saved:
        arrays = dict(saved)
    z, y = other(arrays["photo.logits"], arrays["photo.labels"])
    np.savez(path, **{**arrays, "photo.logits": z, "photo.labels": y})
    mark_again(folder)
    expected = rf"journal of {key('ERM', 0)} .* step 200 {name} \S+ of 'photo', recorded as"
    with pytest.raises(InputError, match=expected):
        build("binning", cohort)


@pytest.mark.parametrize(("bins", "bandwidth"), [(10, 0.1), (12, 0.3)])
def test_the_recorded_error_is_repeated_with_the_settings_it_was_recorded_with(
    tmp_path: Path, bins: int, bandwidth: float
) -> None:
    run = written(0, bins, bandwidth)
    path = write_cohort(tmp_path / "other", [run])
    save(path / "runs" / str(run.key), run)
    table = build("binning", Cohort.open(path))
    assert table.cell(HARD, "source-acc", measure="target_nll").n == 1


def test_without_logits_there_is_no_table(tmp_path: Path, runs: list[WrittenRun]) -> None:
    pool = Pool([Cohort.open(write_cohort(tmp_path / "bare", runs))])
    with refused("missing"):
        build("binning", pool)
