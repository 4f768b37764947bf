"""Builds the parts of a run from its configuration: data, network, algorithm, sampler, splits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from checkwise.errors import InputError
from checkwise.study.data import (
    DomainDataset,
    Kind,
    MinibatchSampler,
    Progress,
    SourceSplit,
    source_splits,
    target_rows,
)
from checkwise.study.train.algorithms import Algorithm, build_algorithm
from checkwise.study.train.backbone import Network, linear_head, mlp_head, trainable_part
from checkwise.study.train.config import NetworkConfig, RunConfig
from checkwise.study.train.evaluation import (
    Indices,
    Inputs,
    Part,
    Role,
    build_inputs,
    validation_roles,
)
from checkwise.study.train.extract import backbone_named, freeze
from checkwise.study.train.networks import digits_network


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
        kind=ready.kind if network.kind == "backbone" and network.tune == "head" else dataset.kind,
        device=place,
    )


def check_kind(network: NetworkConfig, kind: Kind, name: str) -> None:
    takes = {"digits": "digits", "mlp": "features", "linear": "features", "backbone": "images"}
    if kind != takes[network.kind]:
        fitting = {"digits": "digits", "features": "mlp or linear", "images": "backbone"}
        raise InputError(
            f"Expected {takes[network.kind]} for the network {network.kind!r}, but got {kind} in "
            f"{name}: use the network {fitting[kind]}.",
            code="unsupported",
        )


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


def source_pools(config: RunConfig, dataset: DomainDataset) -> list[Indices]:
    return [part.train for part in splits_of(config, dataset)]


def splits_of(config: RunConfig, dataset: DomainDataset) -> list[SourceSplit]:
    return source_splits(
        dataset,
        config.key.held_out,
        split_by=config.split_by,
        trial_seed=config.key.trial_seed,
        holdout=config.holdout,
    )


def evaluated_parts(config: RunConfig, dataset: DomainDataset) -> list[Part]:
    """Every validation set, with `source_in` also what is trained on, then what is held out."""

    def part(role: Role, name: str, domain: int, rows: Indices) -> Part:
        groups = dataset.groups[domain][rows] if dataset.groups else None
        return Part(role, name, domain, rows, dataset.y[domain][rows], groups=groups)

    sources = [(dataset.domains[split.domain], split) for split in splits_of(config, dataset)]
    parts = []
    for number, role in enumerate(validation_roles(config)):
        for name, split in sources:
            rows = [*split.validation.values()][number]
            parts.append(part(role, name, split.domain, rows))
    if config.source_in:
        parts += [part("source_in", name, split.domain, split.train) for name, split in sources]
    # In the order of the data set: the last bits of logits depend on their place in a batch.
    for name in sorted(config.key.held_out, key=dataset.target_index):
        domain, rows = target_rows(
            dataset, name, trial_seed=config.key.trial_seed, holdout=config.holdout
        )
        held_out = part("heldout", name, domain, rows)
        parts.append(replace(held_out, split="all") if dataset.places else held_out)
    return parts


def _network(config: RunConfig, data: TrainingData) -> Network:
    dropout = float(config.hparams.get("resnet_dropout", 0.0))
    classes, width = data.dataset.num_classes, data.dataset.x[0].shape[-1]
    network = config.network
    if network.kind == "digits":
        return digits_network(classes, channels=width)
    if network.kind == "linear":
        return linear_head(width, classes, dropout=dropout)
    if network.kind == "mlp" or network.tune == "head":
        return mlp_head(width, classes, hidden=network.hidden, dropout=dropout)
    return trainable_part(
        backbone_named(network.backbone),
        network.tune,
        classes,
        dropout=dropout,
        freeze_bn=network.freeze_bn,
        bn_momentum=network.bn_momentum,
        channels_last=network.channels_last,
    )
