"""Settings at the door: a number as the user wrote it, or one line on what was expected."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.words import shown

# Of the calibration errors, unless a caller says otherwise.
BINS = 15
BANDWIDTH = 0.1

MOST_BINS = 1_000  # memory grows with bins × classes
LEAST_LEVEL = 1e-300  # a share of less, or one divided by it, is no float that JSON can hold

_NUMBERS = (int, float, np.integer, np.floating, Decimal, Fraction)


def whole(value: Any, name: str, *, least: int = 0, most: int | None = None) -> int:
    """An integer from ``least`` to ``most``; 15.0 and True are none.

    Example:
        >>> whole(np.int64(15), "bins", least=2)
        15
    """
    fits = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not fits or value < least:
        raise InputError(
            f"Expected `{name}` to be an integer of at least {least}, but got {shown(value)}."
        )
    if most is not None and value > most:
        raise InputError(f"Expected `{name}` of at most {most}, but got {shown(value)}.")
    return int(value)


def number(
    value: Any,
    name: str,
    *,
    least: float = -inf,
    above: float = -inf,
    below: float = inf,
) -> float:
    """A finite number; integers, NumPy's, decimals and fractions are taken, text is not.

    Example:
        >>> number(Decimal("0.5"), "bandwidth", above=0)
        0.5
    """
    wanted = [f"of at least {least:g}"] * (least > -inf)
    wanted += [f"above {above:g}"] * (above > -inf) + [f"below {below:g}"] * (below < inf)
    plain = isinstance(value, _NUMBERS) and not isinstance(value, bool)
    try:
        as_float = float(value) if plain else inf
    except (OverflowError, ValueError):  # an integer beyond floats, a signalling NaN
        as_float = inf
    if not (-inf < as_float < inf and as_float >= least and above < as_float < below):
        needs = " and ".join(wanted)
        raise InputError(
            f"Expected `{name}` to be a number{' ' * bool(needs)}{needs}, but got {shown(value)}."
        )
    return as_float


def check_bins(bins: Any, bandwidth: Any) -> tuple[int, float]:
    """Number of bins and bandwidth as plain numbers, or an error."""
    checked = whole(bins, "bins", least=2)
    if checked > MOST_BINS:
        raise InputError(
            f"Expected at most {MOST_BINS} `bins`, but got {shown(bins)}: 15 is usual."
        )
    return checked, number(bandwidth, "bandwidth", least=1e-3)


def error_level(alpha: Any) -> float:
    """The probability of an error that is allowed: above 0, and large enough to count with.

    Example:
        >>> error_level(0.05)
        0.05
    """
    level = number(alpha, "alpha", above=0, below=1)
    if level < LEAST_LEVEL:
        raise InputError(
            f"Expected `alpha` of at least {LEAST_LEVEL:g}, but got {level:g}, which is too near 0 "
            "to compute with: 0.05 is usual."
        )
    return level
