"""What other parts of the library may do while a run trains."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from checkwise.train.algorithms import Algorithm


class Hook(Protocol):
    """Called by the loop. A hook must not draw from torch's generator nor change the algorithm.

    ``name`` tells the states of several hooks apart. ``state()`` is saved with the run's own state
    (plain containers and tensors) and passed to ``load_state`` when the run is resumed, so what a
    hook writes has to follow from its state and the calls after it.
    """

    name: str

    def after_update(self, step: int, algorithm: Algorithm) -> None:
        """After every update; ``step`` counts from 0."""

    def at_record(self, record: Mapping[str, Any], algorithm: Algorithm, folder: Path) -> None:
        """Just before a record is committed; ``record`` is its line in ``source.jsonl``."""

    def state(self) -> dict[str, Any]:
        """All that later calls depend on."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``."""
