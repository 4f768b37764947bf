"""The calibrators by name. A new one is a file and a line here, and one in `deployed.loading`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, get_args

from checkwise.calibrators.calibrator import SCHEMA, Calibrator, Fitted, State, numbers
from checkwise.calibrators.isotonic import ISOTONIC
from checkwise.calibrators.ts import TS, TS_SOFTEN
from checkwise.calibrators.ts_domains import TS_MAX, TS_MULTI, TS_WEIGHTED
from checkwise.errors import InputError
from checkwise.metrics import Logits
from checkwise.words import shown

_CALIBRATORS: Final = {
    known.name: known for known in (TS_SOFTEN, TS, TS_MAX, TS_MULTI, TS_WEIGHTED, ISOTONIC)
}
DEFAULT: Final = TS_SOFTEN.name


def calibrators() -> Mapping[str, Calibrator]:
    """Every calibrator by name.

    Example:
        >>> sorted(name for name, known in calibrators().items() if not known.sharpens)
        ['ts-max', 'ts-soften']
    """
    return MappingProxyType(_CALIBRATORS)


def get_calibrator(name: str | Calibrator) -> Calibrator:
    """The calibrator of that name; an unknown one lists the known."""
    if isinstance(name, Calibrator):
        return name
    if name not in _CALIBRATORS:
        raise InputError(
            f"Expected a calibrator among {', '.join(_CALIBRATORS)}, but got {shown(name)}: "
            "choose one.",
            code="unknown",
        )
    return _CALIBRATORS[name]


def fit(logits: Logits, calibrator: str | Calibrator = DEFAULT, *, force: bool = False) -> Fitted:
    """Fit a calibrator to the validation logits of one checkpoint.

    Args:
        logits: domain → (logits [n, C], labels [n]); one domain is enough.
        calibrator: its name.
        force: apply it even where there are too few errors to trust it.

    Example:
        >>> import numpy as np
        >>> z, y = np.array([[2.0, 0.0]] * 100), np.array([0] * 75 + [1] * 25)
        >>> fitted = fit({"validation": (z, y)})
        >>> fitted.state, round(fitted.temperature, 6), fitted.probabilities(z[:1]).round(6)
        ('fitted', 1.820478, array([[0.75, 0.25]]))
    """
    return get_calibrator(calibrator).fit(logits, force=force)


def from_dict(record: Mapping[str, Any]) -> Fitted:
    """A fitted calibrator from what ``Fitted.to_dict`` gave, or from a ``calibration.json``.

    Raises:
        InputError: it is of another schema, or damaged.
    """
    schema = record.get("schema") if isinstance(record, Mapping) else record
    if type(schema) is not int or schema != SCHEMA:
        raise InputError(
            f"Expected a calibration of schema {SCHEMA}, but got {shown(schema)}: fit it again "
            "with `checkwise deploy --calibrator-only`.",
            code="format",
        )
    for name, valid in _FIELDS.items():
        if name not in record or not valid(record[name]):
            raise _damaged(f"{name} is {shown(record.get(name, 'missing'))}")
    fitted = Fitted(
        calibrator=get_calibrator(record["calibrator"]),
        params=record["params"],
        state=record["state"],
        conditions=tuple(record["conditions"]),
        classes=record["classes"],
        n=record["n"],
        errors=record["errors"],
        before=record["nll_before"],
        after=record["nll_after"],
        forced=record["forced"],
    )
    if fitted.params is not None and not fitted.calibrator.valid(fitted.params, fitted.classes):
        raise _damaged(
            f"the parameters of {fitted.name} for {fitted.classes} classes are "
            f"{shown(fitted.params)}"
        )
    return fitted


def _damaged(how: str) -> InputError:
    return InputError(
        f"Expected a fitted calibrator, but {how}: fit it again with `checkwise deploy "
        "--calibrator-only`.",
        code="damaged",
    )


# The schema of a fitted calibrator; its parameters have their own.
_FIELDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "calibrator": lambda value: isinstance(value, str) and value in _CALIBRATORS,
    "params": lambda value: value is None or isinstance(value, dict),
    "state": lambda value: value in get_args(State),
    "conditions": lambda value: (
        isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
    ),
    "classes": lambda value: type(value) is int and value >= 2,
    "n": lambda value: type(value) is int and value >= 1,
    "errors": lambda value: type(value) is int and value >= 0,
    "nll_before": numbers,
    "nll_after": numbers,
    "forced": lambda value: isinstance(value, bool),
}
