"""Saved outputs of every checkpoint turned into the arrays of a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from checkwise import metrics
from checkwise.errors import InputError
from checkwise.records.columns import left_out


def evaluate(
    saved: Mapping[int, Mapping[str, tuple[Any, Any]]],
    *,
    kind: str,
    bins: int,
    bandwidth: float,
    held_out: str | Iterable[str] | None,
    progress: Callable[[int], None] | None,
) -> dict[str, Any]:
    """Arguments of ``Trajectory`` from ``{step: {domain: (outputs, labels)}}``."""
    if kind not in ("logits", "probs"):
        raise InputError(f"Expected kind 'logits' or 'probs', but got {kind!r}.")
    steps = sorted(saved)
    if not steps:
        raise InputError("Expected predictions of at least one checkpoint, but got none.")
    names = _source_domains(saved[steps[0]], steps[0], held_out)
    labels: dict[str, Any] = {}
    values: dict[str, list[list[float]]] = {}
    correct, diverged, notes = [], [], []
    for done, step in enumerate(steps, start=1):
        outputs = saved[step]
        _check_domains(outputs, names, step, held_out)
        row: list[dict[str, float]] = []
        right: list[int] = []
        lost = None
        for name in names:
            z, y = _pair(outputs[name], step, name)
            if name in labels and not np.array_equal(labels[name], y):
                raise InputError(
                    f"The labels of domain {name!r} at step {step} differ from those at step "
                    f"{steps[0]}: evaluate every checkpoint on the same examples in one order."
                )
            labels.setdefault(name, y)
            if kind == "logits" and not _usable(z):
                lost = name
                continue
            found, n_right = _measure(z, y, kind, bins, bandwidth, f"step {step}, domain {name!r}")
            row.append(found)
            right.append(n_right)
        if lost is not None:
            notes.append(f"step {step} diverged: logits of domain {lost!r} are not finite")
            right = [0] * len(names)
            row = [dict.fromkeys(metrics.METRICS, np.nan)] * len(names)
        diverged.append(lost is not None)
        correct.append(right)
        for metric in metrics.METRICS:
            values.setdefault(metric, []).append([found[metric] for found in row])
        if progress:
            progress(done)
    return {
        "steps": np.array(steps),
        "domains": tuple(names),
        "values": values,
        "counts": np.array([len(labels[name]) for name in names]),
        "correct": np.array(correct),
        "diverged": np.array(diverged),
        "bins": bins,
        "bandwidth": bandwidth,
        "notes": tuple(notes),
    }


def _source_domains(
    outputs: Mapping[str, Any], step: int, held_out: str | Iterable[str] | None
) -> list[str]:
    for name in left_out(held_out):
        if name not in outputs:
            raise InputError(
                f"Expected the held-out domain {name!r} among {', '.join(outputs)} (step {step}): "
                "check the name."
            )
    names = sorted(set(outputs) - set(left_out(held_out)))
    if not names:
        raise InputError(f"Expected at least one source domain at step {step}, but got none.")
    return names


def _check_domains(
    outputs: Mapping[str, Any], names: list[str], step: int, held_out: str | Iterable[str] | None
) -> None:
    here = set(outputs) - set(left_out(held_out))
    if here != set(names):
        odd = sorted(here.symmetric_difference(names))
        raise InputError(
            f"Expected domains {', '.join(names)} at every step, but step {step} differs in "
            f"{', '.join(odd)}: save the same domains at every checkpoint."
        )


def _pair(entry: Any, step: int, name: str) -> tuple[Any, Any]:
    try:
        z, y = entry
    except (TypeError, ValueError):
        raise InputError(
            f"Expected (outputs, labels) at step {step}, domain {name!r}, but got "
            f"{type(entry).__name__}."
        ) from None
    return metrics.to_numpy(z), metrics.to_numpy(y)


def _usable(z: Any) -> bool:
    """Finite, or -inf where a class was masked out."""
    return not bool(np.isnan(z).any() or np.isposinf(z).any())


def _measure(
    z: Any, y: Any, kind: str, bins: int, bandwidth: float, where: str
) -> tuple[dict[str, float], int]:
    try:
        report = metrics.evaluate(**{kind: z}, labels=y, bins=bins, bandwidth=bandwidth)
        values = report.values()
        values.update(metrics.evaluate_registered(**{kind: z}, labels=y))
    except InputError as error:
        raise InputError(f"{error} ({where})") from None
    return values, report.correct
