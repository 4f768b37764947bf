"""Invariant risk minimisation, version 1."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from checkwise.train.algorithms.annealed import Annealed
from checkwise.train.algorithms.base import Forward
from checkwise.train.algorithms.domains import domain_means, domain_rows, require_two_rows


class IRM(Annealed):
    """Penalise domains whose loss would fall if the logits were rescaled.

    The penalty of a domain is g_even·g_odd with g = ∂/∂w CE(w·z) at w = 1 over its even and its
    odd rows: an unbiased estimate of the squared gradient, which may be negative. The penalty
    is the mean over domains.

    The derivative has a closed form. For one row Σ_c (p_c − [c=y])·z_c, and since
    z_c = log p_c + logsumexp(z), this is cross-entropy minus entropy:
    −log p_y + Σ_c p_c·log p_c. So one ordinary backward pass suffices.
    """

    reads: ClassVar[tuple[str, ...]] = ("irm_lambda", "irm_penalty_anneal_iters")
    weight_name: ClassVar[str] = "irm_lambda"
    anneal_name: ClassVar[str] = "irm_penalty_anneal_iters"

    def nll_and_penalty(self, forward: Forward) -> tuple[Tensor, Tensor]:
        require_two_rows("IRM", forward.sizes)
        log_p = torch.log_softmax(forward.logits, 1)
        losses = nll_loss(log_p, forward.labels, reduction="none")
        slopes = losses + (log_p.exp() * log_p).sum(1)
        nll = domain_means(losses, forward.sizes).mean()
        return nll, even_odd_product(slopes, forward.sizes)


def even_odd_product(slopes: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The mean over domains of mean(slopes of even rows)·mean(slopes of odd rows)."""
    if len(set(sizes)) == 1:
        by_domain = slopes.view(len(sizes), -1)
        return (by_domain[:, ::2].mean(1) * by_domain[:, 1::2].mean(1)).mean()
    products = [part[::2].mean() * part[1::2].mean() for part in domain_rows(slopes, sizes)]
    return torch.stack(products).mean()
