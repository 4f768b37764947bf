"""The mean of several checkpoints, one in memory at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from checkwise.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


def average(
    checkpoints: Iterable[tuple[Mapping[str, Tensor], int]], *, parameters: Collection[str]
) -> dict[str, Tensor]:
    """Average ``parameters`` in float64, each checkpoint counted as often as it says.

    All other tensors (BatchNorm statistics, counters) are those of the first checkpoint. The mean
    is taken of the differences to the first, so equal checkpoints give exactly themselves.
    """
    import torch

    wide = torch.float64
    first: dict[str, Tensor] = {}
    excess: dict[str, Tensor] = {}
    total = 0
    for tensors, times in checkpoints:
        if times < 1:
            raise InputError(f"Expected multiplicities of at least 1, but got {times}.")
        if not first:
            first = dict(tensors)
            _check_names(first, parameters)
            excess = {name: torch.zeros_like(first[name], dtype=wide) for name in parameters}
        else:
            _check_alike(first, tensors, parameters)
            for name in parameters:
                difference = tensors[name].to(wide) - first[name].to(wide)
                excess[name].add_(difference, alpha=times)
        total += times
    if not total:
        raise InputError("Expected at least one checkpoint to average, but got none.", code="empty")
    means = {
        name: (first[name].to(wide) + excess[name] / total).to(first[name].dtype)
        for name in parameters
    }
    return {**{name: tensor.clone() for name, tensor in first.items()}, **means}


def _check_names(tensors: Mapping[str, Tensor], parameters: Collection[str]) -> None:
    absent = sorted(set(parameters) - set(tensors))
    if absent:
        raise InputError(
            f"Expected a checkpoint with {absent[0]!r}, but it has {len(tensors)} other tensors: "
            "average checkpoints of one network.",
            code="differs",
        )
    whole = [name for name in parameters if not tensors[name].is_floating_point()]
    if whole:
        raise InputError(
            f"Expected floating-point parameters, but {whole[0]!r} is not one.", code="unsupported"
        )


def _check_alike(
    first: Mapping[str, Tensor], other: Mapping[str, Tensor], parameters: Collection[str]
) -> None:
    _check_names(other, parameters)
    for name in parameters:
        if other[name].shape != first[name].shape:
            raise InputError(
                f"Expected checkpoints of one network, but {name!r} has the shapes "
                f"{tuple(first[name].shape)} and {tuple(other[name].shape)}: leave one out.",
                code="differs",
            )
