"""Float32 logits are added in whole blocks of single precision: however they come, to 5e-9."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from checkwise.errors import InputError
from checkwise.metrics import Accumulator, Report, evaluate, probabilities
from checkwise.metrics.sums import single_block
from tests.metrics.cases import Array


def drawn(n: int, classes: int, scale: float = 1.0, shift: float = 0.0) -> tuple[Array, Array]:
    rng = np.random.default_rng(classes)
    z = rng.standard_normal((n, classes))
    y = rng.integers(0, classes, n)
    z[np.arange(n), y] += 3
    return (z * scale + shift).astype(np.float32), y


def beside_an_edge() -> tuple[Array, Array]:
    """Confidences near 2/3, some of which single precision puts on the other side of it.

    Those above are right and those below wrong, so that each on the wrong side counts.
    """
    top = 2 / 3 * (1 + 1e-8 * np.arange(-4500, 4500))
    z = np.full((len(top), 32), -60.0)
    z[:, 3], z[:, 7] = np.log(top), np.log1p(-top)
    z = z.astype(np.float32)
    return z, np.where(probabilities(z)[:, 3] > 2 / 3, 3, 7)


def apart(found: Report, expected: Report) -> float:
    return max(abs(v - expected.values()[name]) for name, v in found.values().items())


CASES = {
    "rows": drawn(5000, 65),
    "wide": drawn(900, 345, 2.0),
    "very-wide": drawn(100, 4000),
    "saturated": drawn(4000, 40, 30.0),
    "far": drawn(5000, 33, 1.0, 500.0),
    "some-far": drawn(5000, 64, np.linspace(0.1, 9, 64)),  # type: ignore[arg-type]
    "beside-an-edge": beside_an_edge(),
}


def test_values_are_those_of_double_precision_to_5e_9() -> None:
    found = {}
    for name, (z, y) in CASES.items():
        assert len(y) > single_block(z.shape[1]) > 0, name
        found[name] = apart(
            evaluate(logits=z, labels=y), evaluate(logits=z.astype(float), labels=y)
        )
    assert max(found.values()) < 5e-9, found
    assert max(found.values()) > 0, "nothing was computed in single precision"


def test_rows_that_are_alike_stay_below_2e_7() -> None:
    """Rounding does not average out over equal rows, nor over logits of few values."""
    rng, y = np.random.default_rng(0), np.arange(5000) % 65
    alike = np.repeat(rng.normal(size=(1, 65)), 5000, axis=0)
    for z in (alike, np.zeros((5000, 65)), np.round(2 * rng.normal(size=(5000, 65))) / 2):
        single = evaluate(logits=z.astype(np.float32), labels=y)
        assert apart(single, evaluate(logits=z.astype(np.float32).astype(float), labels=y)) < 2e-7


def test_a_few_rows_are_added_in_double_precision_whatever_came_before() -> None:
    z, y = drawn(2, 100, 5.0)
    mixed, others = Accumulator(classes=100), Accumulator(classes=100)
    mixed.update(logits=z[:1].astype(float), labels=y[:1])
    others.update(probs=probabilities(z[:1]), labels=y[:1])
    for accumulator in (mixed, others):
        accumulator.update(logits=z[1:], labels=y[1:])
        assert apart(accumulator.result(), evaluate(logits=z.astype(float), labels=y)) < 1e-12


def test_batches_of_any_size_and_a_restart_change_nothing() -> None:
    rng = np.random.default_rng(0)
    for name, (z, y) in CASES.items():
        acc = Accumulator(classes=z.shape[1])
        start = 0
        while start < len(y):
            rows = slice(start, start + int(rng.choice([1, 30, 900, 6000])))
            acc.update(logits=z[rows], labels=y[rows])
            acc, start = pickle.loads(pickle.dumps(acc)), rows.stop
        assert apart(acc.result(), evaluate(logits=z, labels=y)) < 1e-12, name
        assert acc.result() == acc.result()
        assert acc.n == acc.result().n == len(y)


def test_merged_accumulators_agree_with_the_whole() -> None:
    for name, (z, y) in CASES.items():
        parts = [Accumulator(classes=z.shape[1]) for _ in range(3)]
        for k, part in enumerate(parts):
            part.update(logits=z[k::3], labels=y[k::3])
        before = parts[1].result()
        parts[0].merge(parts[1])
        parts[0].merge(parts[2])
        assert parts[1].result() == before
        assert parts[0].n == len(y)
        assert apart(parts[0].result(), evaluate(logits=z, labels=y)) < 5e-9, name


@pytest.mark.parametrize("row", [3, 2500, 4999])
def test_a_batch_that_is_refused_leaves_no_trace(row: int) -> None:
    z, y = CASES["rows"]
    acc = Accumulator(classes=65)
    acc.update(logits=z[:700], labels=y[:700])
    before = acc.result()
    bad = z.copy()
    bad[row, 5] = np.nan
    with pytest.raises(InputError, match=f"row {row},"):
        acc.update(logits=bad, labels=y)
    assert acc.result() == before
    acc.update(logits=z[700:], labels=y[700:])
    assert apart(acc.result(), evaluate(logits=z, labels=y)) < 1e-12


def test_what_waits_is_a_copy() -> None:
    z, y = (part[:50].copy() for part in CASES["rows"])
    acc = Accumulator(classes=65)
    acc.update(logits=z, labels=y)
    expected = acc.result()
    z[:] = 0
    y[:] = 0
    assert acc.result() == expected
