"""The accuracy-constrained rule as the paper writes it, with fractions and loops."""

from __future__ import annotations

from fractions import Fraction


def accuracy_constrained(
    steps: list[int],
    correct: list[list[int]],  # correct predictions at each step, in each domain
    n: list[int],  # validation examples in each domain
    errors: dict[str, list[float]],  # objective: its mean over domains at each step
    delta: str,  # the tolerance in percentage points, as a decimal
    q: float,  # 1, 2 or inf
    eta: float = 1e-12,
) -> tuple[int, list[int]]:
    """The chosen step and the feasible steps."""
    accuracy = [
        100 * sum(Fraction(c, size) for c, size in zip(row, n, strict=True)) / len(n)
        for row in correct
    ]
    edge = max(accuracy) - Fraction(delta)
    feasible = [t for t in range(len(steps)) if accuracy[t] >= edge]

    rescaled: dict[str, dict[int, float]] = {}
    for objective, values in errors.items():
        low, high = min(values[t] for t in feasible), max(values[t] for t in feasible)
        rescaled[objective] = {
            t: (values[t] - low) / (high - low + eta) if high > low else 0.0 for t in feasible
        }

    def distance(t: int) -> float:
        point = [values[t] for values in rescaled.values()]
        return max(point) if q == float("inf") else sum(x**q for x in point) ** (1 / q)

    best = min(feasible, key=lambda t: (distance(t), -accuracy[t], steps[t]))
    return steps[best], [steps[t] for t in feasible]
