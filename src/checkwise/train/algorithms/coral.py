"""Correlation alignment of the domains' features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from checkwise.errors import InputError
from checkwise.train.algorithms.base import Algorithm, Forward
from checkwise.train.algorithms.domains import domain_losses, require_two_rows
from checkwise.train.algorithms.moments import moment_distance


class CORAL(Algorithm):
    """Minimise mean_e CE_e + γ·(mean over pairs of domains of the distance of their moments).

    The distance of domains i, j is mean((μ_i − μ_j)²) + mean((C_i − C_j)²), with μ the mean and
    C the covariance (divided by n − 1) of the featurizer's outputs.
    """

    reads: ClassVar[tuple[str, ...]] = ("mmd_gamma",)

    def __init__(
        self, featurizer: nn.Module, classifier: nn.Module, hparams: Mapping[str, float]
    ) -> None:
        super().__init__(featurizer, classifier, hparams)
        if not any(p.requires_grad for p in featurizer.parameters()):
            raise InputError(
                "Expected a trainable featurizer for CORAL, but got one without trainable "
                "parameters: its penalty would have no gradient and CORAL would equal ERM; use "
                "an MLP head, whose hidden layer is the featurizer.",
                code="unsupported",
            )

    def objective(self, forward: Forward) -> tuple[Tensor, dict[str, Tensor]]:
        require_two_rows("CORAL", forward.sizes)
        nll = domain_losses(forward).mean()
        penalty = moment_distance(forward.features, forward.sizes)
        loss = nll + self.hparams["mmd_gamma"] * penalty
        return loss, {"loss": nll, "nll": nll, "penalty": penalty}
