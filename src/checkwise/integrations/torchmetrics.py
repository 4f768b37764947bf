"""Metrics for torchmetrics, in constant memory: calibration errors and negative log-likelihood.

What is added up are the sums of ``checkwise.metrics.Accumulator``, so values are those of
``checkwise.metrics.evaluate``, however the examples were batched or spread over processes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from checkwise.errors import InputError, naming_extras
from checkwise.metrics import (
    BANDWIDTH,
    BINS,
    Accumulator,
    Report,
    Sums,
    binary,
    new_sums,
    summarise,
    to_numpy,
)

with naming_extras():
    import torch
    from torchmetrics import Metric

__all__ = ["ECE", "NLL", "CwECE", "HardCwECE", "HardECE"]


class _Reliability(Metric):  # type: ignore[misc, unused-ignore]
    """One metric of a report, kept as sums over examples.

    Args:
        num_classes: C.
        kind: what ``update`` gets, "logits" or "probs"; never guessed.
        ignore_index: a label that is left out, such as −100.
        bins, bandwidth: settings of the calibration errors.
        keywords: as for every ``torchmetrics.Metric``.
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    reported: ClassVar[str]

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        kind: Literal["logits", "probs"] = "logits",
        ignore_index: int | None = None,
        bins: int = BINS,
        bandwidth: float = BANDWIDTH,
        **keywords: Any,
    ) -> None:
        super().__init__(**keywords)
        if num_classes is None:
            raise InputError(
                "Expected the number of classes, but got none: write "
                f"{type(self).__name__}(num_classes=C).",
                code="missing",
            )
        if kind not in ("logits", "probs"):
            raise InputError(f"Expected kind 'logits' or 'probs', but got {kind!r}.")
        settings = Accumulator(classes=num_classes, bins=bins, bandwidth=bandwidth)
        self.num_classes, self.kind, self.ignore_index = settings.classes, kind, ignore_index
        self.bins, self.bandwidth = settings.bins, settings.bandwidth
        for name, zeros in new_sums(self.num_classes, self.bins, self.bandwidth)._asdict().items():
            self.add_state(name, torch.as_tensor(zeros), dist_reduce_fx="sum")

    def _apply(self, fn: Any, *arguments: Any, **keywords: Any) -> Any:
        """Move the sums to another device; they stay in double precision."""
        sums = {name: getattr(self, name) for name in Sums._fields}
        defaults: dict[str, Any] = dict(self._defaults)
        moved = super()._apply(fn, *arguments, **keywords)
        for name, state in sums.items():
            device = getattr(self, name).device
            setattr(self, name, state.to(device))
            self._defaults[name] = defaults[name].to(device)
        return moved

    def update(self, preds: Any, target: Any) -> None:
        """Add a batch: outputs [..., C] and labels [...] of the same leading shape.

        Of two classes, outputs of class 1 are enough, [n] or [n, 1].
        """
        if self.num_classes == 2 and (preds.ndim == 1 or preds.shape[-1] == 1):
            preds, target = binary(preds.reshape(-1), target.reshape(-1), self.kind)
        if preds.shape[:-1] != target.shape:
            raise InputError(
                f"Expected outputs [n, C] and labels [n], but got {list(preds.shape)} and "
                f"{list(target.shape)}: move the classes to the last axis."
            )
        if preds.shape[-1] != self.num_classes:
            raise InputError(
                f"Expected {self.num_classes} classes on the last axis, but got "
                f"{list(preds.shape)}: write {type(self).__name__}(num_classes={preds.shape[-1]})."
            )
        labels = to_numpy(target, "target").reshape(-1)
        outputs = to_numpy(preds, self.kind).reshape(-1, preds.shape[-1])
        if self.ignore_index is not None:
            counted = labels != self.ignore_index
            outputs, labels = outputs[counted], labels[counted]
        if not len(labels):
            return
        batch = Accumulator(classes=self.num_classes, bins=self.bins, bandwidth=self.bandwidth)
        if self.kind == "logits":  # in single precision sums would depend on batches
            outputs = outputs.astype(np.float64)
        batch.update(**{self.kind: outputs}, labels=labels)
        for name, part in batch.sums._asdict().items():
            state = getattr(self, name)
            state += torch.as_tensor(part, device=state.device)

    def report(self) -> Report:
        """All eight metrics of what was added in this process."""
        sums = Sums(*(getattr(self, name).cpu().numpy() for name in Sums._fields))
        if not sums.support.any():
            raise InputError(
                "Expected at least one example, but got none. Call update() first.", code="empty"
            )
        return summarise(sums, bins=self.bins, bandwidth=self.bandwidth)

    def compute(self) -> Any:
        """The metric of everything added, in all processes."""
        value = getattr(self.report(), self.reported)
        return torch.tensor(value, dtype=torch.float64, device=self.device)


class ECE(_Reliability):
    """Soft-bin squared gap of the top label.

    Example:
        >>> metric = ECE(num_classes=2)
        >>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
        >>> round(metric.compute().item(), 4)
        0.1592
    """

    reported = "ece"


class HardECE(_Reliability):
    """Hard-bin absolute gap of the top label, right also at confidence 1."""

    reported = "hard_ece"


class CwECE(_Reliability):
    """Soft-bin squared gap, class-wise."""

    reported = "cwece"


class HardCwECE(_Reliability):
    """Hard-bin absolute gap, class-wise."""

    reported = "hard_cwece"


class NLL(_Reliability):
    """Mean negative log-likelihood."""

    reported = "nll"
