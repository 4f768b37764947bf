"""Temperature scaling: one scalar on the logits, fitted by likelihood.

With β = 1/T the mean negative log-likelihood

    f(β) = Σ_i w_i · [ logsumexp(β z_i) − β z_i[y_i] ]

is convex: f'(β) = Σ w_i (E_p[z_i] − z_i[y_i]) and f''(β) = Σ w_i Var_p(z_i), p = softmax(β z_i).
So Newton's method works in β, inside a bracket that every evaluation narrows. A minimum at a
positive, finite β exists exactly where f'(0) < 0 (better than uniform guessing on average) and some
example is predicted incorrectly (f' becomes positive as β grows).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import FloatArray, IntArray, binary, to_floats, to_numpy

State: TypeAlias = Literal["fitted", "separable", "uniform", "flat"]

LARGEST = 2.0**60  # in place of an infinite temperature, or of 1/T
_ROUNDS = 200

REASONS: dict[str, str] = {
    "separable": ("every example is predicted correctly, so the likelihood grows as T falls to 0"),
    "uniform": ("the logits are no better than uniform guessing, so the likelihood grows with T"),
    "flat": "all logits of every example are equal, so T changes nothing",
}


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature, or why there is none.

    Attributes:
        value: T; 1 where no finite optimum exists, which leaves the probabilities as they are.
        state: "fitted", "separable" (the optimum is T → 0), "uniform" (T → ∞) or "flat".
        before, after: mean NLL on the examples it was fitted on, at T = 1 and at T.
        n: how many examples those are.
        errors: how many of the examples are predicted incorrectly.
    """

    value: float
    state: State
    before: float
    after: float
    n: int
    errors: int = 0

    @property
    def finite(self) -> bool:
        """Whether a finite optimum exists."""
        return self.state == "fitted"

    @property
    def note(self) -> str:
        """Why nothing was fitted, or an empty text."""
        if self.finite:
            return ""
        return f"no finite temperature is best: {REASONS[self.state]}; T stays 1"


def fit_temperature(logits: Any, labels: Any, *, weights: Any = None) -> Temperature:
    """The temperature that minimises the mean NLL of ``softmax(logits / T)``.

    Args:
        logits: [n, C], finite.
        labels: [n] integers.
        weights: [n] nonnegative weights of the examples; all equal if not given.

    Example:
        >>> fit = fit_temperature([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [2.0, 0.0]], [0, 0, 0, 1])
        >>> round(fit.value, 6)        # 2 / log 3: the probability of the first class is 3/4
        1.820478
    """
    z, y, w = check_examples(logits, labels, weights)
    loss = _Loss(z, y, w)
    before = loss.value(1.0)
    errors = int((z.argmax(axis=1) != y).sum())
    if not np.ptp(z, axis=1).any():
        return Temperature(1.0, "flat", before, before, len(y), errors)
    if loss.slope(0.0)[0] >= 0:
        return Temperature(1.0, "uniform", before, before, len(y), errors)
    if loss.steepest <= 0:
        return Temperature(1.0, "separable", before, before, len(y), errors)
    beta = _newton(loss)
    if beta is None:  # the one wrong example is wrong by less than floating point resolves
        return Temperature(1.0, "separable", before, before, len(y), errors)
    return Temperature(1 / beta, "fitted", before, loss.value(beta), len(y), errors)


def scaled(logits: Any, temperature: Any) -> FloatArray:
    """``logits / T`` in double precision, so that no two logits become equal on the way.

    ``temperature`` is a number, or one per example.
    """
    by = to_floats(temperature, "temperature")
    values = to_floats(logits, "logits")
    if values.ndim != 2 or by.shape not in ((), (len(values),)):
        raise InputError(
            f"Expected logits [n, C] and one temperature or one per example, but got shapes "
            f"{list(values.shape)} and {list(by.shape)}."
        )
    return np.asarray(values / (by[:, None] if by.ndim else by))


class _Loss:
    """f and its derivatives for fixed examples."""

    def __init__(self, z: FloatArray, y: IntArray, w: FloatArray):
        self._z = z - z.max(axis=1, keepdims=True)  # shifts cancel; β·z stays at or below 0
        self._own = np.take_along_axis(self._z, y[:, None], axis=1)[:, 0]
        self._w = w

    @property
    def steepest(self) -> float:
        """The limit of f' as β grows: Σ w (max z − z[y])."""
        return -self._mean(self._own)

    def value(self, beta: float) -> float:
        rows = np.log(np.exp(beta * self._z).sum(axis=1)) - beta * self._own
        return self._mean(rows)

    def slope(self, beta: float) -> tuple[float, float]:
        """f'(β) and f''(β)."""
        p = np.exp(beta * self._z)
        p /= p.sum(axis=1, keepdims=True)
        mean = (p * self._z).sum(axis=1)
        spread = (p * (self._z - mean[:, None]) ** 2).sum(axis=1)
        return self._mean(mean - self._own), self._mean(spread)

    def _mean(self, rows: FloatArray) -> float:
        return float((self._w * rows).sum())  # summed in pairs, and BLAS starts no threads


def _newton(loss: _Loss) -> float | None:
    """The root of f' by Newton steps that stay inside a shrinking bracket."""
    low, high = 0.0, 1.0
    while loss.slope(high)[0] < 0:
        low, high = high, 2 * high
        if high > LARGEST:
            return None
    beta = high if low else 0.5
    for _ in range(_ROUNDS):
        first, second = loss.slope(beta)
        step = beta - first / second if second > 0 else -1.0
        if abs(step - beta) <= 1e-9 * beta:  # quadratic: this step ends at rounding error
            return step
        low, high = (beta, high) if first < 0 else (low, beta)
        beta = step if low < step < high else (low + high) / 2
    return beta


def check_examples(
    logits: Any, labels: Any, weights: Any = None
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Logits, labels and weights as arrays; what cannot be fitted is refused."""
    z, y = binary(to_floats(logits, "logits"), to_numpy(labels, "labels"), "logits")
    if z.ndim != 2 or z.shape[1] < 2 or len(z) == 0:
        raise InputError(
            f"Expected logits of shape [n, C] with n of at least 1 and C of at least 2, but got "
            f"{list(z.shape)}: save one row of logits per validation example."
        )
    if y.shape != (len(z),) or y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= z.shape[1]:
        raise InputError(
            f"Expected {len(z)} labels between 0 and {z.shape[1] - 1}, but got {y.dtype} values of "
            f"shape {list(y.shape)}: pass the labels of the same examples."
        )
    if not np.isfinite(z).all():
        row = int(np.flatnonzero(~np.isfinite(z).all(axis=1))[0])
        raise InputError(
            f"Expected finite logits, but got {z[row].tolist()!s:.60} in row {row}: a checkpoint "
            "that diverged has no temperature; choose another."
        )
    w = np.ones(len(z)) if weights is None else to_floats(weights, "weights")
    if w.shape != (len(z),) or not np.isfinite(w).all() or w.min() < 0 or w.sum() <= 0:
        raise InputError(
            f"Expected {len(z)} weights of 0 or more that are not all 0, but got shape "
            f"{list(w.shape)}: pass one weight per example."
        )
    used = w > 0
    return z[used], y[used].astype(np.int64), w[used] / w.sum()
