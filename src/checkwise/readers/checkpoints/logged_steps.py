"""Which logged step a checkpoint belongs to, by the numbers in its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from checkwise.readers.checkpoints.folders import Numbered
from checkwise.readers.checkpoints.patterns import INDEX


@dataclass(frozen=True)
class Matches:
    """Checkpoints and the steps they belong to.

    Args:
        files: the checkpoints of a step.
        shared: checkpoints whose numbers fit several steps, such as one of an epoch in which
            the log has several evaluations.
        unlogged: checkpoints whose numbers fit no step of the log.
    """

    files: Mapping[int, tuple[str, ...]]
    shared: tuple[str, ...]
    unlogged: tuple[str, ...]


@dataclass(frozen=True)
class LoggedSteps:
    """The steps of a log and their epochs; without epochs a step is an epoch."""

    steps: Sequence[int]
    epochs: Mapping[int, int]

    def match(self, checkpoints: Iterable[Numbered]) -> Matches:
        """Give checkpoints to steps."""
        files: dict[int, list[str]] = defaultdict(list)
        shared: list[str] = []
        unlogged: list[str] = []
        by_names: dict[tuple[str, ...], dict[tuple[int, ...], list[int]]] = {}
        for checkpoint in checkpoints:
            names = tuple(sorted(checkpoint.numbers))
            if names not in by_names:
                by_names[names] = self._by_numbers(names)
            numbers = tuple(checkpoint.numbers[name] for name in names)
            steps = by_names[names].get(numbers, [])
            if len(steps) == 1:
                files[steps[0]].append(checkpoint.path)
            else:
                (shared if steps else unlogged).append(checkpoint.path)
        return Matches(
            {step: tuple(paths) for step, paths in sorted(files.items())},
            tuple(shared),
            tuple(unlogged),
        )

    def are(self, name: str) -> bool:
        """Whether the steps count what a number of that name does."""
        return name == "step" or all(self.epochs.get(step, step) == step for step in self.steps)

    @property
    def index_ahead(self) -> int:
        """How much more a name that counts epochs from 0 says than the log."""
        return -self._first_epoch if self.are("epoch") else 0

    def _by_numbers(self, names: tuple[str, ...]) -> dict[tuple[int, ...], list[int]]:
        steps: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for step in self.steps:
            numbers = [self._number(name, step) for name in names]
            if None not in numbers:
                steps[tuple(n for n in numbers if n is not None)].append(step)
        return steps

    def _number(self, name: str, step: int) -> int | None:
        if name == "step":
            return step
        epoch = self.epochs.get(step) if self.epochs else step
        if name != INDEX or epoch is None:
            return epoch
        return epoch - self._first_epoch if self._first_epoch in (0, 1) else None

    @cached_property
    def _first_epoch(self) -> int:
        return min(self.epochs.values() if self.epochs else self.steps)
