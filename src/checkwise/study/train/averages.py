"""Averages of the weights of every update, taken while a run trains.

``sma`` is the mean over all updates from step 100 on. ``dense-swad`` averages the updates between
two records into a segment and the segments of the loss valley into a model. Both use one sum: each
update is added in float32 to a short block, and full blocks in float64 to the averages. So the cost
is one addition per parameter, and rounding does not grow with the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from checkwise.errors import naming_extras
from checkwise.selection import ValleySearch
from checkwise.store import average_file, write_bytes
from checkwise.study.folder import make_folders_in
from checkwise.study.train.algorithms import Algorithm
from checkwise.study.train.config import SMA_START, Average

AVERAGED_AT_ONCE = 32
_SUMS = ("block", "segment", "sma", "valley")


class Averages:
    """A hook that leaves ``averages/<name>.safetensors`` in the run's folder at its last record.

    Parameters are averaged; buffers are those of the last update.
    """

    name = "averages"

    def __init__(
        self, wanted: Sequence[Average], *, last_step: int, sma_start: int = SMA_START
    ) -> None:
        self._wanted = tuple(wanted)
        self._last_step = last_step
        self._sma_start = sma_start
        self._names: list[str] = []
        self._parameters: list[Tensor] = []
        self._block = _Sum(torch.float32)
        self._segment = _Sum(torch.float64)
        self._sma = _Sum(torch.float64)
        self._valley = _Sum(torch.float64)
        self._search = ValleySearch()
        self._segments: dict[int, list[Tensor]] = {}
        self._added: list[int] = []
        self._started = False

    def after_update(self, step: int, algorithm: Algorithm) -> None:
        if not self._parameters:
            self._look_at(algorithm)
        if step == self._sma_start:
            self._flush()
            self._started = True
        self._block.add(self._parameters)
        if self._block.count == AVERAGED_AT_ONCE:
            self._flush()

    def at_record(self, record: Mapping[str, Any], algorithm: Algorithm, folder: Path) -> None:
        """End a segment; at the last record, write the averages."""
        self._flush()
        if "dense-swad" in self._wanted:
            self._end_segment(record)
        if record["step"] == self._last_step:
            for name in self._wanted:
                self._write(name, algorithm, folder)

    def state(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, f"_{name}").state() for name in _SUMS},
            "search": self._search.state(),
            "segments": {str(index): parts for index, parts in self._segments.items()},
            "added": self._added,
            "started": self._started,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        for name in _SUMS:
            getattr(self, f"_{name}").load_state(state[name])
        self._search.load_state(state["search"])
        self._segments = {int(index): list(parts) for index, parts in state["segments"].items()}
        self._added = [int(index) for index in state["added"]]
        self._started = bool(state["started"])

    def _look_at(self, algorithm: Algorithm) -> None:
        deployed = algorithm.deployable_state()
        named = [(name, p) for name, p in algorithm.named_parameters() if name in deployed]
        self._names = [name for name, _ in named]
        self._parameters = [parameter.detach() for _, parameter in named]
        device = self._parameters[0].device  # a saved state is loaded on the CPU
        for name in _SUMS:
            getattr(self, f"_{name}").move(device)
        self._segments = {i: [t.to(device) for t in s] for i, s in self._segments.items()}

    def _flush(self) -> None:
        if not self._block.count:
            return
        if "dense-swad" in self._wanted:
            self._segment.merge(self._block)
        if "sma" in self._wanted and self._started:
            self._sma.merge(self._block)
        self._block.clear()

    def _end_segment(self, record: Mapping[str, Any]) -> None:
        losses = [entry["nll"] for entry in record["domains"].values()]
        if not record["diverged"]:
            self._segments[self._search.seen] = self._segment.mean()
            self._join(self._search.add(fsum(losses) / len(losses)))
            needed = self._search.needed
            self._segments = {i: parts for i, parts in self._segments.items() if i in needed}
        self._segment.clear()

    def _join(self, indices: Sequence[int]) -> None:
        for index in indices:
            self._valley.add(self._segments[index])
            self._added.append(index)

    @naming_extras()
    def _write(self, name: Average, algorithm: Algorithm, folder: Path) -> None:
        from safetensors.torch import save

        if name == "dense-swad":
            self._join(self._search.close())
            total, facts = self._valley, {"segments": self._added}
        else:
            total, facts = self._sma, {"segments": []}
        if not total.count:  # every record diverged, or the run ended before the average began
            return
        tensors = algorithm.deployable_state()
        for key, mean in zip(self._names, total.mean(), strict=True):
            tensors[key] = mean.to(tensors[key].dtype)
        plain = {key: tensor.cpu().contiguous() for key, tensor in tensors.items()}
        path = make_folders_in(folder, average_file(name))
        # One entry: safetensors does not fix the order of several.
        about = {"average": json.dumps({"name": name, "count": total.count, **facts})}
        write_bytes(path, save(plain, metadata=about))


class _Sum:
    """A sum over lists of tensors and how many there were."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._total: list[Tensor] = []
        self.count = 0

    def add(self, tensors: list[Tensor]) -> None:
        if not self._total:
            self._total = [torch.zeros_like(t, dtype=self._dtype) for t in tensors]
        if self.count:
            torch._foreach_add_(self._total, tensors)
        else:
            torch._foreach_copy_(self._total, tensors)
        self.count += 1

    def merge(self, other: _Sum) -> None:
        count = self.count + other.count
        self.add(other._total)
        self.count = count

    def mean(self) -> list[Tensor]:
        return [total / self.count for total in self._total]

    def clear(self) -> None:
        self.count = 0

    def move(self, device: torch.device) -> None:
        self._total = [total.to(device) for total in self._total]

    def state(self) -> dict[str, Any]:
        return {"total": self._total if self.count else [], "count": self.count}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._total, self.count = list(state["total"]), int(state["count"])
