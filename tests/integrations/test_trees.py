"""The number of trees is what a literal version chooses, for every library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.integrations.trees import choose
from tests.requirements import available

available("xgboost", "lightgbm", "catboost", "sklearn")

import catboost
import lightgbm
import xgboost
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
)

ROUNDS = 12
MODELS: dict[str, Callable[[], Any]] = {
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=ROUNDS, max_depth=3),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=ROUNDS, num_leaves=7, verbose=-1),
    "catboost": lambda: catboost.CatBoostClassifier(
        n_estimators=ROUNDS, depth=3, verbose=0, allow_writing_files=False
    ),
    "gradient": lambda: GradientBoostingClassifier(n_estimators=ROUNDS, max_depth=2),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=ROUNDS, max_leaf_nodes=7),
    "adaboost": lambda: AdaBoostClassifier(n_estimators=ROUNDS),
}
DATA: dict[str, Any] = {"digits": load_digits, "cancer": load_breast_cancer}


def probabilities(model: Any, x: Any, k: int) -> Any:
    """Those of the first k trees, as the library's own documentation says."""
    name = type(model).__module__.split(".")[0]
    if name == "xgboost":
        return model.predict_proba(x, iteration_range=(0, k))
    if name == "lightgbm":
        return model.predict_proba(x, num_iteration=k)
    if name == "catboost":
        return model.predict_proba(x, ntree_end=k)
    return list(model.staged_predict_proba(x))[k - 1]


def literal(outputs: dict[int, Any], y: Any, delta_pp: float) -> int:
    """Near the best accuracy, then the best compromise of NLL and soft CwECE, or the guard."""
    right = {k: int((p.argmax(1) == y).sum()) for k, p in outputs.items()}
    best = max(right.values())
    saturated = len(y) - best <= 5
    edge = best - (0.5 if saturated else delta_pp) * len(y) / 100
    near = [k for k in outputs if right[k] >= edge - 1e-9]
    if saturated:
        return near[0]
    nll = {k: -np.log(outputs[k][np.arange(len(y)), y]).mean() for k in near}
    cwece = {k: cw.metrics.evaluate(probs=outputs[k], labels=y).cwece for k in near}

    def rescaled(values: dict[int, float], k: int) -> float:
        low, high = min(values.values()), max(values.values())
        return (values[k] - low) / (high - low + 1e-12) if high > low else 0.0

    return min(near, key=lambda k: (max(rescaled(nll, k), rescaled(cwece, k)), -right[k], k))


@pytest.mark.parametrize(("library", "data"), [*zip(MODELS, 3 * [*DATA], strict=True)])
def test_the_choice_is_that_of_a_literal_version(library: str, data: str) -> None:
    x, y = DATA[data](return_X_y=True)
    names = np.array([f"class {c:02d}" for c in range(10)])
    labels = names[y] if library in ("gradient", "catboost") else y
    model = MODELS[library]().fit(x[:300], labels[:300])
    held = x[300:], labels[300:]
    found = choose(model, *held, delta_pp=1)
    outputs = {k: probabilities(model, held[0], k) for k in range(1, ROUNDS + 1)}
    assert found.iteration == literal(outputs, y[300:], 1)
    assert str(found.iteration) in found.call or str(found.iteration - 1) in found.call

    calibrated = found.predict_proba(held[0])
    temperature = found.calibrator.temperature
    assert temperature is not None
    scaled = outputs[found.iteration] ** (1 / temperature)
    np.testing.assert_allclose(calibrated, scaled / scaled.sum(1, keepdims=True), atol=1e-5)


def test_boosters_without_classes_and_several_sets() -> None:
    x, y = load_digits(return_X_y=True)
    booster = xgboost.train(
        {"objective": "multi:softprob", "num_class": 10}, xgboost.DMatrix(x[:300], y[:300]), ROUNDS
    )
    sets = {"a": (x[300:900], y[300:900]), "b": (x[900:], y[900:])}
    found = choose(booster, sets, every=4)
    assert found.selection.trajectory.domains == ("a", "b")
    assert set(found.selection.trajectory.steps) == {4, 8, 12}


@pytest.mark.parametrize("case", ["regressor", "one-vs-rest", "labels", "neither"])
def test_what_has_no_class_probabilities_is_refused(case: str) -> None:
    x, y = load_digits(return_X_y=True)
    x, y = x[:200], y[:200]
    if case == "regressor":
        model: Any = xgboost.XGBRegressor(n_estimators=2).fit(x, y)
    elif case == "one-vs-rest":
        model = lightgbm.LGBMClassifier(n_estimators=2, objective="multiclassova", verbose=-1)
        model.fit(x, y)
    elif case == "labels":
        model, y = xgboost.XGBClassifier(n_estimators=2).fit(x, y), y + 7
    else:
        model = GradientBoostingRegressor(n_estimators=2).fit(x, y)
    with pytest.raises(cw.InputError) as refused:
        choose(model, x, y)
    assert refused.value.code in ("unsupported", "unknown")
