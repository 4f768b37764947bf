"""The loss valley of a run, as SWAD finds it: where validation loss has settled and stays low.

Two queues hold the latest endpoints, ``n_converge`` and ``n_tolerance`` of them. The run has
converged once the oldest of the first queue is its minimum; the threshold is the mean of that
queue times 1 + ``tolerance_ratio``. From there on the oldest of the second queue joins the valley
whenever a new endpoint arrives, until everything in that queue lies above the threshold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import number, to_floats, whole

LONGEST = 1_000_000  # endpoints that a queue may hold

Mode: TypeAlias = Literal["faithful", "as-described"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)

Endpoint: TypeAlias = tuple[int, float]


@dataclass(frozen=True)
class LossValley:
    """Which endpoints to average."""

    # Positions in the losses, in the order they were added. In the faithful mode one may occur
    # twice, and then counts twice.
    indices: tuple[int, ...]
    converged_at: int | None  # from which endpoint the loss had settled; None where it never did
    threshold: float | None  # the highest loss of the valley
    dead: bool  # whether the valley ended before the run did
    notes: tuple[str, ...]  # what a reader should know of this run

    @property
    def multiplicities(self) -> dict[int, int]:
        """How often each endpoint counts, in the order of their first addition."""
        return {index: self.indices.count(index) for index in dict.fromkeys(self.indices)}


def loss_valley(
    losses: Iterable[float],
    n_converge: int = 3,
    n_tolerance: int = 6,
    tolerance_ratio: float = 0.3,
    mode: Mode = "faithful",
) -> LossValley:
    """Find the loss valley in the mean validation losses of a run's endpoints.

    ``faithful`` follows the released code to the letter, with its repeated and left-out endpoints.
    ``as-described`` takes every endpoint from the first in the valley to the last before it ends,
    once each: back from the convergence point for as long as losses stay below the threshold (at
    most ``n_tolerance`` − ``n_converge`` endpoints), and forward to the last one below it.

    Example:
        >>> loss_valley([1.0, 0.6, 0.5, 0.5, 0.52, 0.5, 0.51]).indices
        (2, 3, 2, 3, 4, 5, 6)
        >>> loss_valley([1.0, 0.6, 0.5, 0.5, 0.52, 0.5, 0.51], mode="as-described").indices
        (1, 2, 3, 4, 5, 6)
    """
    values = _checked(losses)
    if mode not in MODES:
        raise InputError(f"Expected `mode` among {', '.join(MODES)}, but got {mode!r}.")
    search = ValleySearch(n_converge, n_tolerance, tolerance_ratio)
    indices: list[int] = []
    for loss in values:
        indices += search.add(loss)
    indices += search.close()
    notes = ["the valley ended before the run did"] * search.dead
    if search.converged_at is None:
        notes = ["the loss never settled: the last checkpoint is taken"]
    elif mode == "as-described":
        indices = _once_each(values, search)
    return LossValley(
        tuple(indices), search.converged_at, search.threshold, search.dead, tuple(notes)
    )


class ValleySearch:
    """The same search one endpoint at a time, for those who cannot keep every endpoint.

    ``add`` and ``close`` return the endpoints to add now; ``needed`` says which of the earlier ones
    may still be returned. ``state`` is plain and gives a search that continues alike.
    """

    def __init__(
        self, n_converge: int = 3, n_tolerance: int = 6, tolerance_ratio: float = 0.3
    ) -> None:
        for name, value in (("n_converge", n_converge), ("n_tolerance", n_tolerance)):
            whole(value, name, least=1, most=LONGEST)
        self._ratio = number(tolerance_ratio, "tolerance_ratio", least=0)
        self._latest: deque[Endpoint] = deque(maxlen=n_converge)
        self._window: deque[Endpoint] = deque(maxlen=n_tolerance)
        self.seen = 0
        self.added = 0
        self.converged_at: int | None = None
        self.threshold: float | None = None
        self.dead = False
        self.ended_at: int | None = None

    @property
    def reach(self) -> int:
        """How many endpoints before the convergence point the valley may begin."""
        return max(0, (self._window.maxlen or 0) - (self._latest.maxlen or 0))

    def add(self, loss: float) -> list[int]:
        """Take the next endpoint; the endpoints that join the valley now."""
        self.seen += 1
        if self.dead:
            return []
        endpoint = (self.seen - 1, loss)
        self._latest.append(endpoint)
        self._window.append(endpoint)
        joining = self._settle() if self.converged_at is None else self._go_on()
        self.added += len(joining)
        return joining

    def close(self) -> list[int]:
        """The endpoints that join at the end of the run."""
        if self.converged_at is None or self.threshold is None:
            return [self._latest[-1][0]] if self._latest else []
        joining = []
        if not self.dead:
            left = list(self._window)[1:]
            while left and min(loss for _, loss in left) <= self.threshold:
                joining.append(left.pop(0)[0])
        return joining if joining or self.added else [self.converged_at]

    @property
    def needed(self) -> set[int]:
        """Endpoints that a later call may return."""
        recent = {index for index, _ in (*self._window, *self._latest)}
        if self.converged_at is None:
            return recent
        alone = set() if self.added else {self.converged_at}
        return alone if self.dead else {index for index, _ in self._window} | alone

    def state(self) -> dict[str, Any]:
        """All that later calls depend on; plain JSON."""
        return {
            "latest": [list(endpoint) for endpoint in self._latest],
            "window": [list(endpoint) for endpoint in self._window],
            "seen": self.seen,
            "added": self.added,
            "converged_at": self.converged_at,
            "threshold": self.threshold,
            "dead": self.dead,
            "ended_at": self.ended_at,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``."""
        self._latest.clear()
        self._latest.extend((int(index), float(loss)) for index, loss in state["latest"])
        self._window.clear()
        self._window.extend((int(index), float(loss)) for index, loss in state["window"])
        self.seen, self.added = int(state["seen"]), int(state["added"])
        self.converged_at, self.threshold = state["converged_at"], state["threshold"]
        self.dead, self.ended_at = bool(state["dead"]), state["ended_at"]

    def _settle(self) -> list[int]:
        """Converge where the oldest of a full queue is its minimum, the first of equals."""
        latest, window = list(self._latest), list(self._window)
        losses = [loss for _, loss in latest]
        if len(latest) < (self._latest.maxlen or 0) or losses[0] > min(losses):
            return []
        self.converged_at = latest[0][0]
        self.threshold = float(np.mean(losses)) * (1 + self._ratio)
        longer = (self._window.maxlen or 0) - (self._latest.maxlen or 0)
        if longer < 0:
            return [index for index, _ in latest[1 : 1 - longer]]
        if longer == 0:
            return []
        oldest = window[: longer + 1]
        above = [at for at, (_, loss) in enumerate(oldest) if loss > self.threshold]
        start = above[-1] + 1 if above else 0
        # The released code leaves out the first of them.
        return [index for index, _ in oldest[start + 1 :]]

    def _go_on(self) -> list[int]:
        head = self._window[0][0]
        assert self.converged_at is not None
        assert self.threshold is not None
        if head < self.converged_at:
            return []
        if min(loss for _, loss in self._window) > self.threshold:
            self.dead = True
            self.ended_at = self._window[-1][0]
            return []
        return [head]


def _once_each(losses: list[float], search: ValleySearch) -> list[int]:
    assert search.converged_at is not None
    assert search.threshold is not None
    first = search.converged_at
    earliest = max(0, first - search.reach)
    while first > earliest and losses[first - 1] <= search.threshold:
        first -= 1
    lived = losses[: search.ended_at]
    last = max(i for i, loss in enumerate(lived) if i >= first and loss <= search.threshold)
    return list(range(first, last + 1))


def _checked(losses: Iterable[float]) -> list[float]:
    array = to_floats(list(losses) if isinstance(losses, Iterator) else losses, "losses")
    if array.ndim != 1 or not len(array):
        raise InputError(
            f"Expected one loss per endpoint, but got shape {list(array.shape)}.",
            code="value" if array.size else "empty",
        )
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        raise InputError(
            f"Expected finite losses of 0 or more, but got {array[wrong[0]]} at index {wrong[0]}: "
            "leave out diverged endpoints."
        )
    values: list[float] = array.tolist()
    return values
