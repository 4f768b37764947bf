"""Cross-entropy plus a penalty whose weight jumps at the anneal step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from checkwise.train.algorithms.base import Algorithm, Forward


class Annealed(Algorithm):
    """Minimise mean_e CE_e + λ_t·penalty, with λ_t = 1 before the anneal step and λ from it on.

    Adam restarts at the anneal step: its moments belong to the old weight.
    """

    weight_name: ClassVar[str]
    anneal_name: ClassVar[str]

    def __init__(
        self, featurizer: nn.Module, classifier: nn.Module, hparams: Mapping[str, float]
    ) -> None:
        super().__init__(featurizer, classifier, hparams)
        self.restart_at = int(hparams[self.anneal_name])

    @abstractmethod
    def nll_and_penalty(self, forward: Forward) -> tuple[Tensor, Tensor]:
        """The mean over domains of the cross-entropy, and the penalty before its weight."""

    def penalty_weight(self) -> float:
        """λ_t of the next update."""
        annealed = self.update_count >= self.hparams[self.anneal_name]
        return self.hparams[self.weight_name] if annealed else 1.0

    def objective(self, forward: Forward) -> tuple[Tensor, dict[str, Tensor]]:
        nll, penalty = self.nll_and_penalty(forward)
        loss = nll + self.penalty_weight() * penalty
        return loss, {"loss": loss, "nll": nll, "penalty": penalty}
