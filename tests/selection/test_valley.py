"""The loss valley against a literal replay with real queues of models."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest

import checkwise as cw
from checkwise.selection import ValleySearch
from tests.refusals import refused


@dataclass(eq=False)
class Segment:
    """A model at an endpoint, with the loss it was evaluated to."""

    at: int
    loss: float


class Replay:
    """Queues of segments handled one evaluation at a time, and a final model that collects them."""

    def __init__(self, nc: int, nt: int, ratio: float) -> None:
        self.nc, self.nt, self.ratio = nc, nt, ratio
        self.converge_queue: deque[Segment] = deque(maxlen=nc)
        self.smooth_queue: deque[Segment] = deque(maxlen=nt)
        self.start: Segment | None = None
        self.collected: list[Segment] = []
        self.bound = math.nan
        self.over = False

    def evaluated(self, segment: Segment) -> None:
        if self.over:
            return
        self.converge_queue.append(segment)
        self.smooth_queue.append(segment)
        if self.start is None:
            if len(self.converge_queue) == self.nc:
                losses = np.array([s.loss for s in self.converge_queue])
                if np.argmin(losses) == 0:
                    self.begin(losses)
            return
        if self.smooth_queue[0].at < self.start.at:
            return
        if self.lowest() > self.bound:
            self.over = True
            return
        self.collected.append(self.smooth_queue[0])

    def begin(self, losses: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        self.start = self.converge_queue[0]
        self.bound = float(np.mean(losses)) * (1.0 + self.ratio)
        if self.nt < self.nc:
            for i in range(self.nc - self.nt):
                self.collected.append(self.converge_queue[1 + i])
        elif self.nt > self.nc:
            head = list(self.smooth_queue)[: self.nt - self.nc + 1]
            begin = 0
            for i in reversed(range(len(head))):
                if head[i].loss > self.bound:
                    begin = i + 1
                    break
            for segment in head[begin + 1 :]:
                self.collected.append(segment)

    def lowest(self) -> float:
        return min(segment.loss for segment in self.smooth_queue)

    def final(self) -> list[int]:
        if self.start is None:
            return [self.converge_queue[-1].at]
        if not self.over:
            self.smooth_queue.popleft()
            while self.smooth_queue:
                if self.lowest() > self.bound:
                    break
                self.collected.append(self.smooth_queue.popleft())
        return [segment.at for segment in self.collected] or [self.start.at]


def curve(random: np.random.Generator, length: int) -> list[float]:
    """A loss curve of one of many shapes, ties included."""
    t = np.arange(length)
    shape = random.integers(6)
    if shape == 0:
        values = random.random(length)
    elif shape == 1:
        values = np.exp(-t / 5) + 0.3 + 0.02 * random.random(length)
    elif shape == 2:
        values = 2.0 - t / (length + 1)  # never settles
    elif shape == 3:
        values = 0.2 + (t / max(1, length) - random.random()) ** 2 * random.integers(1, 20)
    elif shape == 4:
        values = random.integers(0, 4, length) / 2  # ties, and losses of nought
    else:
        values = np.where(random.random(length) < 0.2, 5.0, 0.4 + 0.1 * random.random(length))
    return [float(value) for value in values]


def test_thousands_of_curves_give_what_the_queues_give() -> None:
    random = np.random.default_rng(5)
    seen = {"never": 0, "dead": 0, "early": 0, "shorter": 0, "equal": 0, "longer": 0, "one": 0}
    seen |= {"nothing added": 0, "twice": 0}
    for _ in range(4000):
        length = int(random.choice([1, 2, 3, 5, 8, 13, 25, 51]))
        nc, nt = int(random.integers(1, 6)), int(random.integers(1, 9))
        ratio = float(random.choice([0.0, 0.05, 0.3, 1.0]))
        losses = curve(random, length)
        replay = Replay(nc, nt, ratio)
        for at, loss in enumerate(losses):
            replay.evaluated(Segment(at, loss))
        expected = replay.final()
        found = cw.loss_valley(losses, nc, nt, ratio)
        assert list(found.indices) == expected, (losses, nc, nt, ratio)
        assert (found.converged_at is None) == (replay.start is None)
        assert found.dead == replay.over
        if replay.start is not None:
            assert found.converged_at == replay.start.at
            assert found.threshold == pytest.approx(replay.bound, rel=1e-15)
        seen["never"] += replay.start is None
        seen["dead"] += replay.over
        seen["early"] += replay.start is not None and replay.start.at + nc < nt
        seen["shorter" if nt < nc else "equal" if nt == nc else "longer"] += 1
        seen["one"] += length == 1
        seen["nothing added"] += replay.start is not None and not replay.collected
        seen["twice"] += len(set(expected)) < len(expected)
    assert min(seen.values()) >= 20, seen


def test_as_described_is_every_endpoint_of_the_valley_once() -> None:
    random = np.random.default_rng(6)
    for _ in range(1000):
        losses = curve(random, int(random.integers(1, 40)))
        nc, nt = int(random.integers(1, 6)), int(random.integers(1, 9))
        found = cw.loss_valley(losses, nc, nt, 0.3, mode="as-described")
        faithful = cw.loss_valley(losses, nc, nt, 0.3)
        if faithful.converged_at is None:
            assert found.indices == (len(losses) - 1,)
            continue
        assert faithful.threshold is not None
        first, last = found.indices[0], found.indices[-1]
        assert found.indices == tuple(range(first, last + 1))
        assert first <= faithful.converged_at <= last
        assert losses[first] <= faithful.threshold
        assert losses[last] <= faithful.threshold
        before = range(max(0, faithful.converged_at - max(0, nt - nc)), faithful.converged_at + 1)
        walked = [i for i in before if max(losses[i : before[-1] + 1]) <= faithful.threshold]
        assert first == walked[0]
        if not faithful.dead:
            assert all(loss > faithful.threshold for loss in losses[last + 1 :])
        else:
            assert all(loss > faithful.threshold for loss in losses[last + 1 : last + 1 + nt])


def test_the_queue_leaves_one_out_and_takes_another_twice() -> None:
    losses = [1.0, 0.6, 0.5, 0.5, 0.52, 0.5, 0.51]
    assert cw.loss_valley(losses).indices == (2, 3, 2, 3, 4, 5, 6)
    assert cw.loss_valley(losses).multiplicities == {2: 2, 3: 2, 4: 1, 5: 1, 6: 1}
    assert cw.loss_valley(losses, mode="as-described").indices == (1, 2, 3, 4, 5, 6)


def test_one_endpoint_is_all_there_is() -> None:
    found = cw.loss_valley([0.7])
    assert found.indices == (0,)
    assert found.converged_at is None
    assert "never settled" in found.notes[0]


@pytest.mark.parametrize("cut", [0, 1, 4, 7, 12])
def test_a_search_continues_from_its_state(cut: int) -> None:
    random = np.random.default_rng(cut)
    losses = curve(random, 20)
    search, whole = ValleySearch(), []
    for loss in losses[:cut]:
        whole += search.add(loss)
    again = ValleySearch()
    again.load_state(search.state())
    for loss in losses[cut:]:
        whole += again.add(loss)
    assert tuple(whole + again.close()) == cw.loss_valley(losses).indices


def test_what_a_search_needs_is_all_it_will_ask_for() -> None:
    random = np.random.default_rng(8)
    for _ in range(500):
        nc, nt = int(random.integers(1, 5)), int(random.integers(1, 8))
        search = ValleySearch(nc, nt, 0.3)
        kept: set[int] = set()
        for at, loss in enumerate(curve(random, 30)):
            assert set(search.add(loss)) <= kept | {at}
            kept = (kept | {at}) & search.needed
            assert len(kept) <= max(nc, nt) + 1
        assert set(search.close()) <= kept


@pytest.mark.parametrize(
    ("losses", "options", "words"),
    [
        ([], {}, "empty"),
        ([0.1, math.nan], {}, "value: 1"),
        ([0.1, math.inf], {}, "value"),
        ([-0.1], {}, "value: 0"),
        ([0.1], {"n_converge": 0}, "value: n_converge"),
        ([0.1], {"n_tolerance": 0}, "value: n_tolerance"),
        ([0.1], {"tolerance_ratio": -1.0}, "value: tolerance_ratio"),
        ([0.1], {"mode": "literal"}, "value: as-described"),
    ],
)
def test_what_has_no_valley_is_refused(
    losses: list[float], options: dict[str, object], words: str
) -> None:
    with refused(words):
        cw.loss_valley(losses, **options)  # type: ignore[arg-type]
