"""The accuracy-constrained rule written out with fractions and loops, straight from the paper."""

from __future__ import annotations

from fractions import Fraction

Domains = dict[str, dict[str, float]]


def mean_accuracy(correct: list[int], n: list[int]) -> Fraction:
    return (
        100 * sum((Fraction(c, m) for c, m in zip(correct, n, strict=True)), Fraction(0)) / len(n)
    )


def accuracy_constrained(
    steps: list[int],
    correct: list[list[int]],
    n: list[int],
    errors: dict[str, list[float]],
    delta: str,
    q: float,
    eta: float = 1e-12,
) -> tuple[int, list[int]]:
    """The chosen step and the feasible steps; ``errors`` are means over domains."""
    accuracy = [mean_accuracy(row, n) for row in correct]
    best = max(accuracy)
    feasible = [t for t in range(len(steps)) if accuracy[t] >= best - Fraction(delta)]
    scaled: list[list[float]] = []
    for values in errors.values():
        low = min(values[t] for t in feasible)
        high = max(values[t] for t in feasible)
        scaled.append(
            [0.0 if high == low else (values[t] - low) / (high - low + eta) for t in feasible]
        )
    keys = []
    for i, t in enumerate(feasible):
        column = [row[i] for row in scaled]
        if q == 1:
            d = sum(column)
        elif q == 2:
            d = sum(v * v for v in column) ** 0.5
        else:
            d = max(column)
        keys.append((d, -accuracy[t], steps[t]))
    return min(keys)[2], [steps[t] for t in feasible]
