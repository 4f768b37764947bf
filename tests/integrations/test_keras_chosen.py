"""Keras: from the choice to a model, by export and by mean weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.cli import main
from tests.requirements import available

available("keras")

import keras

from checkwise.integrations.keras import ReliabilityCheckpoint, load_chosen
from tests.integrations.keras_models import Watch, examples, fit, network, validation_sets
from tests.refusals import refused

pytestmark = pytest.mark.filterwarnings("default")

WIDE = 30


@pytest.fixture(scope="module", params=[False, True], ids=["model", "weights"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("run")
    sets = validation_sets("a", "b")
    callback = ReliabilityCheckpoint(
        sets,
        dirpath=folder,
        kind="logits",
        weights_only=request.param,
        average_within_pp=WIDE,
    )
    kept: dict[int, list[Any]] = {}
    model: Any = network()
    watch = Watch(sets)
    weights = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: kept.update({4 * (epoch + 1): model.get_weights()})
    )
    fit(model, watch, weights, callback, epochs=4)
    return folder, callback, kept, request.param


def test_the_chosen_model_is_loaded(run: Any) -> None:
    folder, callback, kept, weights_only = run
    if weights_only:
        with refused("missing"):
            load_chosen(folder)
    loaded = load_chosen(folder, network() if weights_only else None)
    for one, other in zip(loaded.get_weights(), kept[callback.selection.step], strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_average_is_the_mean_of_the_weights_of_its_members(run: Any) -> None:
    folder, callback, kept, weights_only = run
    model = network() if weights_only else None
    averaged = load_chosen(folder, model, average_within_pp=WIDE)
    steps = callback.members()
    assert len(steps) > 2
    for place, weight in enumerate(averaged.get_weights()):
        mean = np.mean([kept[step][place].astype(np.float64) for step in steps], axis=0)
        np.testing.assert_allclose(weight, mean, rtol=1e-6)
    one = load_chosen(folder, model, average_within_pp=WIDE, k=1)
    (middle,) = callback.members(1)
    for weight, other in zip(one.get_weights(), kept[middle], strict=True):
        np.testing.assert_array_equal(weight, other)


def test_an_export_gets_the_ending_that_keras_needs(run: Any, tmp_path: Path) -> None:
    folder, _, _, weights_only = run
    ending = ".weights.h5" if weights_only else ".keras"
    for name in ("best", f"named{ending}"):
        with pytest.raises(SystemExit) as end:
            main(["select", str(folder), "--copy-to", str(tmp_path / name)])
        assert not end.value.code
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {f"{n}{ending}{e}" for n in ("best", "named") for e in ("", ".json")}
    model = network()
    model.load_weights(tmp_path / f"best{ending}")
    assert json.loads((tmp_path / f"best{ending}.json").read_text())["step"]


def test_deploy_says_what_to_do_instead(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, *_ = run
    for words in ([], ["--average", "weights"]):
        with pytest.raises(SystemExit) as end:
            main(["deploy", str(folder), "-o", str(tmp_path / "model"), *words])
        assert end.value.code == 2
        assert "checkwise.integrations.keras.load_chosen" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_statistics_of_batchnorm_are_said_to_be_of_the_choice(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    layers = [keras.Input((6,)), keras.layers.BatchNormalization(), keras.layers.Dense(3)]
    model = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss=loss)
    callback = ReliabilityCheckpoint(
        validation_sets("a"), dirpath=tmp_path, kind="logits", average_within_pp=100
    )
    fit(model, callback, epochs=3)
    assert callback.best_model_path
    chosen = keras.models.load_model(callback.best_model_path)
    with pytest.warns(cw.errors.CheckwiseWarning, match="statistics of BatchNormalization"):
        averaged = load_chosen(tmp_path, average_within_pp=100)
    for one, other in zip(
        averaged.non_trainable_weights, chosen.non_trainable_weights, strict=True
    ):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert not np.array_equal(
        averaged.predict(examples(5, 0)[0], verbose=0), chosen.predict(examples(5, 0)[0], verbose=0)
    )


def test_a_folder_without_a_journal_is_refused(tmp_path: Path) -> None:
    with refused("missing: checkwise.jsonl"):
        load_chosen(tmp_path)
