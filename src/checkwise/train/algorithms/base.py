"""What every training algorithm is: one network, one optimiser, one objective."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor, nn

from checkwise.errors import InputError

Minibatch: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Forward:
    """One forward pass over all source domains, rows in the order of the minibatches.

    `features` [N, d] is the featurizer's output, `logits` [N, C] the classifier's, `labels` [N];
    `sizes` holds the number of rows of each domain and sums to N.
    """

    features: Tensor
    logits: Tensor
    labels: Tensor
    sizes: tuple[int, ...]


class Algorithm(nn.Module, ABC):
    """A domain-generalization algorithm that trains `classifier ∘ featurizer` with Adam.

    A subclass states its objective and nothing else. The contract, checked for every registered
    algorithm:

    - `update([(x, y), ...])` takes one minibatch per source domain, always in the same order of
      domains, and makes one Adam step. All domains pass through the network together, so live
      BatchNorm sees their union and dropout draws once. It returns detached 0-d tensors,
      `loss` among them.
    - `predict(x)` returns logits in evaluation mode without gradients, and changes nothing.
    - All randomness comes from torch's global generator; the caller seeds it.
    - `training_state()` holds all that later updates depend on, save that generator: loading it
      into a freshly built algorithm continues bit for bit. It is a snapshot, not a view.
    - `deployable_state()` holds the network alone: what prediction needs.
    - Parameters without `requires_grad` when the algorithm is built are never trained.

    `reads` names the hyperparameters of the objective; `lr` and `weight_decay` are read by all.
    """

    reads: ClassVar[tuple[str, ...]] = ()

    update_count: int
    restart_at: int | None
    optimizer: torch.optim.Optimizer

    def __init__(
        self, featurizer: nn.Module, classifier: nn.Module, hparams: Mapping[str, float]
    ) -> None:
        super().__init__()
        self.featurizer = featurizer
        self.classifier = classifier
        self.hparams = dict(hparams)
        self.update_count = 0
        self.restart_at = None
        self._trained = [p for p in self.parameters() if p.requires_grad]
        if not self._trained:
            raise InputError(
                "Expected a network with trainable parameters, but got none that require "
                "gradients: leave at least the classifier trainable.",
                code="unsupported",
            )
        self.optimizer = self._new_optimizer()

    @abstractmethod
    def objective(self, forward: Forward) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to minimise and the terms to log.

        `loss` is what DomainBed logs under that name (for CORAL the cross-entropy alone, for the
        others the whole objective); `nll` is the mean cross-entropy, `penalty` the penalty
        before its weight.
        """

    def update(self, minibatches: Sequence[Minibatch]) -> dict[str, Tensor]:
        """One optimiser step on one minibatch per source domain."""
        if not self.training:
            self.train()
        objective, logged = self.objective(self._forward(minibatches))
        if self.update_count == self.restart_at:
            self.optimizer = self._new_optimizer()
        self.optimizer.zero_grad(set_to_none=True)
        objective.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.update_count += 1
        return {name: term.detach() for name, term in logged.items()}

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Logits [n, C] in evaluation mode."""
        was_training = self.training
        self.eval()
        try:
            logits: Tensor = self.classifier(self.featurizer(x))
        finally:
            self.train(was_training)
        return logits

    def training_state(self) -> dict[str, Any]:
        """A copy of parameters, buffers, optimiser and counters: plain containers and tensors."""
        return copy.deepcopy(
            {
                "module": dict(self.state_dict()),
                "optimizer": self.optimizer.state_dict(),
                "update_count": self.update_count,
            }
        )

    def load_training_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`, written by the same algorithm on a network of the same shape."""
        self.load_state_dict(state["module"])
        self.optimizer = self._new_optimizer()
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self.update_count = int(state["update_count"])

    def deployable_state(self) -> dict[str, Tensor]:
        """A copy of the network's parameters and buffers, nothing of the training."""
        return {
            name: tensor.detach().clone()
            for name, tensor in self.state_dict().items()
            if name.startswith(("featurizer.", "classifier."))
        }

    def _forward(self, minibatches: Sequence[Minibatch]) -> Forward:
        sizes = tuple(len(y) for _, y in minibatches)
        if not sizes or 0 in sizes:
            raise InputError(
                "Expected one non-empty minibatch per source domain, but got sizes "
                f"{list(sizes)}: draw at least one example from each domain."
            )
        labels = torch.cat([y for _, y in minibatches])
        features = self.featurizer(torch.cat([x for x, _ in minibatches]))
        return Forward(features, self.classifier(features), labels, sizes)

    def _new_optimizer(self) -> torch.optim.Adam:
        # The fused kernel reads and writes each parameter and its moments once.
        fused = all(p.is_floating_point() and p.device.type in _FUSED for p in self._trained)
        return torch.optim.Adam(
            self._trained,
            lr=self.hparams["lr"],
            weight_decay=self.hparams["weight_decay"],
            fused=fused or None,
        )


_FUSED = ("cpu", "cuda")
