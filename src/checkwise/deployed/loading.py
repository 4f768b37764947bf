"""What `checkwise deploy` wrote, in use: the weights, the calibrator, and both as one module.

Example:
    >>> from checkwise.deployed import load                        # doctest: +SKIP
    >>> model = load("model/").module(network)                     # doctest: +SKIP
    >>> model.probabilities(inputs)                                # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from checkwise.calibrators import Fitted
from checkwise.deployed.bundle import (
    check_shards,
    read_bundle,
    read_calibration,
    read_checked,
    weights_below,
)
from checkwise.deployed.weights_files import decode
from checkwise.errors import InputError, naming_extras

with naming_extras():
    import torch
    from torch import Tensor, nn

    from checkwise.deployed.torch_calibrators import transform_of

__all__ = ["Calibrated", "Deployed", "load"]


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
        if not members:
            raise InputError(
                "Expected at least one module to calibrate, but got none.", code="empty"
            )
        for member in members:
            if not isinstance(member, nn.Module):
                raise InputError(
                    f"Expected a torch module, or a list of them, but got "
                    f"{type(member).__name__}: pass the network itself."
                )
        self._classes = None if calibrator is None else calibrator.classes
        self.members = nn.ModuleList(members)
        self.transform = transform_of(calibrator)
        self.eval()

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Calibrated logits, in float32 or wider."""
        logits = [_logits(member(*args, **kwargs)) for member in self.members]
        self._check_classes([z.shape[-1] for z in logits])
        mean = logits[0] if len(logits) == 1 else _log_mean_probabilities(logits)
        calibrated: Tensor = self.transform(mean)
        return calibrated

    def _check_classes(self, given: Sequence[int]) -> None:
        expected = given[0] if self._classes is None else self._classes
        other = [classes for classes in given if classes != expected]
        if other:
            raise InputError(
                f"Expected logits of {expected} classes, as those that the calibrator was fitted "
                f"on or of the first member, but got {other[0]}: use the networks that were "
                "deployed together.",
                code="differs",
            )

    def probabilities(self, *args: Any, **kwargs: Any) -> Tensor:
        """Calibrated probabilities."""
        return torch.softmax(self(*args, **kwargs), dim=-1)


@dataclass(frozen=True, eq=False)
class Deployed:
    """A deployed model; made by :func:`load`.

    Attributes:
        folder: where it is.
        info: the content of ``deployed.json``.
        calibrator: the fitted calibrator; None where there is none.
    """

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
    """The logits of a network's output, in float32 or wider."""
    logits: Tensor = output if isinstance(output, Tensor) else output.logits
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _log_mean_probabilities(logits: Sequence[Tensor]) -> Tensor:
    stacked = torch.stack([z.double().log_softmax(-1) for z in logits])
    mean = stacked.logsumexp(0) - torch.log(torch.tensor(float(len(logits)), dtype=torch.float64))
    return mean.to(logits[0].dtype)
