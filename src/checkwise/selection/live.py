"""Selection while training runs: add checkpoints as they come, ask at any time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from checkwise.metrics.settings import BANDWIDTH, BINS
from checkwise.records import Trajectory
from checkwise.records.from_predictions import Recorder
from checkwise.records.held_out import as_names
from checkwise.selection.default_rule import DEFAULT_RULE
from checkwise.selection.directions import Directions, check_directions
from checkwise.selection.result import Selection
from checkwise.selection.rules import find_metrics, get_rule
from checkwise.selection.select import select
from checkwise.selection.standing import Weights, check_weighting


class LiveSelector:
    """A selection that grows with the run.

    Args:
        rule: a name from :func:`rules`.
        bins, bandwidth: settings of the calibration errors.
        held_out, sources: domains that ``add`` skips unread, and domains that are validation
            although their names look held out (``test``, ``ood`` …).
        weights, worst_domain, directions, params: as for :func:`select`.

    Example:
        >>> z, y = np.array([[2.0, 0.0], [0.0, 1.0]]), [0, 1]
        >>> live = LiveSelector("ac-nc", delta_pp=0.5)
        >>> live.add(100, {"val": (-z, y)})
        >>> live.add(200, {"val": (z, y)})
        >>> live.choice, live.droppable
        (200, (100,))
    """

    def __init__(
        self,
        rule: str = DEFAULT_RULE,
        *,
        bins: int = BINS,
        bandwidth: float = BANDWIDTH,
        held_out: str | Iterable[str] | None = None,
        sources: str | Iterable[str] | None = None,
        weights: Weights = "equal",
        worst_domain: bool = False,
        directions: Directions | None = None,
        **params: Any,
    ):
        self._rule = get_rule(rule)
        find_metrics(self._rule, self._rule.complete(params))
        check_weighting(weights, worst_domain)
        self._options = {
            "weights": weights,
            "worst_domain": worst_domain,
            "directions": check_directions(directions),
            **params,
        }
        self._recorder = Recorder("logits", bins, bandwidth, as_names(held_out), as_names(sources))
        self._selection: Selection | None = None

    def add(self, step: int, outputs: Mapping[str, Any]) -> None:
        """Measure one checkpoint on source validation.

        Args:
            step: training step, later than the last one added.
            outputs: domain → ``(logits, labels)``, or a ``Report`` from an ``Accumulator``.
        """
        self._recorder.add(step, outputs)
        self._selection = None

    @property
    def trajectory(self) -> Trajectory:
        """Everything added so far."""
        return Trajectory(**self._recorder.facts())

    @property
    def selection(self) -> Selection | None:
        """The selection among the checkpoints so far; None while there is none to choose."""
        if self._selection is None and not all(self._recorder.diverged):
            self._selection = select(self.trajectory, self._rule, **self._options)
        return self._selection

    @property
    def choice(self) -> int | None:
        """The step that would be chosen if training stopped now."""
        return None if self.selection is None else self.selection.step

    @property
    def droppable(self) -> tuple[int, ...]:
        """Steps whose weights can be deleted: no later record can make the rule choose them.

        The best accuracy only grows, so what falls below the tolerance stays below. So it is with
        any other constraint and a tolerance in its own units. A relative one of p moves too: its
        edge best − p·|best| rises with the best, by 1 − p above 0 and by 1 + p below, and p is at
        most 1. Where lower is better, all of this is mirrored.

        Empty for rules to which this does not apply (``Rule.prunable``).
        """
        if not self._rule.prunable or self.selection is None:
            return ()
        eligible = self.selection.ranking.eligible
        if self.selection.params.get("pareto"):
            # A dominated checkpoint stays: the one that beats it may fall below the tolerance.
            eligible = self.selection.feasible
        return tuple(np.array(self._recorder.steps)[~eligible].tolist())
