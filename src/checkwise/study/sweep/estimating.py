"""Estimates the time and disk of a study from a few timed updates on random examples."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch

from checkwise.records import RunKey
from checkwise.study.data import EMBEDDED, DomainDataset, from_arrays, list_images
from checkwise.study.folder import record_steps
from checkwise.study.sweep.datasets import open_spec, root_of
from checkwise.study.sweep.planning import run_config
from checkwise.study.sweep.study import DataSpec, Study
from checkwise.study.train import backbone_named, build_run, extractor, frozen_part, prepare

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
    torch.set_num_threads(1)  # as in a worker
    sizes, classes, shape, kind = _shape(study, spec, roots)
    examples = _made_up(shape, len(sizes), classes, kind)
    network = study.network
    if network.kind == "backbone" and network.tune == "head":
        network = replace(network, kind="mlp")
    data = prepare(examples, network) if kind != "activations" else _activations(study, examples)
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
    evaluated = validated + _held_out(study, spec, max(sizes))
    weights = sum(t.numel() * t.element_size() for t in algorithm.deployable_state().values())
    saved_share = {"all": 1.0, "feasible": FEASIBLE_SHARE, "none": 0.0}[study.keep]
    per_row = {
        "none": 0.0,
        "outcomes": validated * _OUTCOME_BYTES,
        "source-half": validated * (2 * classes + _OUTCOME_BYTES),
        "source": validated * 4 * classes,
        "all": evaluated * 4 * classes,
    }
    logits_bytes = per_row[study.logits]
    per_record = weights * saved_share + _LINE_BYTES * len(sizes) + logits_bytes
    preparing = 0.0
    if study.network.kind == "backbone" and study.network.tune != "all":
        preparing = sum(sizes) * _extraction_seconds(study, spec)
    per_run = study.steps * update + records * (evaluated * evaluate + 0.03)
    return Estimate(per_run, per_run, preparing, records * per_record / 1e9)


def _held_out(study: Study, spec: DataSpec, largest: int) -> float:
    """Examples of a held-out domain, or place, that are evaluated."""
    return largest * (1 - study.holdout) if spec.places is None else largest / spec.places


def _shape(
    study: Study, spec: DataSpec, roots: Mapping[str, str]
) -> tuple[tuple[int, ...], int, tuple[int, ...], str]:
    """Sizes of the domains, number of classes, shape and kind of one example, nothing decoded."""
    if spec.dataset in (*EMBEDDED, "Features"):
        opened = open_spec(spec, roots)
        return opened.sizes, opened.num_classes, opened.x[0].shape[1:], opened.kind
    folder = list_images(spec.dataset, root_of(spec, roots) or "")
    sizes = tuple(len(labels) for labels in folder.labels)
    backbone = backbone_named(study.network.backbone)
    part = frozen_part(backbone, study.network.tune, size=spec.size)
    if part.module is None:
        side = part.shape[-1]
        return sizes, len(folder.classes), (side, side, 3), "images"
    kind = "features" if study.network.tune == "head" else "activations"
    return sizes, len(folder.classes), part.shape, kind


def _extraction_seconds(study: Study, spec: DataSpec) -> float:
    """Time of one image in the frozen part of the backbone, on one core."""
    network = study.network
    side = spec.size or backbone_named(network.backbone).size
    images = np.zeros((_EXTRACTED, side, side, 3), dtype=np.uint8)
    extract = extractor(network.backbone, network.tune, "cpu")
    return _seconds(lambda: extract(images)) / _EXTRACTED


def _made_up(shape: tuple[int, ...], domains: int, classes: int, kind: str) -> DomainDataset:
    random = np.random.default_rng(0)
    rows = 2 * _ROWS

    def examples() -> np.ndarray[Any, np.dtype[Any]]:
        if kind in ("digits", "images"):
            return random.integers(0, 255, (rows, *shape), dtype=np.uint8)
        return random.standard_normal((rows, prod(shape)), dtype=np.float32).reshape(rows, *shape)

    labels = np.arange(rows) % classes
    return from_arrays(
        "made-up",
        {str(d): (examples(), labels) for d in range(domains)},
        kind="features" if kind == "activations" else kind,  # type: ignore[arg-type]
        classes=[str(c) for c in range(classes)],
    )


def _activations(study: Study, examples: DomainDataset) -> Any:
    from checkwise.study.train import TrainingData, build_inputs

    inputs = build_inputs(examples, "cpu", backbone=None, augmented=False)
    return TrainingData(examples, inputs, study.network, "images", "cpu")


def _seconds(work: Callable[[], object], *, at_least: float = 0.3) -> float:
    work()
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < at_least:
        work()
        count += 1
    return (time.perf_counter() - began) / count
