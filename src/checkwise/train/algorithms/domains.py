"""Rows, means and losses inside each source domain."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from checkwise.errors import InputError
from checkwise.train.algorithms.base import Forward


def domain_rows(rows: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Views of the rows of each domain."""
    return torch.split_with_sizes(rows, sizes)


def domain_means(rows: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The mean of `rows` [N] inside each domain, [E]."""
    if len(set(sizes)) == 1:
        return rows.view(len(sizes), -1).mean(1)
    return torch.stack([part.mean() for part in domain_rows(rows, sizes)])


def domain_losses(forward: Forward) -> Tensor:
    """The mean cross-entropy of each domain, [E]."""
    rows = cross_entropy(forward.logits, forward.labels, reduction="none")
    return domain_means(rows, forward.sizes)


def require_two_rows(algorithm: str, sizes: tuple[int, ...]) -> None:
    """Refuse minibatches of a single row, for which the penalty is undefined."""
    if min(sizes) < 2:
        raise InputError(
            f"Expected at least 2 rows per domain for {algorithm}, but got minibatches of "
            f"{list(sizes)}: raise batch_size.",
            code="unsupported",
        )
