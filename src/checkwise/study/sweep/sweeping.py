"""A sweep: what is checked and estimated before it plans or trains anything, and its run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from checkwise.errors import CheckwiseError, InputError
from checkwise.plugins import Plugin
from checkwise.records import RunKey
from checkwise.study.data import (
    EMBEDDED,
    Progress,
    check_sources,
    from_arrays,
    list_images,
    source_splits,
    split,
    target_rows,
)
from checkwise.study.folder import (
    RETRIES,
    STALE_SECONDS,
    CohortRecord,
    clear_published,
    record_steps,
)
from checkwise.study.sweep.executors import LocalExecutor, get_executor
from checkwise.study.sweep.launching import Ended, Executor, ExecutorSettings, run_workers
from checkwise.study.sweep.planning import (
    begin_round,
    check_held_out,
    check_place,
    image_domains,
    kind_of,
    open_spec,
    root_of,
    run_config,
)
from checkwise.study.sweep.progress import RunStatus, Watched, cohort_status
from checkwise.study.sweep.study import DataSpec, Study
from checkwise.study.sweep.worker import Job, prepare_caches
from checkwise.study.train import (
    RESUME_SECONDS,
    TrainingData,
    backbone_named,
    build_inputs,
    build_run,
    check_kind,
    extractor,
    frozen_part,
    prepare,
)


def check_sweep(
    study: Study,
    roots: Mapping[str, str],
    *,
    settings: ExecutorSettings,
    out: Path | None,
    absent: tuple[str, ...] = (),
) -> Executor:
    """Make every check that needs no training, and return the executor.

    ``absent`` names data sets that were not found: only their kind is checked.
    """
    launcher = get_executor(settings)
    for spec in study.data:
        check_kind(study.network, kind_of(spec), spec.name)
        if spec.name not in absent:
            _check_splits(study, spec, roots)
    if study.network.kind == "backbone":
        frozen_part(backbone_named(study.network.backbone), study.network.tune)
    if out is not None:
        check_place(study, out)
    return launcher


def _check_splits(study: Study, spec: DataSpec, roots: Mapping[str, str]) -> None:
    """Split as some run would: what is too small, or lacks groups, shows. No image is read."""
    seeds: dict[str, Any] = {"trial_seed": 0, "holdout": study.holdout}
    if kind_of(spec) == "images":
        sizes = image_domains(spec, roots)
        check_held_out(spec, tuple(sizes))
        for names in spec.held_out or [(domain,) for domain in sizes]:
            check_sources(names, sorted({*sizes} - {*names}), spec.name)
        for index, (domain, size) in enumerate(sizes.items()):
            try:
                split(size, domain_index=index, **seeds)
            except InputError as error:
                where = f"domain {domain!r} of {spec.name}"
                raise InputError(f"{error} ({where})", code=error.code) from None
        return
    dataset = open_spec(spec, roots)
    check_held_out(spec, dataset.targets)
    for names in spec.held_out or [(name,) for name in dataset.targets]:
        source_splits(dataset, names, split_by=study.split_by, **seeds)
        for name in names:
            target_rows(dataset, name, **seeds)


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended, and the signal that stopped it, or 0."""

    runs: tuple[RunStatus, ...]
    interrupted: int

    def count(self, *states: str) -> int:
        return sum(run.state in states for run in self.runs)


def prepare_with(
    executor: Executor,
    cohort: CohortRecord,
    study: Study,
    roots: Mapping[str, str],
    *,
    plugins: Sequence[Plugin] = (),
    progress: Progress | None = None,
) -> None:
    """Prepare the caches here if workers run on this machine, else with one worker, on its GPU."""
    if isinstance(executor, LocalExecutor):
        prepare_caches(study, roots, progress=progress)
        return
    frozen = study.network.kind == "backbone" and study.network.tune != "all"
    if frozen or any(kind_of(spec) == "images" for spec in study.data):
        ended = run_workers(executor, _job(cohort, "", roots, plugins, only_prepare=True), 1)
        if ended.interrupted:
            raise KeyboardInterrupt(ended.interrupted)
        if ended.failures:
            raise CheckwiseError(ended.failures[0])


def _job(
    cohort: CohortRecord,
    round_: str,
    roots: Mapping[str, str],
    plugins: Sequence[Plugin],
    **limits: Any,
) -> Job:
    sources = {plugin.source: plugin.sha256 for plugin in plugins}
    return Job(str(cohort.path.absolute()), round_, dict(roots), plugins=sources, **limits)


def run_sweep(
    cohort: CohortRecord,
    executor: Executor,
    *,
    workers: int,
    roots: Mapping[str, str],
    resume_seconds: float = RESUME_SECONDS,
    takeover: float = STALE_SECONDS,
    retries: int = RETRIES,
    plugins: Sequence[Plugin] = (),
    watch: Callable[[Sequence[RunStatus]], None] = lambda runs: None,
) -> SweepResult:
    """Train the runs that are not finished; ``watch`` is called about twice a second.

    Workers load ``plugins`` before they train. SIGINT and SIGTERM ask the workers to save their
    state and end.
    """
    open_runs = [run for run in cohort_status(cohort) if run.state != "finished"]
    ended = Ended()
    if open_runs:
        limits = {"resume_seconds": resume_seconds, "takeover": takeover, "retries": retries}
        job = _job(cohort, begin_round(cohort.path, roots), roots, plugins, **limits)
        watched = Watched(cohort)
        count = min(workers, len(open_runs))
        ended = run_workers(executor, job, count, watch=lambda: watch(watched.look()))
        clear_published(cohort.path)
    result = SweepResult(tuple(cohort_status(cohort)), ended.interrupted)
    # Another worker may have trained the runs of one that died: only unfinished runs count.
    left = result.count("finished", "failed") < len(result.runs)
    if ended.failures and not ended.interrupted and left:
        raise CheckwiseError(ended.failures[0])
    return result


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
