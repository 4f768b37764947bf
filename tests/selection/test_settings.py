"""Settings are numbers as the user wrote them; anything else is one clear line."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise import metrics
from tests.refusals import taken

Z, Y = np.array([[2.0, 0.0], [0.0, 1.0]]), [0, 1]
RUN = cw.Trajectory(
    steps=[1, 2],
    domains=["a", "b"],
    values={"accuracy": [[0.9, 0.9], [0.895, 0.9]], "nll": [[0.7, 0.7], [0.4, 0.4]]},
)
ODD: tuple[Any, ...] = (
    True, np.bool_(True), 1j, nan, "x", None, [1], np.array([1, 2]), 10**5000, -(10**5000),
    b"1", Decimal("nan"), Decimal("sNaN"), -1, object(), Decimal("1e999999999"),
)  # fmt: skip
SETTINGS: dict[str, Callable[[Any], Any]] = {
    "bins": lambda v: metrics.evaluate(logits=Z, labels=Y, bins=v),
    "bandwidth": lambda v: metrics.evaluate(logits=Z, labels=Y, bandwidth=v),
    "classes": lambda v: metrics.Accumulator(classes=v),
    "live bins": lambda v: cw.LiveSelector(bins=v),
    "delta_pp": lambda v: cw.select(RUN, "ac-nll", delta_pp=v),
    "q": lambda v: cw.select(RUN, "ac-nll", q=v),
    "eta": lambda v: cw.select(RUN, "ac-nll", eta=v),
    "pareto": lambda v: cw.select(RUN, "ac-nll", pareto=[v]),
    "seed": lambda v: cw.select(RUN, "ac-random", seed=v),
    "weight": lambda v: cw.select(RUN, "ac-nll", weights={"a": v, "b": 1}),
    "weights": lambda v: cw.select(RUN, "ac-nll", weights=v),
    "worst_domain": lambda v: cw.select(RUN, "ac-nll", worst_domain=[v]),
    "n_checkpoints": lambda v: cw.source_accuracy_radius(v, [10]),
    "alpha": lambda v: cw.source_accuracy_radius(5, [10], alpha=v),
    "n_converge": lambda v: cw.loss_valley([1.0, 0.5], n_converge=v),
    "n_tolerance": lambda v: cw.loss_valley([1.0, 0.5], n_tolerance=v),
    "tolerance_ratio": lambda v: cw.loss_valley([1.0, 0.5], tolerance_ratio=v),
    "step": lambda v: cw.LiveSelector().add(v, {"v": (Z, Y)}),
}


def test_what_is_no_number_is_refused() -> None:
    otherwise = []
    for (name, setting), value in product(SETTINGS.items(), ODD):
        try:
            setting(value)
        except cw.InputError as error:
            if len(str(error)) < 300 and "\n" not in str(error):
                continue
        except Exception as error:
            otherwise.append(f"{name} of {type(value).__name__}: {error!r}")
            continue
        otherwise.append(f"{name} of {type(value).__name__}")
    assert otherwise == []


@pytest.mark.parametrize(
    "value", [0.5, np.float64(0.5), np.float32(0.5), Decimal("0.5"), Fraction(1, 2), "0.5"]
)
def test_a_tolerance_is_read_as_written(value: Any) -> None:
    assert cw.select(RUN, "ac-nll", delta_pp=value).step == 2


@pytest.mark.parametrize("value", [0.25, np.float32(0.25), Decimal("0.25"), Fraction(1, 4)])
def test_numbers_of_any_kind_are_taken(value: Any) -> None:
    ten: Any = np.int32(10)
    same = metrics.evaluate(logits=Z, labels=Y, bins=ten, bandwidth=value)
    assert same == metrics.evaluate(logits=Z, labels=Y, bins=10, bandwidth=0.25)
    radius = cw.source_accuracy_radius(ten, [10], alpha=value)
    assert radius == cw.source_accuracy_radius(10, [10], alpha=0.25)
    assert cw.loss_valley([1.0, 0.5], tolerance_ratio=value).indices


def test_infinity_is_a_norm_and_nothing_else() -> None:
    assert cw.select(RUN, "ac-nll", q=inf).step == cw.select(RUN, "ac-nll", q="inf").step
    for name in ("bins", "bandwidth", "delta_pp", "alpha", "tolerance_ratio", "eta", "seed"):
        with pytest.raises(cw.InputError):
            SETTINGS[name](inf)


def test_a_seed_of_a_run_is_a_whole_number() -> None:
    odd = [value for value in ODD if not isinstance(value, int) or value is True]
    keys = [partial(cw.RunKey, "PACS", "ERM", ("art",), value, 0) for value in odd]
    assert taken((key, "value: `hparams_seed`") for key in keys) == []
