"""Builds the parts of a run from its configuration: data, network, algorithm, sampler, splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from checkwise.data import DomainDataset, MinibatchSampler, split
from checkwise.data.manifest import Progress
from checkwise.errors import InputError
from checkwise.train.algorithms import Algorithm, build_algorithm
from checkwise.train.config import NetworkConfig, RunConfig
from checkwise.train.evaluation import Part
from checkwise.train.hparams import Kind
from checkwise.train.inputs import Indices, Inputs, build_inputs
from checkwise.train.networks import (
    Network,
    digits_network,
    linear_head,
    mlp_head,
    trainable_part,
)
from checkwise.train.networks.extract import backbone_named, freeze

_TAKES = {"digits": ("digits",), "mlp": ("features",), "linear": ("features",)}


@dataclass(frozen=True, eq=False)
class TrainingData:
    """A data set ready for training: opened, frozen part applied, as tensors.

    ``kind`` decides which hyperparameters apply: a frozen backbone leaves features.
    """

    dataset: DomainDataset
    inputs: Inputs
    network: NetworkConfig
    kind: Kind
    device: str


def default_device() -> str:
    """CUDA where there is any."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def prepare(
    dataset: DomainDataset,
    network: NetworkConfig,
    *,
    augmented: bool = False,
    device: str | None = None,
    progress: Progress | None = None,
) -> TrainingData:
    """Apply the frozen part (cached) and turn the examples into inputs of the network."""
    place = default_device() if device is None else device
    check_kind(network, dataset.kind, dataset.name)
    ready = freeze(dataset, network, device=place, progress=progress)
    backbone = backbone_named(network.backbone) if ready.kind == "images" else None
    return TrainingData(
        dataset=ready,
        inputs=build_inputs(ready, place, backbone=backbone, augmented=augmented),
        network=network,
        kind=hparams_kind(dataset.kind, network),
        device=place,
    )


def check_kind(network: NetworkConfig, kind: Kind, name: str) -> None:
    """Refuse a network that does not take the examples of a data set."""
    wanted = _TAKES.get(network.kind, ("images",))
    if kind not in wanted:
        fitting = {"digits": "digits", "features": "mlp or linear", "images": "backbone"}
        raise InputError(
            f"Expected {' or '.join(wanted)} for the network {network.kind!r}, but got {kind} in "
            f"{name}: use the network {fitting[kind]}."
        )


def hparams_kind(kind: Kind, network: NetworkConfig) -> Kind:
    """Which hyperparameters apply: an MLP head on a frozen backbone is a head on features."""
    return "features" if network.kind == "backbone" and network.tune == "head" else kind


def build_run(config: RunConfig, data: TrainingData) -> tuple[Algorithm, MinibatchSampler]:
    """The algorithm and the sampler of a run at its start; seeds torch's generator."""
    torch.manual_seed(config.training_seed if config.init_seed is None else config.init_seed)
    network = _network(config, data)
    if config.init_seed is not None:
        torch.manual_seed(config.training_seed)
    algorithm = build_algorithm(
        config.key.algorithm,
        network.featurizer.to(data.device),
        network.classifier.to(data.device),
        config.hparams,
    )
    pools = source_pools(config, data.dataset)
    batch = int(config.hparams["batch_size"])
    return algorithm, MinibatchSampler(pools, batch_size=batch, seed=config.training_seed)


def source_domains(config: RunConfig, dataset: DomainDataset) -> list[int]:
    """Indices of the domains that are trained on."""
    held_out = [dataset.domain_index(name) for name in config.key.held_out]
    check_sources(config.key.held_out, dataset.domains, dataset.name)
    return [d for d in range(len(dataset.domains)) if d not in held_out]


def check_sources(held_out: Sequence[str], domains: Sequence[str], name: str) -> None:
    """Refuse to hold out every domain of a data set."""
    if set(domains) <= set(held_out):
        raise InputError(
            f"Expected at least one source domain, but all of {', '.join(domains)} are held out "
            f"of {name}: hold out fewer domains."
        )


def source_pools(config: RunConfig, dataset: DomainDataset) -> list[Indices]:
    """The rows of every source domain that are trained on: its `in` split."""
    return [inside for _, inside, _ in _splits(config, dataset, source=True)]


def evaluated_parts(config: RunConfig, dataset: DomainDataset) -> list[Part]:
    """Every source `out` split, every held-out domain's `in` split, with `source_in` also those."""

    def part(role: str, domain: int, rows: Indices) -> Part:
        labels = dataset.y[domain][rows]
        return Part(role, dataset.domains[domain], domain, rows, labels)  # type: ignore[arg-type]

    sources = list(_splits(config, dataset, source=True))
    parts = [part("source", domain, out) for domain, _, out in sources]
    if config.source_in:
        parts += [part("source_in", domain, inside) for domain, inside, _ in sources]
    targets = _splits(config, dataset, source=False)
    return parts + [part("heldout", domain, inside) for domain, inside, _ in targets]


def _splits(
    config: RunConfig, dataset: DomainDataset, *, source: bool
) -> list[tuple[int, Indices, Indices]]:
    sources = source_domains(config, dataset)
    splits = []
    for domain, size in enumerate(dataset.sizes):
        if (domain in sources) == source:
            inside, out = split(
                size,
                domain_index=domain,
                trial_seed=config.key.trial_seed,
                holdout=config.holdout,
            )
            splits.append((domain, inside, out))
    return splits


def _network(config: RunConfig, data: TrainingData) -> Network:
    dropout = float(config.hparams.get("resnet_dropout", 0.0))
    classes = data.dataset.num_classes
    network = config.network
    if network.kind == "digits":
        return digits_network(classes, channels=data.dataset.x[0].shape[-1])
    if network.kind == "backbone" and network.tune != "head":
        backbone = backbone_named(network.backbone)
        return trainable_part(
            backbone,
            network.tune,
            classes,
            dropout=dropout,
            freeze_bn=network.freeze_bn,
            bn_momentum=network.bn_momentum,
            channels_last=network.channels_last,
        )
    width = data.dataset.x[0].shape[-1]
    if network.kind == "linear":
        return linear_head(width, classes, dropout=dropout)
    return mlp_head(width, classes, hidden=network.hidden, dropout=dropout)
