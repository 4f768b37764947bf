"""Estimates the time and disk of a study from a few timed updates on random examples."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from checkwise.records import RunKey
from checkwise.study.data import EMBEDDED, from_arrays, list_images
from checkwise.study.folder import record_steps
from checkwise.study.sweep.planning import open_spec, root_of, run_config
from checkwise.study.sweep.study import DataSpec, Study
from checkwise.study.train import (
    TrainingData,
    backbone_named,
    build_inputs,
    build_run,
    extractor,
    frozen_part,
    prepare,
)

FEASIBLE_SHARE = 0.4  # of the checkpoints, as measured on frozen features
_OUTCOME_BYTES = 16.2  # of an example: NLL and label, and a bit
_LINE_BYTES = 260  # of one domain in a journal
_ROWS = 64
_EXTRACTED = 4  # images of a timed extraction


@dataclass(frozen=True)
class Estimate:
    """Time and disk of a study on this machine."""

    seconds: float
    seconds_per_run: float
    preparing: float
    gigabytes: float


def estimate(study: Study, runs: int, roots: Mapping[str, str], *, workers: int) -> Estimate:
    """Time a few updates on every data set of the study and scale them up."""
    by_dataset = [_of_one(study, spec, roots) for spec in study.data]
    seconds = sum(part.seconds_per_run for part in by_dataset) / len(by_dataset)
    preparing = sum(part.preparing for part in by_dataset) / workers
    return Estimate(
        seconds=runs * seconds / min(workers, runs) + preparing,
        seconds_per_run=seconds,
        preparing=preparing,
        gigabytes=runs * sum(part.gigabytes for part in by_dataset) / len(by_dataset),
    )


def _of_one(study: Study, spec: DataSpec, roots: Mapping[str, str]) -> Estimate:
    """One run; no image is decoded."""
    torch.set_num_threads(1)  # as in a worker
    network, preparing = study.network, 0.0
    if spec.dataset in (*EMBEDDED, "Features"):
        opened = open_spec(spec, roots)
        sizes, classes = opened.sizes, opened.num_classes
        shape, kind = opened.x[0].shape[1:], opened.kind
    else:
        folder = list_images(spec.dataset, root_of(spec, roots) or "")
        sizes, classes = tuple(len(labels) for labels in folder.labels), len(folder.classes)
        part = frozen_part(backbone_named(network.backbone), network.tune, size=spec.size)
        shape, kind = part.shape, "features"
        if part.module is None:
            shape, kind = (part.shape[-1], part.shape[-1], 3), "images"
        else:
            preparing = sum(sizes) * _extraction_seconds(study, spec)
    random, labels = np.random.default_rng(0), np.arange(2 * _ROWS) % classes

    def made_up() -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        size = (2 * _ROWS, *shape)
        if kind == "features":
            return random.standard_normal(size, dtype=np.float32)
        return random.integers(0, 255, size, dtype=np.uint8)

    examples = from_arrays(
        "made-up",
        {str(domain): (made_up(), labels) for domain in range(len(sizes))},
        kind=kind,
        classes=[str(number) for number in range(classes)],
    )
    if network.kind == "backbone" and network.tune == "head":
        network = replace(network, kind="mlp")
    if network.kind == "backbone" and kind == "features":  # activations
        inputs = build_inputs(examples, "cpu", backbone=None, augmented=False)
        data = TrainingData(examples, inputs, network, "images", "cpu")
    else:
        data = prepare(examples, network)
    key = RunKey("made-up", study.algorithms[0], (examples.domains[0],), 0, 0)
    config = run_config(replace(study, network=network, split_by="examples"), key, data)
    algorithm, sampler = build_run(config, data)
    sources = list(range(1, len(sizes)))
    update = _seconds(
        lambda: algorithm.update(data.inputs.minibatches(sources, sampler.next(), random=(0, 0)))
    )
    rows = np.arange(_ROWS)
    evaluate = _seconds(lambda: algorithm.predict(data.inputs.rows(0, rows))) / _ROWS
    records = len(record_steps(study.steps, study.record_every))
    validated = sum(sizes) * study.holdout * (2 if study.split_by == "both" else 1)
    held_out = 1 - study.holdout if spec.places is None else 1 / spec.places
    evaluated = validated + max(sizes) * held_out
    weights = sum(t.numel() * t.element_size() for t in algorithm.deployable_state().values())
    logits_bytes = {
        "none": 0.0,
        "outcomes": validated * _OUTCOME_BYTES,
        "source-half": validated * (2 * classes + _OUTCOME_BYTES),
        "source": validated * 4 * classes,
        "all": evaluated * 4 * classes,
    }[study.logits]
    saved_share = {"all": 1.0, "feasible": FEASIBLE_SHARE, "none": 0.0}[study.keep]
    per_record = weights * saved_share + _LINE_BYTES * len(sizes) + logits_bytes
    per_run = study.steps * update + records * (evaluated * evaluate + 0.03)
    return Estimate(per_run, per_run, preparing, records * per_record / 1e9)


def _extraction_seconds(study: Study, spec: DataSpec) -> float:
    network = study.network
    side = spec.size or backbone_named(network.backbone).size
    images = np.zeros((_EXTRACTED, side, side, 3), dtype=np.uint8)
    extract = extractor(network.backbone, network.tune, "cpu")
    return _seconds(lambda: extract(images)) / _EXTRACTED


def _seconds(work: Callable[[], object], *, at_least: float = 0.3) -> float:
    work()
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < at_least:
        work()
        count += 1
    return (time.perf_counter() - began) / count
