"""Fitted calibrators as torch modules: logits in, calibrated logits out, ready for export.

Each does what the ``transform`` of its calibrator does with arrays. Parameters keep their precision
when the module around them is cast to half precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log, log1p
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from checkwise.calibrators import Fitted
from checkwise.errors import InputError


def transform_of(fitted: Fitted | None) -> nn.Module:
    """The module that does what a fitted calibrator does."""
    if fitted is None or fitted.params is None:
        return nn.Identity()
    if fitted.name not in _MODULES:
        raise InputError(
            f"Expected a calibrator among {', '.join(_MODULES)}, but got {fitted.name}: apply it "
            "to the logits as an array (`calibrator.apply`).",
            code="unsupported",
        )
    return _MODULES[fitted.name](fitted.params)


class _Transform(nn.Module):
    """Constants that follow the module to its device but keep their type."""

    def _constant(self, name: str, values: Any, dtype: torch.dtype = torch.float64) -> None:
        self.register_buffer(name, torch.tensor(values, dtype=dtype), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        for name, constant in self._buffers.items():
            if constant is not None:
                self._buffers[name] = constant.to(fn(constant).device)
        return self


class Divide(_Transform):
    """z / T."""

    def __init__(self, params: Mapping[str, Any]):
        super().__init__()
        self.temperature = float(params["temperature"])

    def forward(self, logits: Tensor) -> Tensor:
        return logits / self.temperature


class DivideByLikeness(_Transform):
    """z / T with T a mean over domains, weighted by how much the logits look like each domain's."""

    slopes: Tensor
    offsets: Tensor
    by_domain: Tensor

    def __init__(self, params: Mapping[str, Any]):
        super().__init__()
        self._constant("slopes", params["slopes"])
        self._constant("offsets", params["offsets"])
        self._constant("by_domain", [params["temperatures"][name] for name in params["domains"]])

    def forward(self, logits: Tensor) -> Tensor:
        z = logits.double()
        centred = z - z.mean(-1, keepdim=True)
        shares = (centred @ self.slopes + self.offsets).softmax(-1)
        return (z / (shares @ self.by_domain).unsqueeze(-1)).to(logits.dtype)


class LookUp(_Transform):
    """Levels of a monotone function per class, normalised and mixed with the uniform."""

    def __init__(self, params: Mapping[str, Any]):
        super().__init__()
        self.classes, self.uniform = len(params["knots"]), float(params["uniform"])
        for number, (knots, levels) in enumerate(
            zip(params["knots"], params["levels"], strict=True)
        ):
            self._constant(f"knots{number}", knots)
            self._constant(f"levels{number}", levels)

    def forward(self, logits: Tensor) -> Tensor:
        p = logits.double().softmax(-1)
        columns = [
            _interpolated(
                p[..., number],
                self.get_buffer(f"knots{number}"),
                self.get_buffer(f"levels{number}"),
            )
            for number in range(self.classes)
        ]
        level = torch.stack(columns, dim=-1)
        total = level.sum(-1, keepdim=True)
        empty = total <= 0
        share = torch.where(empty, 1 / self.classes, level / torch.where(empty, 1.0, total))
        floor = torch.full_like(share, log(self.uniform / self.classes))
        return torch.logaddexp(log1p(-self.uniform) + share.log(), floor).to(logits.dtype)


def _interpolated(x: Tensor, knots: Tensor, levels: Tensor) -> Tensor:
    """Straight lines between knots; beyond them the outermost levels, as ``numpy.interp``."""
    if len(knots) == 1:
        return levels[0].expand_as(x)
    after = (x.unsqueeze(-1) >= knots).sum(-1).clamp(1, len(knots) - 1)
    left, right = knots[after - 1], knots[after]
    low, high = levels[after - 1], levels[after]
    share = ((x - left) / (right - left)).clamp(0, 1)
    return low + share * (high - low)


_MODULES: Final[Mapping[str, Callable[[Mapping[str, Any]], nn.Module]]] = {
    **dict.fromkeys(("ts", "ts-soften", "ts-max", "ts-multi"), Divide),
    "ts-weighted": DivideByLikeness,
    "isotonic": LookUp,
}


def log_mean_probabilities(parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The logarithm of the mean of the softmax of several logits [n, C]."""
    stacked = torch.stack([torch.as_tensor(z).double().log_softmax(1) for z in parts])
    log_means: NDArray[np.float32] = (stacked.logsumexp(0) - np.log(len(parts))).float().numpy()
    return log_means
