"""Every array that a user may hold gives the right answer or one clear line."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import checkwise as cw
from checkwise import metrics
from checkwise.calibrators import fit_temperature
from checkwise.calibrators.temperature import scaled
from checkwise.metrics import to_floats
from checkwise.selection import worst_domain_radius
from tests.refusals import refused
from tests.requirements import package

torch = package("torch")

Z = np.random.default_rng(0).normal(size=(6, 3))
Y = np.array([0, 1, 2, 0, 1, 2])
T = torch.tensor(Z)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch calls both unfinished
    CSR = T.to_sparse_csr()
    QUANTISED = torch.quantize_per_tensor(T.float(), 0.1, 0, torch.qint8)


class OnlyDlpack:
    def __dlpack__(self, **options: Any) -> Any:
        return T.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return T.__dlpack_device__()


class Broken:
    shape = (6, 3)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array today")


REFUSED = {
    "ragged": ([[1.0, 2.0], [1.0]], "equal lengths"),
    "scipy sparse": (scipy.sparse.csr_matrix(Z), r"sparse array. Pass its .toarray\(\)"),
    "scipy sparse array": (scipy.sparse.coo_array(Z), "sparse array"),
    "COO tensor": (T.to_sparse(), r"sparse tensor. Pass its .to_dense\(\)"),
    "CSR tensor": (CSR, "sparse tensor"),
    "meta tensor": (torch.empty(6, 3, device="meta"), "holds no values"),
    "quantised": (
        QUANTISED,
        r"quantised tensor. Pass its .dequantize\(\)",
    ),
    "masked": (np.ma.masked_array(Z, Z > 1), "masked array with masked values. Drop"),
    "complex": (Z + 0j, "complex128"),
    "complex tensor": (torch.conj(T + 0j), "complex128"),
    "bool": (Z > 0, "bool"),
    "datetime": (np.zeros((6, 3), "M8[s]"), "datetime64"),
    "structured": (np.zeros((6, 3), [("a", float)]), "dtype|values"),
    "huge integers": ([[10**5000, 1, 2]] * 6, "object|an integer of"),
    "no rows": (np.array(1.0), r"shape \[n, C\]|\[\]"),
    "broken": (Broken(), "no array today"),
    "text": ("abc", r"shape \[n, C\]|<U3|'abc'"),
    "nothing": (object(), "dense array of numbers"),
    "no examples": (Z[:0], "at least one example|n of at least 1|0"),
}
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "evaluate": lambda z, y: metrics.evaluate(logits=z, labels=y).nll,
    "per_example": lambda z, y: metrics.per_example(logits=z, labels=y).nll.mean(),
    "Accumulator": lambda z, y: metrics.Accumulator(classes=3).update(logits=z, labels=y),
    "Metric": lambda z, y: metrics.METRICS["nll"](logits=z, labels=y),
    "from_predictions": lambda z, y: cw.Trajectory.from_predictions({0: {"v": (z, y)}}).values[
        "nll"
    ][0, 0],
    "LiveSelector": lambda z, y: cw.LiveSelector().add(0, {"v": (z, y)}),
    "fit_temperature": lambda z, y: fit_temperature(z, y).before,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("array", "message"), REFUSED.values(), ids=REFUSED)
def test_what_holds_no_plain_numbers_is_refused(
    call: Callable[[Any, Any], Any], array: Any, message: str
) -> None:
    with pytest.raises(cw.InputError, match=message) as caught:
        call(array, Y)
    assert "\n" not in str(caught.value)


READ = {
    "unmasked": np.ma.masked_array(Z),
    "reversed": Z[::-1][::-1],
    "big-endian": Z.astype(">f8"),
    "matrix": np.matrix(Z),
    "long double": Z.astype(np.longdouble),
    "frame": pd.DataFrame(Z),
    "frame whose index is numbers": pd.DataFrame(Z, index=[0.5, 0.1, 0.2, 0.3, 0.4, 0.6]),
    "Arrow table": pa.table({"a": Z[:, 0], "b": Z[:, 1], "c": Z[:, 2]}),
    "dlpack": OnlyDlpack(),
    "needs grad": T.clone().requires_grad_(),
    "negative view": torch._neg_view(-T),
    "Fortran": np.asfortranarray(Z),
    "bfloat16": T.bfloat16(),
    "float16": T.half(),
    "float8": T.float().to(torch.float8_e4m3fn),
}


@pytest.mark.parametrize("call", [c for n, c in CALLS.items() if n not in ("Accumulator",)])
@pytest.mark.parametrize("array", READ.values(), ids=READ)
def test_what_holds_numbers_is_read(call: Callable[[Any, Any], Any], array: Any) -> None:
    narrow = str(getattr(array, "dtype", ""))
    tolerance = 0.05 if "float8" in narrow else 0.01 if "float16" in narrow else 1e-9
    answer = call(array, Y)
    assert answer is None or answer == pytest.approx(metrics.nll(logits=Z, labels=Y), rel=tolerance)


LABELS = {
    "float": Y.astype(float),
    "bool": Y > 0,
    "one-hot": np.eye(3)[Y],
    "out of range": Y + 1,
    "ignored": np.where(Y == 1, -100, Y),
    "masked": np.ma.masked_array(Y, Y == 1),
    "ragged": [[1], [1, 2]],
    "objects": Y.astype(object),
    "text": Y.astype(str),
    "none": None,
    "scalar": 1,
    "meta": torch.empty(6, dtype=torch.long, device="meta"),
    "sparse": torch.tensor(Y).to_sparse(),
    "huge": [10**5000] * 6,
    "dates": Y.astype("M8[s]"),
    "structured": np.zeros(6, [("a", int)]),
    "complex": Y + 0j,
    "not numbers": np.full(6, np.nan),
    "empty": [],
    "set": {1, 2},
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_that_are_no_class_indices_are_refused(
    call: Callable[[Any, Any], Any], labels: Any
) -> None:
    with pytest.raises(cw.InputError):
        call(Z, labels)


@pytest.mark.parametrize(
    "labels", [Y.astype(np.uint64), pd.Series(Y), pa.array(Y), Y.astype(">i2"), torch.tensor(Y)]
)
def test_whole_labels_of_any_kind_are_read(labels: Any) -> None:
    assert metrics.evaluate(logits=Z, labels=labels) == metrics.evaluate(logits=Z, labels=Y)


def test_a_missing_label_is_named() -> None:
    with refused("value: -100 … 1"):
        metrics.evaluate(logits=Z, labels=np.where(Y == 1, -100, Y))


COLUMNS = {
    "true": [True, 0.6],
    "all true": [True, True],
    "NumPy true": np.array([True, False]),
    "complex": [0.5 + 0j, 0.6],
    "dates": np.array([1, 2], "M8[s]"),
    "masked": np.ma.masked_array([0.5, 0.6], [True, False]),
    "text": ["true", "0.5"],
    "huge": [10**5000, 0.5],
    "ragged": [[0.5], [0.5, 0.6]],
    "sparse": torch.tensor([0.5, 0.6]).to_sparse(),
    "meta": torch.empty(2, device="meta"),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("name", ["accuracy", "step", "n", "nll"])
def test_columns_that_are_no_numbers_are_refused(name: str, column: Any) -> None:
    table = {"step": [0, 1], "accuracy": [0.5, 0.6], "n": [10, 10], name: column}
    with pytest.raises(cw.InputError):
        cw.Trajectory.from_frame(table)


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("field", ["values", "pooled", "steps", "counts", "correct"])
def test_trajectories_of_no_numbers_are_refused(field: str, column: Any) -> None:
    facts: dict[str, Any] = {
        "steps": [0, 1],
        "domains": ["v", "w"],
        "values": {"accuracy": [[0.5, 0.5], [0.6, 0.6]]},
        "counts": [10, 10],
    }
    changed = {"accuracy": [column, column]} if field == "values" else {"nll": column}
    facts[field] = changed if field in ("values", "pooled") else column
    with pytest.raises(cw.InputError):
        cw.Trajectory(**facts)


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_losses_counts_weights_and_temperatures_are_numbers(column: Any) -> None:
    for call in (
        lambda: cw.loss_valley(column),
        lambda: cw.source_accuracy_radius(5, column),
        lambda: worst_domain_radius(5, column),
        lambda: cw.source_accuracy_radius(5, [10, 10], weights=column),
        lambda: fit_temperature(Z[:2], Y[:2], weights=column),
        lambda: scaled(Z[:2], column),
    ):
        with pytest.raises(cw.InputError):
            call()


def test_exact_numbers_and_text_are_read() -> None:
    values = to_floats([Decimal("0.5"), "0.25", np.float32(1)], "values")
    assert values.tolist() == [0.5, 0.25, 1.0]
    assert cw.loss_valley(iter([1.0, 0.5, 0.5, 0.5])).indices


def arrays() -> st.SearchStrategy[Any]:
    kinds = st.one_of(
        hnp.scalar_dtypes(),
        hnp.nested_dtypes(),
    )
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    lists = st.recursive(
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.complex_numbers()
        ),
        lambda inner: st.lists(inner, max_size=4),
        max_leaves=12,
    )
    return st.one_of(kinds.flatmap(lambda kind: hnp.arrays(kind, shapes)), lists)


def attempts(z: Any, y: Any) -> Iterator[Callable[[], Any]]:
    yield lambda: metrics.evaluate(logits=z, labels=y)
    yield lambda: metrics.evaluate(probs=z, labels=y)
    yield lambda: cw.Trajectory.from_predictions({0: {"v": (z, y)}})
    yield lambda: fit_temperature(z, y)
    yield lambda: cw.Trajectory.from_frame({"step": y, "accuracy": z})
    yield lambda: cw.Trajectory(steps=y, domains=["v"], values={"accuracy": z})
    yield lambda: cw.loss_valley(z)
    yield lambda: cw.source_accuracy_radius(3, z, weights=y)


@settings(max_examples=60, deadline=None)
@given(z=arrays(), y=st.one_of(arrays(), st.just([0, 1, 0])))
@pytest.mark.filterwarnings("ignore")
def test_any_array_is_read_or_refused(z: Any, y: Any) -> None:
    for attempt in attempts(z, y):
        with suppress(cw.CheckwiseError):
            attempt()
