"""The distance of the domains' first and second moments, with its gradient written out."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from checkwise.errors import InputError
from checkwise.train.algorithms.domains import domain_rows


def moment_distance(features: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The mean over pairs of domains of mean((μ_i − μ_j)²) + mean((C_i − C_j)²); 0 for one domain.

    μ and C are mean and covariance (divided by n − 1) of the rows of `features` [N, d] that
    belong to a domain. Each domain's moments enter once: for any vectors v_1..v_E with mean v̄,
    Σ_{i<j} |v_i − v_j|² = E·Σ_i |v_i − v̄|², so the mean over pairs is 2/(E−1)·Σ_i |v_i − v̄|².
    """
    if features.dim() != 2:
        raise InputError(
            f"Expected features of shape [rows, width], but got {tuple(features.shape)}: "
            "let the featurizer flatten its output."
        )
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
