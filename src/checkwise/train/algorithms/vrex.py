"""Variance risk extrapolation."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from checkwise.train.algorithms.annealed import Annealed
from checkwise.train.algorithms.base import Forward
from checkwise.train.algorithms.domains import domain_losses


class VREx(Annealed):
    """Penalise the population variance of the domains' cross-entropies, mean_e (CE_e − C̄E)²."""

    reads: ClassVar[tuple[str, ...]] = ("vrex_lambda", "vrex_penalty_anneal_iters")
    weight_name: ClassVar[str] = "vrex_lambda"
    anneal_name: ClassVar[str] = "vrex_penalty_anneal_iters"

    def nll_and_penalty(self, forward: Forward) -> tuple[Tensor, Tensor]:
        losses = domain_losses(forward)
        nll = losses.mean()
        return nll, (losses - nll).square().mean()
