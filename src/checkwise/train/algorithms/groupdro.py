"""Group distributionally robust optimisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from checkwise.errors import InputError
from checkwise.train.algorithms.base import Algorithm, Forward
from checkwise.train.algorithms.domains import domain_losses


class GroupDRO(Algorithm):
    """Minimise Σ_e q_e·CE_e, where q leans towards the domains of high loss.

    Before each step q_e ← q_e·exp(η·CE_e), then q is normalised; it starts uniform.
    q shapes training only and is no part of the deployable weights.
    """

    reads: ClassVar[tuple[str, ...]] = ("groupdro_eta",)

    q: Tensor

    def __init__(
        self, featurizer: nn.Module, classifier: nn.Module, hparams: Mapping[str, float]
    ) -> None:
        super().__init__(featurizer, classifier, hparams)
        self.register_buffer("q", torch.empty(0))

    def objective(self, forward: Forward) -> tuple[Tensor, dict[str, Tensor]]:
        losses = domain_losses(forward)
        self.q = self._reweighted(losses.detach())
        loss = self.q.dot(losses)
        return loss, {"loss": loss, "nll": losses.detach().mean()}

    def load_training_state(self, state: Mapping[str, Any]) -> None:
        # The number of domains is known from the first update on, which a fresh build has not seen.
        self.q = torch.empty_like(state["module"]["q"])
        super().load_training_state(state)

    def _reweighted(self, losses: Tensor) -> Tensor:
        if not len(self.q):
            self.q = torch.ones_like(losses)
        if len(self.q) != len(losses):
            raise InputError(
                f"Expected minibatches of {len(self.q)} source domains as before, but got "
                f"{len(losses)}: keep the domains of a run fixed.",
                code="differs",
            )
        # softmax(log q + η·CE) is the normalised product, and cannot overflow.
        return torch.softmax(self.q.log() + self.hparams["groupdro_eta"] * losses, 0)
