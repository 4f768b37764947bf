"""Empirical risk minimisation."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from checkwise.train.algorithms.base import Algorithm, Forward


class ERM(Algorithm):
    """Minimise the mean cross-entropy over the rows of all domains together."""

    def objective(self, forward: Forward) -> tuple[Tensor, dict[str, Tensor]]:
        loss = cross_entropy(forward.logits, forward.labels)
        return loss, {"loss": loss, "nll": loss}
