"""Training algorithms: what every one is, those that come with the package, and your own."""

from __future__ import annotations

import copy
import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy, nll_loss

from checkwise.errors import InputError
from checkwise.study.train.hparams import (
    HPARAM_TABLE,
    Hyperparameter,
    forget_hparams,
    known_names,
    register_hparams,
    unknown_name,
)

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

    A subclass states its objective and nothing else. What every algorithm keeps:

    - `update([(x, y), ...])` takes one minibatch per source domain, always in the same order of
      domains, and makes one Adam step. All domains pass through the network together. It returns
      detached 0-d tensors, `loss` among them.
    - `predict(x)` returns logits in evaluation mode without gradients, and changes nothing.
    - All randomness comes from torch's global generator; the caller seeds it.
    - `training_state()` is a snapshot of all that later updates depend on, save that generator.
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
        annealed = self.update_count >= self.hparams[self.anneal_name]
        return self.hparams[self.weight_name] if annealed else 1.0

    def objective(self, forward: Forward) -> tuple[Tensor, dict[str, Tensor]]:
        nll, penalty = self.nll_and_penalty(forward)
        loss = nll + self.penalty_weight() * penalty
        return loss, {"loss": loss, "nll": nll, "penalty": penalty}


domain_rows = torch.split_with_sizes  # views of the rows of each domain


def domain_means(rows: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The mean of `rows` [N] inside each domain, [E]."""
    if len(set(sizes)) == 1:
        return rows.view(len(sizes), -1).mean(1)
    return torch.stack([part.mean() for part in domain_rows(rows, sizes)])


def domain_losses(forward: Forward) -> Tensor:
    """The mean cross-entropy of each domain, [E]."""
    rows = cross_entropy(forward.logits, forward.labels, reduction="none")
    return domain_means(rows, forward.sizes)


def _check_two_rows(algorithm: str, sizes: tuple[int, ...]) -> None:
    if min(sizes) < 2:
        raise InputError(
            f"Expected at least 2 rows per domain for {algorithm}, but got minibatches of "
            f"{list(sizes)}: raise batch_size.",
            code="unsupported",
        )


class ERM(Algorithm):
    """Minimise the mean cross-entropy over the rows of all domains together."""

    def objective(self, forward: Forward) -> tuple[Tensor, dict[str, Tensor]]:
        loss = cross_entropy(forward.logits, forward.labels)
        return loss, {"loss": loss, "nll": loss}


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
        nll = losses.detach()
        if not len(self.q):
            self.q = torch.ones_like(nll)
        # softmax(log q + η·CE) is the normalised product, and cannot overflow.
        self.q = torch.softmax(self.q.log() + self.hparams["groupdro_eta"] * nll, 0)
        loss = self.q.dot(losses)
        return loss, {"loss": loss, "nll": nll.mean()}

    def load_training_state(self, state: Mapping[str, Any]) -> None:
        # The number of domains is known from the first update on, which a fresh build has not seen.
        self.q = torch.empty_like(state["module"]["q"])
        super().load_training_state(state)


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
        _check_two_rows("IRM", forward.sizes)
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


def moment_distance(features: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The mean over pairs of domains of mean((μ_i − μ_j)²) + mean((C_i − C_j)²); 0 for one domain.

    μ and C are mean and covariance (divided by n − 1) of the rows of `features` [N, d] that
    belong to a domain. Each domain's moments enter once: for any vectors v_1..v_E with mean v̄,
    Σ_{i<j} |v_i − v_j|² = E·Σ_i |v_i − v̄|², so the mean over pairs is 2/(E−1)·Σ_i |v_i − v̄|².
    """
    if len(sizes) == 1:
        return features.new_zeros(())
    return cast(Tensor, _MomentDistance.apply(features, sizes))  # type: ignore[no-untyped-call]


class _MomentDistance(torch.autograd.Function):
    """Autograd would take three times as long, most of it in passes over d×d matrices.

    The gradient of Σ_i |μ_i − μ̄|² is 2(μ_i − μ̄)/n_i in every row of domain i: the mean μ̄ drops
    out because deviations from it sum to zero.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, sizes: tuple[int, ...]) -> Tensor:
        domains, width = len(sizes), features.shape[1]
        means = features.new_empty(domains, width)
        scaled = torch.empty_like(features)  # Z_i = (X_i − μ_i)/√(n_i − 1), so C_i = Z_iᵀZ_i
        for e, (rows, z) in enumerate(
            zip(domain_rows(features, sizes), domain_rows(scaled, sizes), strict=True)
        ):
            torch.mean(rows, 0, out=means[e])
            torch.sub(rows, means[e], out=z).mul_((sizes[e] - 1) ** -0.5)
        means -= means.mean(0)
        spread = _spread_by_gram if len(features) < width else _spread_by_covariance
        squares, gradient = spread(scaled, sizes)

        gradient *= 2 / (domains - 1) / width**2
        for e, rows in enumerate(domain_rows(gradient, sizes)):
            rows *= (sizes[e] - 1) ** -0.5
            rows += means[e] * (4 / ((domains - 1) * width * sizes[e]))
        ctx.save_for_backward(gradient)
        return (_dot(means, means) / width + squares / width**2) * (2 / (domains - 1))

    @staticmethod
    @once_differentiable  # type: ignore[no-untyped-call, untyped-decorator, unused-ignore]
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream, None


def _spread_by_covariance(scaled: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Σ_i |C_i − C̄|² and its gradient 4·Z_i(C_i − C̄), through d×d matrices.

    Centring leaves the gradient alone: the columns of Z_i, hence of Z_i·D, sum to zero.
    """
    parts = domain_rows(scaled, sizes)
    deviations = torch.stack([z.t() @ z for z in parts])
    deviations -= deviations.mean(0)
    gradient = torch.cat([z @ d for z, d in zip(parts, deviations, strict=True)])
    return _dot(deviations, deviations), gradient.mul_(4)


def _spread_by_gram(scaled: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The same through the N×N products of rows, smaller when there are fewer rows than features.

    With K = ZZᵀ, ⟨C_i, C_j⟩ is the sum of squares of block (i, j) of K, so
    Σ_i |C_i − C̄|² = Σ w∘K∘K where w is 1 − 1/E inside the diagonal blocks and −1/E elsewhere.
    """
    products = scaled @ scaled.t()
    weighted = products * (-1 / len(sizes))
    start = 0
    for size in sizes:
        block = slice(start, start + size)
        weighted[block, block] += products[block, block]
        start += size
    return _dot(weighted, products), (weighted @ scaled).mul_(4)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return a.view(-1).dot(b.view(-1))


class VREx(Annealed):
    """Penalise the population variance of the domains' cross-entropies, mean_e (CE_e − C̄E)²."""

    reads: ClassVar[tuple[str, ...]] = ("vrex_lambda", "vrex_penalty_anneal_iters")
    weight_name: ClassVar[str] = "vrex_lambda"
    anneal_name: ClassVar[str] = "vrex_penalty_anneal_iters"

    def nll_and_penalty(self, forward: Forward) -> tuple[Tensor, Tensor]:
        losses = domain_losses(forward)
        nll = losses.mean()
        return nll, (losses - nll).square().mean()


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
        _check_two_rows("CORAL", forward.sizes)
        nll = domain_losses(forward).mean()
        penalty = moment_distance(forward.features, forward.sizes)
        loss = nll + self.hparams["mmd_gamma"] * penalty
        return loss, {"loss": nll, "nll": nll, "penalty": penalty}


Kind = TypeVar("Kind", bound=type[Algorithm])

ALGORITHMS: Final[dict[str, type[Algorithm]]] = {
    "ERM": ERM,
    "CORAL": CORAL,
    "GroupDRO": GroupDRO,
    "IRM": IRM,
    "VREx": VREx,
}


def algorithm(name: str, *, hparams: Sequence[Hyperparameter] = ()) -> Callable[[Kind], Kind]:
    """Register a training algorithm of your own: a subclass of ``Algorithm`` with an ``objective``.

    Args:
        name: what study files call it; letters, digits and underscores.
        hparams: hyperparameters that it alone reads, from ``self.hparams``.

    Example:
        >>> from torch.nn.functional import cross_entropy
        >>> strength = Hyperparameter("smoothing", 0.1, lambda random: random.uniform(0, 0.3))
        >>> @algorithm("Smoothed", hparams=[strength])
        ... class Smoothed(Algorithm):
        ...     def objective(self, forward):
        ...         by = self.hparams["smoothing"]
        ...         loss = cross_entropy(forward.logits, forward.labels, label_smoothing=by)
        ...         return loss, {"loss": loss}
        >>> unregister("Smoothed")
    """
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) or name in ALGORITHMS:
        raise InputError(
            "Expected a new name for an algorithm, of letters, digits and underscores, but got "
            f"{name!r}: choose another name.",
            code="exists" if name in ALGORITHMS else "value",
        )

    def register(kind: Kind) -> Kind:
        register_hparams([replace(row, algorithms=(name,)) for row in hparams])
        kind.reads = tuple(dict.fromkeys((*kind.reads, *(row.name for row in hparams))))
        ALGORITHMS[name] = kind
        return kind

    return register


def unregister(name: str) -> None:
    """Forget an algorithm and its hyperparameters (for notebooks that define one again)."""
    ALGORITHMS.pop(name, None)
    forget_hparams(name)


def algorithm_names() -> tuple[str, ...]:
    """The names `build_algorithm` knows."""
    return tuple(ALGORITHMS)


def build_algorithm(
    name: str, featurizer: nn.Module, classifier: nn.Module, hparams: Mapping[str, float]
) -> Algorithm:
    """The algorithm `name` on `classifier ∘ featurizer`, hyperparameters under DomainBed's names.

    `lr` is required, since its default depends on the data; the others have defaults. Names that
    this library does not use (`resnet18`, `data_augmentation`, …) are ignored, unless they look
    like a misspelling.

    Example:
        >>> from torch import nn
        >>> alg = build_algorithm("VREx", nn.Linear(8, 4), nn.Linear(4, 3), {"lr": 1e-3})
        >>> alg.hparams["vrex_lambda"]
        10.0
    """
    if name not in ALGORITHMS:
        raise InputError(
            f"Expected an algorithm among {', '.join(ALGORITHMS)}, but got {name!r}: choose one "
            "of these names, or add --plugin with the file that defines it.",
            code="unknown",
        )
    known = known_names()
    for hparam in hparams:
        if hparam not in known and difflib.get_close_matches(hparam, known, n=1, cutoff=0.85):
            raise unknown_name(hparam)
    if "lr" not in hparams:
        raise InputError(
            f"Expected a learning rate among the hyperparameters, but got {sorted(hparams)}: "
            "add `lr`, for example 5e-5 for images and 1e-3 for features.",
            code="missing",
        )
    kind = ALGORITHMS[name]
    rows = {
        row.name: row for row in HPARAM_TABLE if row.name in ("lr", "weight_decay", *kind.reads)
    }
    read = {key: row.checked(hparams.get(key, row.default)) for key, row in rows.items()}
    return kind(featurizer, classifier, read)
