"""What `checkwise deploy` wrote, in use: the weights, the calibrator, and both as one module.

Example:
    >>> from checkwise.deployed import load                        # doctest: +SKIP
    >>> model = load("model/").module(network)                     # doctest: +SKIP
    >>> model.probabilities(inputs)                                # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from math import log, log1p
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkwise.calibrators import Fitted
from checkwise.deployed.bundle import (
    check_shards,
    read_bundle,
    read_calibration,
    read_checked,
    weights_below,
)
from checkwise.deployed.models import decode
from checkwise.errors import InputError, naming_extras

with naming_extras():
    import torch
    from torch import Tensor, nn

__all__ = ["Calibrated", "Deployed", "load", "log_mean_probabilities"]


class Calibrated(nn.Module):
    """A network, or the members of an ensemble, with its calibrator.

    ``forward`` gives calibrated logits: their softmax are the calibrated probabilities. It takes
    what the network takes; an output with ``logits``, as those of transformers, counts as these.
    Below float32 the network's logits are widened before they are scaled. The module starts in
    evaluation mode. ``torch.export`` and ONNX export give the same probabilities.

    Args:
        module: the network, or all members of an ensemble, whose probabilities are averaged.
        calibrator: what ``load`` or ``checkwise.calibrators.fit`` gave; None for none.

    Example:
        >>> from checkwise.calibrators import fit
        >>> logits, labels = torch.tensor([[2.0, 0.0]] * 100), torch.tensor([0] * 75 + [1] * 25)
        >>> model = Calibrated(nn.Identity(), fit({"validation": (logits, labels)}))
        >>> model.probabilities(logits[:1])
        tensor([[0.7500, 0.2500]])
    """

    def __init__(self, module: nn.Module | Sequence[nn.Module], calibrator: Fitted | None):
        super().__init__()
        members = [module] if isinstance(module, nn.Module) else list(module)
        self._classes = None if calibrator is None else calibrator.classes
        self.members = nn.ModuleList(members)
        self.transform = transform_of(calibrator)
        self.eval()

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Calibrated logits, in float32 or wider."""
        logits = [_logits(member(*args, **kwargs)) for member in self.members]
        expected = self._classes or logits[0].shape[-1]
        for z in logits:
            if z.shape[-1] != expected:
                raise InputError(
                    f"Expected logits of {expected} classes, as those that the calibrator was "
                    f"fitted on or of the first member, but got {z.shape[-1]}: use the networks "
                    "that were deployed together.",
                    code="differs",
                )
        mean = logits[0]
        if len(logits) > 1:
            mean = _log_mean_probabilities(logits).to(mean.dtype)
        calibrated: Tensor = self.transform(mean)
        return calibrated

    def probabilities(self, *args: Any, **kwargs: Any) -> Tensor:
        """Calibrated probabilities."""
        return torch.softmax(self(*args, **kwargs), dim=-1)


@dataclass(frozen=True, eq=False)
class Deployed:
    """A deployed model; made by :func:`load`. ``info`` is the content of ``deployed.json``."""

    folder: Path
    info: Mapping[str, Any]
    calibrator: Fitted | None

    @cached_property
    def weights(self) -> dict[str, Tensor] | list[dict[str, Tensor]]:
        """The state dict of the model, or one for every member of an ensemble."""
        members = [self._state(place) for place in self.info["members"]]
        return members if self.info["kind"] == "ensemble" else members[0]

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that ``from_pretrained`` reads, of a model of transformers."""
        if self.info["format"] != "transformers":
            raise InputError(
                f"Expected a model of transformers, but {self.folder} holds weights as "
                "safetensors: use `module(network)`.",
                code="unsupported",
            )
        return tuple(self.folder / place for place in self.info["members"])

    def module(self, network: nn.Module) -> Calibrated:
        """The network with the deployed weights and calibrator; ``network`` itself stays as it is.

        Args:
            network: one of the same shape, with any weights.
        """
        weights = self.weights
        modules = []
        for state in weights if isinstance(weights, list) else [weights]:
            member = deepcopy(network)
            _put(member, state, self.folder)
            modules.append(member)
        return Calibrated(modules, self.calibrator)

    def pretrained(self, kind: Any, **options: Any) -> Calibrated:
        """A model of transformers with its calibrator, from the files of this folder alone.

        Args:
            kind: the class to load, such as ``AutoModelForSequenceClassification``.
            options: for ``from_pretrained``.
        """
        check_shards(self.folder, self.info)
        options |= {"use_safetensors": True, "local_files_only": True}
        members = [kind.from_pretrained(str(place), **options) for place in self.folders]
        return Calibrated(members, self.calibrator)

    def _state(self, place: str) -> dict[str, Tensor]:
        files = self.info["files"]
        names = [place] if place in files else weights_below(place, files)
        state: dict[str, Tensor] = {}
        for name in names:
            state |= decode(read_checked(self.folder, self.info, name), self.folder / name)
        return state


def load(folder: str | Path) -> Deployed:
    """Read a folder that `checkwise deploy` wrote; every file is compared with its digest.

    Raises:
        InputError: there is no deployed model, or a file of it was changed, removed or added.
    """
    place = Path(folder)
    info = read_bundle(place)
    return Deployed(place, info, read_calibration(place, info))


def _put(network: nn.Module, state: Mapping[str, Tensor], folder: Path) -> None:
    try:
        network.load_state_dict(dict(state))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"Expected a network of the shape of {folder}, but got: {reason:.300}: build the one "
            "that was trained.",
            code="differs",
        ) from None


def _logits(output: Any) -> Tensor:
    """The logits of a network's output, in float32 or wider; of one unit, those of two classes."""
    logits: Tensor = output if isinstance(output, Tensor) else output.logits
    if logits.ndim > 1 and logits.shape[-1] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], dim=-1)
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _log_mean_probabilities(logits: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of the softmax of several logits [n, C], in double precision."""
    stacked = torch.stack([z.double().log_softmax(-1) for z in logits])
    return stacked.logsumexp(0) - float(np.log(len(logits)))


def log_mean_probabilities(parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The same for arrays."""
    means: NDArray[np.float32]
    means = _log_mean_probabilities([torch.as_tensor(z) for z in parts]).float().numpy()
    return means


# Fitted calibrators as modules. Each does what the ``transform`` of its calibrator does with
# arrays; parameters keep their precision when the module around them is cast to half precision.


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
