"""What is accepted, and how the rest is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checkwise import metrics
from checkwise.errors import CheckwiseWarning, InputError
from checkwise.metrics import Accumulator
from tests.refusals import refused

Z = np.random.default_rng(0).standard_normal((40, 5))
Y = np.random.default_rng(1).integers(0, 5, 40)


def spoiled(row: int, column: int, value: float, rows: int = 200) -> Any:
    z = np.random.default_rng(0).standard_normal((rows, 5)).astype(np.float32)
    z[row, column] = value
    return z


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nan": (
        {"logits": spoiled(17, 2, np.nan), "labels": np.zeros(200, int)},
        r"nan at row 17, class 2",
    ),
    "nan-first": (
        {"logits": spoiled(0, 0, np.nan), "labels": np.zeros(200, int)},
        r"row 0, class 0",
    ),
    "inf": (
        {"logits": spoiled(150, 4, np.inf), "labels": np.zeros(200, int)},
        r"inf at row 150, class 4",
    ),
    "label-masked": (
        {"logits": spoiled(9, 3, -np.inf), "labels": np.full(200, 3)},
        r"class 3, is -inf at row 9",
    ),
    "all-masked": (
        {"logits": np.full((2, 3), -np.inf), "labels": [0, 1]},
        r"all are -inf at row 0",
    ),
    "label-high": ({"logits": Z, "labels": np.where(np.arange(40) == 7, 5, 0)}, r"5 at row 7"),
    "label-negative": (
        {"logits": Z, "labels": np.where(np.arange(40) == 3, -1, 0)},
        r"-1 at row 3",
    ),
    "label-float": ({"logits": Z, "labels": Y + 0.5}, r"integer labels.*0\.5|integer labels"),
    "label-bool": ({"logits": Z[:, :2], "labels": Y > 2}, r"integer labels, but got dtype bool"),
    "label-text": ({"logits": Z, "labels": ["cat"] * 40}, r"integer labels"),
    "labels-short": ({"logits": Z, "labels": Y[:-1]}, r"40 labels.*shape \[39\]"),
    "labels-one-hot": ({"logits": Z, "labels": np.eye(5, dtype=int)[Y]}, r"shape \[40, 5\]"),
    "three-dimensional": ({"logits": Z[None], "labels": Y}, r"shape \[n, C\].*\[1, 40, 5\]"),
    "one-column": ({"logits": Z[:, :1], "labels": Y}, r"from 0 to 1.*One column is.*class 1"),
    "empty": ({"logits": Z[:0], "labels": Y[:0]}, r"at least one example"),
    "both": ({"logits": Z, "probs": Z, "labels": Y}, r"exactly one.*both"),
    "neither": ({"labels": Y}, r"exactly one.*neither"),
    "text": ({"logits": [["a", "b"]], "labels": [0]}, r"numbers in `logits`"),
    "negative-probability": (
        {"probs": [[0.5, 0.5], [1.5, -0.5]], "labels": [0, 0]},
        r"-0\.5 at row 1",
    ),
    "nan-probability": ({"probs": [[0.5, 0.5], [np.nan, 0.5]], "labels": [0, 1]}, r"nan at row 1"),
    "sum": ({"probs": [[0.5, 0.5], [0.5, 0.6]], "labels": [0, 0]}, r"sum to 1.*1\.1 at row 1"),
    "logits-as-probs": ({"probs": Z, "labels": Y}, r"at row 0"),
    "zero-label": (
        {"probs": [[0.5, 0.5], [1.0, 0.0]], "labels": [0, 1]},
        r"class 1 has 0 at row 1",
    ),
    "many bins": ({"logits": Z, "labels": Y, "bins": 10**8}, r"at most 1000 `bins`"),
    "bins": ({"logits": Z, "labels": Y, "bins": 1}, r"`bins`.*at least 2, but got 1"),
    "bins-float": ({"logits": Z, "labels": Y, "bins": 15.0}, r"`bins`.*15\.0"),
    "bandwidth": ({"logits": Z, "labels": Y, "bandwidth": 0}, r"`bandwidth`.*but got 0"),
    "bandwidth-nan": ({"logits": Z, "labels": Y, "bandwidth": float("nan")}, r"`bandwidth`.*nan"),
    "bandwidth-tiny": ({"logits": Z, "labels": Y, "bandwidth": 1e-9}, r"`bandwidth`.*1e-09"),
}


@pytest.mark.parametrize(("given", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_by_name_and_place(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        metrics.evaluate(**given)
    if "bins" not in given and "bandwidth" not in given:
        with pytest.raises(InputError, match=message):
            metrics.per_example(**given)


def test_arguments_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        metrics.evaluate(Z, Y)  # type: ignore[call-arg]


def test_logits_that_look_like_probabilities_draw_a_warning() -> None:
    p = np.full((4, 2), 0.5)
    with pytest.warns(CheckwiseWarning, match="pass them as `probs="):
        metrics.evaluate(logits=p, labels=[0, 1, 0, 1])
    p[3] = [0.5, 0.6]  # one row that does not
    metrics.evaluate(logits=p, labels=[0, 1, 0, 1])


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int64", ">f4"])
def test_every_numeric_type_is_read_exactly(kind: str) -> None:
    z = np.round(Z * 8) / 4
    z = (z * 4).astype(kind) if kind == "int64" else z.astype(kind)
    found = metrics.evaluate(logits=z, labels=Y)
    expected = metrics.evaluate(logits=z.astype(np.float64), labels=Y)
    for name, value in expected.values().items():
        assert getattr(found, name) == pytest.approx(value, abs=1e-7), name


def test_views_and_lists() -> None:
    expected = metrics.evaluate(logits=Z, labels=Y)
    wide = np.zeros((80, 10))
    wide[::2, ::2] = Z
    assert metrics.evaluate(logits=wide[::2, ::2], labels=Y) == expected
    assert metrics.evaluate(logits=np.asfortranarray(Z), labels=Y.astype(np.uint8)) == expected
    assert metrics.evaluate(logits=Z.tolist(), labels=Y.tolist()) == expected
    assert metrics.evaluate(logits=np.array(Z), labels=Y) == expected


def test_input_is_left_alone() -> None:
    z = Z.copy()
    z.flags.writeable = False
    metrics.evaluate(logits=z, labels=Y)
    assert np.array_equal(z, Z)


def test_large_half_precision_input_is_converted_in_blocks() -> None:
    rng = np.random.default_rng(5)
    z = rng.standard_normal((9000, 500)).astype(np.float16)  # more than one block
    y = rng.integers(0, 500, 9000)
    a, b = metrics.evaluate(logits=z, labels=y), metrics.evaluate(logits=z.astype("f4"), labels=y)
    assert a.hard_cwece == b.hard_cwece
    assert a.nll == pytest.approx(b.nll, rel=1e-12)
    z[8999, 7] = np.nan
    with refused("value: 8999 … 7"):
        metrics.evaluate(logits=z, labels=y)


def test_a_refused_batch_leaves_no_trace() -> None:
    acc = Accumulator(classes=5)
    acc.update(logits=Z, labels=Y)
    before = acc.result()
    for rows in (3, 200):
        with pytest.raises(InputError):
            acc.update(logits=spoiled(rows - 1, 1, np.nan, rows), labels=np.zeros(rows, int))
    assert acc.result() == before
    assert acc.n == 40


def test_accumulators_refuse_what_does_not_fit() -> None:
    acc = Accumulator(classes=5)
    with refused("empty"):
        acc.result()
    with refused("differs: 5 … 4"):
        acc.update(logits=Z[:, :4], labels=np.zeros(40, int))
    with refused("differs: 5, 15, 0.1 … 5, 15, 0.2"):
        acc.merge(Accumulator(classes=5, bandwidth=0.2))
    with refused("value: `classes` … 1"):
        Accumulator(classes=1)
