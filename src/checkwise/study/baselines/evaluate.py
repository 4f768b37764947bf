"""Finished runs with a network to put weights into, and what those weights give."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from checkwise.deployed import log_mean_probabilities, read_checkpoint
from checkwise.errors import InputError
from checkwise.plugins import check_loaded
from checkwise.records import RunKey
from checkwise.store import RUN_FILE, read_run
from checkwise.study.data import MinibatchSampler, Progress, seed_hash, source_domains
from checkwise.study.folder import CohortRecord
from checkwise.study.sweep import Study, open_spec
from checkwise.study.train import (
    Algorithm,
    Evaluator,
    Outputs,
    Part,
    RunConfig,
    TrainingData,
    build_run,
    check_same,
    evaluated_parts,
    heldout_entry,
    prepare,
    source_entry,
    source_pools,
)


def live_layers(network: nn.Module) -> list[_BatchNorm]:
    """The BatchNorm layers that learn statistics in training; fixed ones are not among them."""
    was_training = network.training
    network.train()
    layers = [
        layer
        for layer in network.modules()
        if isinstance(layer, _BatchNorm) and layer.training and layer.track_running_stats
    ]
    network.train(was_training)
    return layers


@torch.no_grad()
def reestimate(
    network: nn.Module, batches: Iterable[Tensor], forward: Callable[[Tensor], object]
) -> int:
    """Re-estimate the statistics of live layers from nothing; returns how many layers there are.

    Each statistic becomes the plain mean of the minibatches' means and unbiased variances
    (momentum None). The rest of the network is in evaluation mode, so dropout changes nothing.
    """
    layers = live_layers(network)
    if not layers:
        return 0
    network.eval()
    momenta = [layer.momentum for layer in layers]
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None
            layer.train()
        for batch in batches:
            forward(batch)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        network.eval()
    return len(layers)


KEPT_BYTES = 2**28  # bytes of kept outputs


class KeptOutputs:
    """Outputs of checkpoints that this process computed, the latest up to a size in bytes.

    Several methods average the same checkpoints, and evaluating one may take seconds. ``spared``
    counts them: what was computed once is part of the cost of every method that uses it.
    """

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._kept: OrderedDict[tuple[str, int], tuple[Outputs, float]] = OrderedDict()
        self.spared = 0.0

    def get(self, run: str, step: int) -> Outputs | None:
        """The outputs of a step of a run, if they are kept; a run is named by its digest."""
        outputs, seconds = self._kept.get((run, step), (None, 0.0))
        self.spared += seconds
        return outputs

    def keep(self, run: str, step: int, outputs: Outputs, seconds: float = 0.0) -> None:
        self._kept[run, step] = outputs, seconds
        while sum(z.nbytes for o, _ in self._kept.values() for z in o.logits) > self._limit:
            self._kept.popitem(last=False)


@dataclass(frozen=True, eq=False)
class OpenRun:
    """A finished run with its data and a network of its shape."""

    folder: Path
    config: RunConfig
    data: TrainingData
    kept: KeptOutputs = field(default_factory=KeptOutputs)

    @property
    def key(self) -> RunKey:
        return self.config.key

    @cached_property
    def algorithm(self) -> Algorithm:
        """A network to put weights into."""
        torch.set_num_threads(self.config.threads)
        return build_run(self.config, self.data)[0]

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of what is averaged: the network's parameters, no buffers, nothing of training."""
        deployed = self.algorithm.deployable_state()
        return tuple(name for name, _ in self.algorithm.named_parameters() if name in deployed)

    @cached_property
    def evaluator(self) -> Evaluator:
        return Evaluator(self.data.inputs, self.parts)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return tuple(evaluated_parts(self.config, self.data.dataset))

    @cached_property
    def source_parts(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.role == "source")

    def outputs(self, weights: Mapping[str, Tensor]) -> Outputs:
        self.load(weights)
        return self.evaluator(self.algorithm)

    def checkpoint_outputs(self, step: int) -> Outputs:
        """The logits of one of the run's checkpoints, computed once; its file is always checked."""
        weights = read_checkpoint(self.folder, step)
        outputs = self.kept.get(self.config.digest, step)
        if outputs is None:
            began = time.perf_counter()
            outputs = self.outputs(weights)
            seconds = time.perf_counter() - began
            self.kept.keep(self.config.digest, step, outputs, seconds)
        return outputs

    def entries(self, outputs: Outputs) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """What the journals would say: the source entry, and one per held-out domain."""
        held_out = {name: heldout_entry(outputs, name, self.config) for name in self.key.held_out}
        return source_entry(outputs, self.config), held_out

    def recalibrated(
        self, weights: Mapping[str, Tensor], minibatches: int
    ) -> tuple[dict[str, Tensor], int]:
        """The weights with BatchNorm statistics from source training data; how many layers."""
        self.load(weights)
        algorithm = self.algorithm
        layers = reestimate(
            algorithm, self._batches(minibatches), lambda x: algorithm.featurizer(x)
        )
        return algorithm.deployable_state(), layers

    def _batches(self, count: int) -> Iterator[Tensor]:
        """Minibatches like those of training, all domains together, from a seed of their own."""
        seed = seed_hash("batchnorm", self.config.training_seed)
        domains = source_domains(self.data.dataset, self.config.key.held_out)
        pools = source_pools(self.config, self.data.dataset)
        batch = int(self.config.hparams["batch_size"])
        sampler = MinibatchSampler(pools, batch_size=batch, seed=seed)
        for number in range(count):
            drawn = self.data.inputs.minibatches(domains, sampler.next(), random=(seed, number))
            yield torch.cat([x for x, _ in drawn])

    def load(self, weights: Mapping[str, Tensor]) -> None:
        expected = self.algorithm.deployable_state()
        other = sorted({*expected} ^ {*weights})
        if other:
            raise InputError(
                f"Expected weights of the network of {self.key}, but {other[0]!r} is on one side "
                "only: use weights of this run's network.",
                code="differs",
            )
        self.algorithm.load_state_dict(dict(weights), strict=False)


def mean_log_probabilities(outputs: list[Outputs]) -> Outputs:
    """Outputs whose softmax is the mean of the softmax of several outputs."""
    logits = tuple(
        log_mean_probabilities(parts) for parts in zip(*(o.logits for o in outputs), strict=True)
    )
    return Outputs(outputs[0].parts, logits)


def mean_logits(outputs: list[Outputs]) -> Outputs:
    logits = tuple(
        np.mean([z.astype(np.float64) for z in parts], axis=0).astype(np.float32)
        for parts in zip(*(o.logits for o in outputs), strict=True)
    )
    return Outputs(outputs[0].parts, logits)


def open_data(
    cohort: CohortRecord,
    dataset: str,
    roots: Mapping[str, str],
    *,
    progress: Progress | None = None,
) -> TrainingData:
    study = Study.from_dict(cohort.study)
    spec = next(spec for spec in study.data if spec.name == dataset)
    opened = open_spec(spec, roots, progress=progress)
    return prepare(opened, study.network, augmented=study.augment, progress=progress)


def open_run(
    cohort: CohortRecord, key: RunKey, data: TrainingData, kept: KeptOutputs | None = None
) -> OpenRun:
    """A run of a cohort on its data; other data than it was trained on are refused."""
    folder = cohort.runs[key]
    recorded = read_run(folder).config
    config = RunConfig.from_dict(recorded, folder / RUN_FILE)
    check_loaded(config.plugins, folder)
    here = replace(config, key=key, fingerprint=data.dataset.fingerprint, network=data.network)
    check_same(here, recorded, folder)
    return OpenRun(folder, replace(config, device=data.device), data, kept or KeptOutputs())


class OpenRuns:
    """Opens runs for several methods: a data set is read once, a checkpoint evaluated once."""

    def __init__(
        self, roots: Mapping[str, str] | None = None, kept: KeptOutputs | None = None
    ) -> None:
        self._roots = dict(roots or {})
        self._kept = kept or KeptOutputs()
        self._data: dict[tuple[Path, str], TrainingData] = {}

    def __call__(self, cohort: CohortRecord, key: RunKey) -> OpenRun:
        place = cohort.path, key.dataset
        if place not in self._data:  # one at a time: they may be large
            self._data = {place: open_data(cohort, key.dataset, self._roots)}
        return open_run(cohort, key, self._data[place], self._kept)
