"""The checks of a trajectory's parts; each error names step, domain and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import METRICS, is_number, to_floats, to_numpy
from checkwise.records.examples import BoolArray, FloatArray, IntArray
from checkwise.records.held_out import folded
from checkwise.words import is_plain, shown

if TYPE_CHECKING:
    from checkwise.records.trajectory import RunKey, Trajectory

LARGEST_COUNT = 2**53  # above it, floats skip whole numbers
LARGEST_DIFFERENCE = 1e-4  # of correct / n from an accuracy that was rounded


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that nobody can write to."""
    array = np.array(array)
    array.setflags(write=False)
    return array


def steps(raw: Any) -> IntArray:
    array = to_numpy(raw, "steps")
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"Expected a list of at least one step, but got shape {array.shape}: "
            "give one training step per checkpoint.",
            code="empty",
        )
    array = whole_numbers(array, "step")
    for before, after in zip(array[:-1].tolist(), array[1:].tolist(), strict=True):
        if before == after:
            raise InputError(
                f"Step {after} appears twice: keep one row per step and domain "
                "(the last one, if the run was restarted).",
                code="ambiguous",
            )
        if before > after:
            raise InputError(
                f"Expected steps in increasing order, but {after} follows {before}: sort them."
            )
    if array[0] < 0:
        raise InputError(f"Expected steps of 0 or more, but got {array[0]}.")
    return frozen(array)


def whole_numbers(array: NDArray[Any], what: str) -> IntArray:
    """Integers, also where a reader made floats of them."""
    if array.dtype.kind == "i":
        return array.astype(np.int64)
    if array.dtype.kind not in "ufO":
        raise InputError(f"Expected whole numbers as {what}, but got {array.dtype} values.")
    for value in array.ravel().tolist() if array.dtype.kind == "O" else ():
        if not is_number(value):
            raise InputError(f"Expected whole numbers as {what}, but got {shown(value)}.")
    as_float = to_floats(array, what)
    odd = (
        ~np.isfinite(as_float)
        | (as_float != np.floor(as_float))
        | (np.abs(as_float) > LARGEST_COUNT)
    )
    if odd.any():
        where = int(np.flatnonzero(odd.ravel())[0])
        raise InputError(
            f"Expected whole numbers as {what}, but got {as_float.ravel()[where]} in row {where}: "
            f"a missing {what} has to be filled in or its row removed."
        )
    return as_float.astype(np.int64)


def domains(raw: Iterable[str]) -> tuple[str, ...]:
    try:
        names = (raw,) if isinstance(raw, str) else tuple(raw)
    except TypeError:
        raise InputError(f"Expected a list of source domains, but got {shown(raw)}.") from None
    if not names:
        raise InputError("Expected at least one source domain, but got none.", code="empty")
    names = tuple(plain_name(name, "a domain's name") for name in names)
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(
                f"Domain {name!r} is listed twice: domain names have to differ.", code="ambiguous"
            )
    return names


def plain_name(name: Any, what: str) -> str:
    """A name as text that can be printed on one line."""
    if not isinstance(name, str | int | np.integer) or isinstance(name, bool):
        raise InputError(f"Expected {what} as text, but got {shown(name)}.")
    if not is_plain(str(name)):
        raise InputError(
            f"Expected {what} as text on one line without control characters, but got "
            f"{shown(name)}: rename it."
        )
    return str(name)


def key(raw: RunKey | None, domains: Sequence[str]) -> RunKey | None:
    """The run's key, whose held-out domains must not be among its sources."""
    sources = {folded(domain): domain for domain in reversed(domains)}
    for target in raw.held_out if raw else ():
        if (domain := sources.get(folded(target))) is not None:
            raise InputError(
                f"Expected source domains only, but {domain!r} is among them and run {raw} "
                f"holds out {target!r}: remove its records, or correct the key.",
                code="held-out",
            )
    return raw


def diverged(raw: Any, steps: IntArray) -> BoolArray:
    array = np.zeros(len(steps), bool) if raw is None else to_numpy(raw, "diverged")
    if array.shape != steps.shape or array.dtype.kind != "b":
        raise InputError(
            f"Expected `diverged` to be {len(steps)} booleans, one per step, "
            f"but got {array.dtype} of shape {array.shape}."
        )
    if array.all():
        raise InputError(
            f"All {len(steps)} checkpoints diverged (outputs not finite): there is nothing to "
            "select; train again with a smaller learning rate.",
            code="empty",
        )
    return frozen(array)


def values(
    raw: Mapping[str, Any], steps: IntArray, domains: Sequence[str], diverged: BoolArray
) -> dict[str, FloatArray]:
    """Metrics by name, one value per step and domain."""
    if not isinstance(raw, Mapping):
        raise InputError(f"Expected metrics by name, but got {shown(raw)}.")
    return {
        name: _metric(name, metric, steps, [repr(domain) for domain in domains], diverged)
        for name, metric in raw.items()
    }


def pooled(
    raw: Mapping[str, Any],
    steps: IntArray,
    diverged: BoolArray,
    values: Mapping[str, FloatArray],
) -> dict[str, FloatArray]:
    """Metrics that are known as one mean per step alone."""
    if not values and not raw:
        raise InputError(
            "Expected at least one metric, but got none: give accuracy, nll, or any other score, "
            "one value per step and domain.",
            code="empty",
        )
    if "accuracy" in raw and "accuracy" not in values:
        raise InputError(
            "Expected accuracy for every domain, but got it as a mean over domains: give it "
            "per domain, or as the accuracy of a single one.",
            code="missing",
        )
    for name in raw:
        if name in values:
            raise InputError(
                f"Metric {name!r} is given per domain and as a mean: keep one.", code="ambiguous"
            )
    return {name: _metric(name, metric, steps, None, diverged) for name, metric in raw.items()}


def _metric(
    name: str, raw: Any, steps: IntArray, domains: Sequence[str] | None, diverged: BoolArray
) -> FloatArray:
    array = to_floats(raw, plain_name(name, "a metric's name"))
    shape = (len(steps),) if domains is None else (len(steps), len(domains))
    if array.shape != shape:
        what = "one mean per step" if domains is None else "shape (steps, domains) ="
        raise InputError(f"Expected {name} as {what} {shape}, but got {array.shape}.")
    bad = np.argwhere(outside(array, name) & ~(diverged if domains is None else diverged[:, None]))
    if len(bad):
        t, *e = bad[0].tolist()
        where = "mean over domains" if domains is None else domains[e[0]]
        raise InputError(_complaint(name, array[(t, *e)], int(steps[t]), where))
    return frozen(array)


def outside(array: FloatArray, name: str) -> BoolArray:
    """Where an array holds what no metric of that name can be."""
    with np.errstate(invalid="ignore"):
        bad: BoolArray = ~np.isfinite(array)
        if name in METRICS:
            bad |= (array < 0) | (array > METRICS[name].largest)
    return bad


def _complaint(name: str, value: float, step: int, domain: str) -> str:
    where = f"{name} = {value:g} at step {step}, domain {domain}"
    if not np.isfinite(value):
        return (
            f"Expected finite values, but got {where}: drop that checkpoint, or mark it "
            "`diverged` to keep it in the table."
        )
    if value < 0:
        return f"Expected {name} of 0 or more, but got {where}: check how it was logged."
    hint = "divide by 100" if value <= 100 else "check how it was logged"
    return f"Expected {name} as a fraction between 0 and 1, but got {where}: {hint}."


def counts(raw: Any, domains: Sequence[str]) -> IntArray | None:
    if raw is None:
        return None
    array = whole_numbers(to_numpy(raw, "counts"), "n")
    if array.shape != (len(domains),):
        raise InputError(
            f"Expected one count per domain ({len(domains)}), but got shape {array.shape}."
        )
    for name, n in zip(domains, array.tolist(), strict=True):
        if n < 1:
            raise InputError(f"Expected n of at least 1, but got {n} for domain {name!r}.")
    return frozen(array)


def correct(raw: Any, run: Trajectory) -> IntArray | None:
    """The number correct as given, or accuracy × n where that is clear."""
    if "accuracy" not in run.values:
        if raw is not None:
            raise InputError(
                "Expected accuracy beside the number correct, but the run has none: add it, as "
                "correct / n.",
                code="missing",
            )
        return None
    accuracy, counts = run.values["accuracy"], run.counts
    if counts is None:
        return None
    if raw is None:
        return _whole_correct(accuracy, counts, run.diverged)
    array = whole_numbers(to_numpy(raw, "correct"), "number correct")
    if array.shape != accuracy.shape:
        raise InputError(f"Expected `correct` of shape {accuracy.shape}, but got {array.shape}.")
    off = (np.abs(array / counts - accuracy) > LARGEST_DIFFERENCE) & ~run.diverged[:, None]
    bad = (array < 0) | (array > counts) | off
    if bad.any():
        t, e = (int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"{array[t, e]} correct of n = {counts[e]} does not fit accuracy "
            f"{accuracy[t, e]:g} at step {run.steps[t]}, domain {run.domains[e]!r}: "
            "check both columns.",
            code="differs",
        )
    return frozen(array)


def _whole_correct(accuracy: FloatArray, counts: IntArray, diverged: BoolArray) -> IntArray | None:
    """accuracy × n where that is whole; None where rounding makes it unclear."""
    product = np.where(diverged[:, None], 0.0, accuracy) * counts
    whole = np.rint(product)
    # A float32 accuracy is off by at most 6e-8 relative; a percentage rounded to two digits is not.
    if (np.abs(product - whole) > np.minimum(1e-3 + 1e-7 * counts, 0.4)).any():
        return None
    return frozen(whole.astype(np.int64))


def paths(raw: Any, steps: IntArray) -> tuple[str | None, ...] | None:
    if raw is None:
        return None
    if isinstance(raw, str):
        raise InputError(f"Expected one path per step, but got {raw!r}.")
    listed = tuple(None if path is None else str(path) for path in raw)
    if len(listed) != len(steps):
        raise InputError(f"Expected {len(steps)} paths, one per step, but got {len(listed)}.")
    return listed
