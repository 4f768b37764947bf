"""A run on two validation sets, from which trackers log a selection."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import checkwise as cw
from checkwise import calibrators

STEPS = (100, 200, 300, 400)


def predictions(*, diverging: int | None = None) -> dict[int, dict[str, tuple[Any, Any]]]:
    """Step → set → logits and labels; the temperature is best at step 200."""
    draw = np.random.default_rng(0)
    labels = {"a": draw.integers(0, 3, 50), "b": draw.integers(0, 3, 70)}
    noise = {name: draw.normal(size=(len(y), 3)) for name, y in labels.items()}
    outputs: dict[int, dict[str, tuple[Any, Any]]] = {}
    for step, scale in zip(STEPS, (0.3, 1.0, 4.0, 9.0), strict=True):
        outputs[step] = {
            name: (scale * (1.5 * np.eye(3)[y] + noise[name]), y) for name, y in labels.items()
        }
    if diverging is not None:
        logits, y = outputs[diverging]["a"]
        outputs[diverging]["a"] = (np.full_like(logits, np.nan), y)
    return outputs


def selection(folder: Path | None = None, **options: Any) -> cw.Selection:
    """The choice under ``ac-nc``; with a folder, weights of every step are there."""
    live = cw.LiveSelector("ac-nc", delta_pp=2, journal=folder and folder / "checkwise.jsonl")
    for step, sets in predictions(**options).items():
        live.add(step, sets)
        if folder is not None:
            (folder / f"{step}.pt").write_bytes(bytes(step))
            live.saved(step, folder / f"{step}.pt")
    live.close()
    chosen = live.selection
    assert chosen is not None
    return chosen


def check_predictions(
    folder: Path, outputs: Mapping[int, Mapping[str, Any]], beside: tuple[str, ...] = ()
) -> None:
    """The folder holds these outputs, in half precision, and nothing else."""
    there = {place.name for place in folder.iterdir()}
    assert there == {*beside, *(f"step-{step:06d}" for step in outputs)}
    for step, domains in outputs.items():
        place = folder / f"step-{step:06d}"
        assert {file.stem for file in place.iterdir()} == set(domains)
        for name, (logits, labels) in domains.items():
            saved = np.load(place / f"{name}.npz")
            full = cw.metrics.per_example(logits=logits, labels=labels)
            assert np.array_equal(saved["logits"], np.asarray(logits).astype(np.float16))
            assert np.array_equal(saved["labels"], labels)
            assert np.array_equal(saved["correct"], full.correct)
            assert np.allclose(saved["nll"], full.nll, rtol=0, atol=1e-12)


def check_calibrator(file: Path, outputs: Mapping[int, Mapping[str, Any]], step: int) -> None:
    """The file holds ts-soften, fitted to the outputs of a step in half precision."""
    record = json.loads(file.read_text())
    half = {name: (np.asarray(z).astype(np.float16), y) for name, (z, y) in outputs[step].items()}
    assert record == {**record, **calibrators.fit(half, "ts-soften").to_dict(), "step": step}


def check_kept(run: Path, seen: Path, steps: Sequence[int]) -> cw.Selection:
    """A run kept the predictions and calibrator of the outputs in ``seen``; what they give."""
    files = {int(path.stem): dict(np.load(path)) for path in seen.glob("*.npz")}
    outputs = {
        step: {
            name: (files[step][f"{name}_logits"], files[step][f"{name}_labels"]) for name in "ab"
        }
        for step in steps
    }
    offline = cw.select(cw.Trajectory.from_predictions(outputs), "ac-nc", delta_pp=2)
    check_predictions(run / "predictions", outputs)
    check_calibrator(run / "calibrator.json", outputs, offline.step)
    return offline
