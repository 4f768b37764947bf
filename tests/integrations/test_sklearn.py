"""Near the best on one score, then best on another, in scikit-learn's own searches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkwise as cw
from checkwise.integrations.sklearn import near_best
from tests.requirements import available

available("sklearn")

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV


def results(accuracy: Any, loss: Any) -> dict[str, Any]:
    """As ``cv_results_``, of two folds."""
    found: dict[str, Any] = {}
    for name, values in (("accuracy", accuracy), ("neg_log_loss", loss)):
        means = np.array(values, dtype=float)
        found[f"split0_test_{name}"], found[f"split1_test_{name}"] = means - 0.01, means + 0.01
        found[f"mean_test_{name}"] = means
    return found


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(-40, -1)).map(lambda t: (t[0] / 40, t[1] / 8)),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([0.01, 0.1, "1%", "20%", "1se"]),
)
def test_the_row_is_that_of_a_literal_version(rows: list[tuple[float, float]], delta: Any) -> None:
    best = max(accuracy for accuracy, _ in rows)
    error = float(np.std([-1, 1], ddof=1)) * 0.01 / 2**0.5
    allowed = {0.01: 0.01, 0.1: 0.1, "1%": best / 100, "20%": best / 5, "1se": error}
    edge = best - allowed[delta] - 1e-9
    near = [i for i, (accuracy, _) in enumerate(rows) if accuracy >= edge]
    expected = min(near, key=lambda i: (-rows[i][1], -rows[i][0], i))
    chosen = near_best("accuracy", then="neg_log_loss", delta=delta)(
        results(*zip(*rows, strict=True))
    )
    assert chosen == expected


def test_a_search_refits_the_chosen_row() -> None:
    x, y = load_digits(return_X_y=True)
    search = GridSearchCV(
        LogisticRegression(max_iter=100, tol=1e-2),
        {"C": np.logspace(-4, 1, 4)},
        scoring=["accuracy", "neg_log_loss"],
        refit=near_best("accuracy", then="neg_log_loss", delta=0.02),
        cv=3,
    )
    search.fit(x[:300], y[:300])
    means = search.cv_results_["mean_test_accuracy"]
    near = np.flatnonzero(means >= means.max() - 0.02)
    losses = search.cv_results_["mean_test_neg_log_loss"][near]
    assert search.best_index_ == near[losses.argmax()]
    assert search.best_params_["C"] == search.best_estimator_.C


def test_failed_rows_are_left_out_and_missing_scores_named() -> None:
    found = near_best("accuracy", then="neg_log_loss")(results([0.9, np.nan], [-1.0, -0.1]))
    assert found == 0
    with pytest.raises(cw.InputError) as refused:
        near_best("accuracy", then="neg_log_loss")(results([np.nan], [np.nan]))
    assert refused.value.code == "empty"
    one_fold = {key: v for key, v in results([0.9], [-1.0]).items() if "split1" not in key}
    with pytest.raises(cw.InputError) as refused:
        near_best("accuracy", then="neg_log_loss", delta="1se")(one_fold)
    assert refused.value.code == "unsupported"
    with pytest.raises(cw.InputError, match=r"f1.*accuracy.*neg_log_loss") as refused:
        near_best("f1", then="neg_log_loss")(results([0.9], [-1.0]))
    assert refused.value.code == "missing"
