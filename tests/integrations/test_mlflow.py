"""A selection in MLflow: a real sqlite store, no mocks."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from tests.requirements import available

os.environ["DO_NOT_TRACK"] = "true"  # MLflow reports on its use otherwise
available("mlflow")

import mlflow

from checkwise.integrations.mlflow import MlflowLog
from tests.refusals import refused

pytestmark = [
    pytest.mark.filterwarnings("default"),  # MLflow and its database warn about each other
    pytest.mark.filterwarnings("error::checkwise.errors.CheckwiseWarning"),
]

ROWS: dict[str, list[Any]] = {
    "step": [4, 8, 12, 16],
    "accuracy": [0.900, 0.898, 0.700, 0.899],
    "nll": [0.50, 0.40, 0.90, 0.45],
    "cwece": [0.020, 0.010, 0.030, 0.015],
}


@dataclass
class Store:
    """An sqlite store with one run."""

    folder: Path
    uri: str
    client: Any
    run_id: str

    @property
    def run(self) -> Any:
        return self.client.get_run(self.run_id)

    @property
    def tags(self) -> dict[str, str]:
        """Ours, without the prefix."""
        tags = self.run.data.tags.items()
        return {key.removeprefix("checkwise."): v for key, v in tags if key.startswith("checkwise")}

    def models(self) -> list[Any]:
        """Oldest first."""
        models = self.client.search_logged_models([self.run.info.experiment_id])
        return sorted(models, key=lambda model: model.creation_timestamp)

    def kept(self) -> dict[int, Any]:
        return {
            int(model.tags["checkwise.step"]): model
            for model in self.models()
            if model.tags["checkwise.kept"] == "true"
        }

    def text(self, name: str) -> str:
        folder = self.folder / "artifacts" / self.run_id / "artifacts" / "checkwise"
        return (folder / name).read_text()

    def log(self, **options: Any) -> MlflowLog:
        return MlflowLog(self.run_id, self.uri, **options)

    def weights(self, *steps: int) -> dict[int, Path]:
        for step in steps:
            (self.folder / f"{step}.ckpt").write_bytes(bytes(step))
        return {step: self.folder / f"{step}.ckpt" for step in steps}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without runs; MLflow takes seconds to make one."""
    path = tmp_path_factory.mktemp("mlflow") / "store.db"
    mlflow.MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def store(empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.chdir(tmp_path)  # where MLflow would put a store that nobody asked for
    shutil.copy(empty, tmp_path)
    uri = f"sqlite:///{tmp_path / 'store.db'}"
    client = mlflow.MlflowClient(uri)
    experiment = client.create_experiment("trial", artifact_location=str(tmp_path / "artifacts"))
    yield Store(tmp_path, uri, client, client.create_run(experiment).info.run_id)
    mlflow.set_tracking_uri("")


def run(**changed: Any) -> cw.Trajectory:
    return cw.Trajectory.from_frame({**ROWS, **changed})


def test_the_run_has_the_selection_the_table_and_the_page(store: Store) -> None:
    selection = cw.select(run())
    assert store.log().log(selection) == {}
    assert json.loads(store.text("selection.json")) == selection.as_dict()
    ranked = list(csv.DictReader(io.StringIO(store.text("ranking.csv"))))
    assert [int(row["step"]) for row in ranked] == [8, 16, 4, 12]
    assert [float(row["nll"]) for row in ranked] == [0.40, 0.45, 0.50, 0.90]
    assert "<h1>Step 8</h1>" in store.text("report.html")
    assert store.tags == {
        "step": "8",
        "rule": "ac-nc",
        "accuracy": "0.898",
        "path": "",
        "model_id": "",
    }
    assert store.models() == []  # no weights are known


def test_every_kept_checkpoint_is_a_logged_model(store: Store) -> None:
    paths = store.weights(4, 8, 16)
    ids = store.log().log(cw.select(run()), paths)
    models = store.kept()
    assert ids == {step: model.model_id for step, model in models.items()}
    assert set(ids) == {4, 8, 16}
    assert {str(model.status) for model in models.values()} == {"READY"}
    assert {step: model.tags["checkwise.rank"] for step, model in models.items()} == {
        8: "1",
        16: "2",
        4: "3",
    }
    chosen = store.client.search_logged_models(
        [store.run.info.experiment_id], filter_string="tags.`checkwise.chosen` = 'true'"
    )
    assert [model.model_id for model in chosen] == [ids[8]]
    assert {m.key: (m.value, m.step) for m in models[16].metrics} == {
        "checkwise/checkpoint/accuracy": (0.899, 16),
        "checkwise/checkpoint/nll": (0.45, 16),
        "checkwise/checkpoint/cwece": (0.015, 16),
    }
    outputs = store.run.outputs.model_outputs
    assert {output.model_id: output.step for output in outputs} == {i: s for s, i in ids.items()}
    assert store.tags["path"] == models[8].tags["checkwise.path"] == str(paths[8])
    assert store.tags["model_id"] == ids[8]
    assert json.loads(store.text("selection.json"))["path"] == str(paths[8])
    assert not (store.folder / "artifacts" / "models").exists()  # nothing was uploaded


def test_the_metrics_of_the_run_are_those_of_the_choice(store: Store) -> None:
    """Also where newer checkpoints are logged, and where the choice returns to an earlier one."""

    def shown() -> dict[str, float]:
        names = ("accuracy", "nll", "cwece")
        return {name: store.run.data.metrics[f"checkwise/{name}"] for name in names}

    for paths in ({}, store.weights(4, 8, 16)):
        store.log().log(cw.select(run()), paths)
        assert shown() == {"accuracy": 0.898, "nll": 0.40, "cwece": 0.010}
        store.log().log(cw.select(run(), "source-acc"), paths)
        assert shown() == {"accuracy": 0.900, "nll": 0.50, "cwece": 0.020}


def test_logging_again_changes_nothing_or_what_changed(store: Store) -> None:
    log, paths = store.log(), store.weights(4, 8, 16)
    before = log.log(cw.select(run()), paths)
    assert log.log(cw.select(run()), paths) == before
    assert len(store.models()) == 3
    assert len(store.client.get_metric_history(store.run_id, "checkwise/checkpoint/nll")) == 3
    # Another rule: the same models, another choice.
    assert log.log(cw.select(run(), "source-acc"), paths) == before
    assert store.tags["step"] == "4"
    chosen = {step: model.tags["checkwise.chosen"] for step, model in store.kept().items()}
    assert chosen == {4: "true", 8: "false", 16: "false"}
    assert "<h1>Step 4</h1>" in store.text("report.html")


def test_a_step_that_was_trained_again_has_a_new_model(store: Store) -> None:
    log, paths = store.log(), store.weights(4, 8, 16)
    before = log.log(cw.select(run()), paths)
    after = log.log(cw.select(run(nll=[0.50, 0.48, 0.90, 0.45])), paths)
    assert {step for step in before if before[step] != after[step]} == {8}
    assert {step: model.model_id for step, model in store.kept().items()} == after
    old = store.client.get_logged_model(before[8])
    assert (old.tags["checkwise.kept"], old.tags["checkwise.chosen"]) == ("false", "false")
    # And a checkpoint that was deleted has none.
    log.log(cw.select(run()), store.weights(8, 16))
    assert set(store.kept()) == {8, 16}


LOGGING_FOREVER = f"""
import sys
import checkwise as cw
from checkwise.integrations.mlflow import MlflowLog

uri, run_id, folder = sys.argv[1:]
log = MlflowLog(run_id, uri, upload=True)
runs = [cw.Trajectory.from_frame({{**{ROWS!r}, "nll": nll}})
        for nll in ([0.5, 0.4, 0.9, 0.45], [0.5, 0.48, 0.9, 0.46])]
print("ready", flush=True)
while True:
    for run in runs:
        log.log(cw.select(run), {{step: f"{{folder}}/{{step}}.ckpt" for step in (4, 8, 16)}})
"""


def test_logging_goes_on_after_kills_at_any_instant(store: Store) -> None:
    paths = store.weights(4, 8, 16)
    for delay in (0.1, 0.5):
        process = subprocess.Popen(
            [sys.executable, "-c", LOGGING_FOREVER, store.uri, store.run_id, str(store.folder)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(delay)
        process.kill()
        process.wait()
        process.stdout.close()
        ids = store.log(upload=True).log(cw.select(run()), paths)
        models = store.kept()
        assert {step: model.model_id for step, model in models.items()} == ids
        assert {str(model.status) for model in models.values()} == {"READY"}
        for step, model_id in ids.items():
            (uploaded,) = store.client.list_logged_model_artifacts(model_id)
            assert uploaded.file_size == step
        chosen = [m.model_id for m in store.models() if m.tags.get("checkwise.chosen") == "true"]
        assert chosen == [ids[8]] == [store.tags["model_id"]]


def test_a_model_that_was_not_finished_is_not_taken_for_a_checkpoint(store: Store) -> None:
    paths = store.weights(8)
    half = store.client.create_logged_model(
        store.run.info.experiment_id,
        source_run_id=store.run_id,
        tags={
            "checkwise.step": "8",
            "checkwise.path": str(paths[8]),
            "checkwise.uploaded": "false",
            "checkwise.kept": "true",
        },
    )
    ids = store.log().log(cw.select(run()), paths)
    assert ids[8] != half.model_id
    assert {step: model.model_id for step, model in store.kept().items()} == ids


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_weights_are_uploaded_on_request(store: Store, kind: str) -> None:
    paths = store.weights(4, 8)
    if kind == "folder":
        folders = {step: store.folder / f"checkpoint-{step}" for step in paths}
        for step, folder in folders.items():
            folder.mkdir()
            paths[step] = paths[step].rename(folder / "model.safetensors")
        paths = folders
    ids = store.log(upload=True).log(cw.select(run()), paths)
    for step, model_id in ids.items():
        (uploaded,) = store.client.list_logged_model_artifacts(model_id)
        assert uploaded.file_size == step
    # checkwise finds them by the store alone.
    read = cw.load(
        store.folder / "store.db",
        columns={
            "accuracy": "checkwise/checkpoint/accuracy",
            "nll": "checkwise/checkpoint/nll",
            "cwece": "checkwise/checkpoint/cwece",
        },
    )
    chosen = cw.select(read)
    assert (chosen.step, chosen.rule) == (8, "ac-nc")
    assert Path(str(chosen.path)).parent.name == ids[8]
    with refused("missing: 16 … none"):
        store.log(upload=True).log(cw.select(run()), {16: store.folder / "none"})


def test_models_that_the_user_logged_at_a_step_are_the_models_of_it(store: Store) -> None:
    from mlflow.entities import LoggedModelOutput

    own = {}
    for step in (4, 8):
        model = store.client.create_logged_model(
            store.run.info.experiment_id, name="own", source_run_id=store.run_id
        )
        store.client.log_outputs(store.run_id, [LoggedModelOutput(model.model_id, step)])
        own[step] = model.model_id
    for _ in range(2):
        ids = store.log().log(cw.select(run()), store.weights(8, 16))
        assert {step: ids[step] for step in own} == own
        assert set(ids) == {4, 8, 16}
    assert len(store.models()) == 3
    chosen = store.client.get_logged_model(own[8])
    assert chosen.tags["checkwise.chosen"] == "true"
    assert {m.key: m.value for m in chosen.metrics}["checkwise/checkpoint/nll"] == 0.40
    assert "checkwise.step" not in chosen.tags


def test_the_alias_moves_to_the_version_of_the_choice(store: Store) -> None:
    paths = store.weights(4, 8, 16)
    log = store.log(upload=True, registered_model="digits")
    with pytest.warns(cw.CheckwiseWarning, match=r"register models:/m-\w+ as digits"):
        ids = log.log(cw.select(run()), paths)
    mlflow.set_tracking_uri(store.uri)
    versions = {
        step: int(mlflow.register_model(f"models:/{ids[step]}", "digits").version)
        for step in (4, 8)
    }

    def named() -> int:
        return int(store.client.get_model_version_by_alias("digits", "checkwise").version)

    log.log(cw.select(run()), paths)
    assert named() == versions[8]
    log.log(cw.select(run(), "source-acc"), paths)
    assert named() == versions[4]
    # A choice without a version leaves no alias on another checkpoint of the run.
    with pytest.warns(cw.CheckwiseWarning, match="step 16, but there is none, so it has no alias"):
        log.log(cw.select(run(nll=[0.5, 0.5, 0.9, 0.4], cwece=[0.02, 0.02, 0.03, 0.01])), paths)
    with pytest.raises(mlflow.MlflowException, match="alias checkwise not found"):
        named()


def test_the_alias_of_another_run_stays_until_there_is_a_version(store: Store) -> None:
    other = store.client.create_run(store.run.info.experiment_id).info.run_id
    log = MlflowLog(other, store.uri, upload=True)
    ids = log.log(cw.select(run()), store.weights(8))
    mlflow.set_tracking_uri(store.uri)
    mlflow.register_model(f"models:/{ids[8]}", "digits")
    store.client.set_registered_model_alias("digits", "best", "1")
    with pytest.warns(cw.CheckwiseWarning, match="no alias 'best'"):
        store.log(registered_model="digits", alias="best").log(cw.select(run()), store.weights(8))
    assert store.client.get_model_version_by_alias("digits", "best").run_id == other


def test_nothing_is_sent_to_an_active_run(store: Store) -> None:
    mlflow.set_tracking_uri(store.uri)
    mlflow.set_experiment("trial")
    with mlflow.start_run() as active:
        store.log().log(cw.select(run()), store.weights(8))
    tags = store.client.get_run(active.info.run_id).data.tags
    assert not [tag for tag in tags if tag.startswith("checkwise")]
    assert store.tags["step"] == "8"


def test_a_run_that_is_not_there_is_refused_at_once(store: Store) -> None:
    with refused("missing: nowhere"):
        MlflowLog("nowhere", store.uri)
    store.client.delete_run(store.run_id)
    with refused("missing"):
        store.log()


def test_a_path_of_an_unknown_step_is_refused(store: Store) -> None:
    with refused("unknown: 5"):
        store.log().log(cw.select(run()), {5: "somewhere"})


def test_a_live_selection_knows_its_paths(store: Store) -> None:
    journal = store.folder / "run" / "checkwise.jsonl"
    with cw.LiveSelector("ac-nc", journal=journal, checkpoints=store.folder) as live:
        for row, (step, path) in enumerate(store.weights(*ROWS["step"]).items()):
            names = ("accuracy", "nll", "cwece")
            live.add(step, {"val": {name: ROWS[name][row] for name in names}})
            live.saved(step, path)
            live.prune()
        assert live.selection is not None
        ids = store.log().log(live.selection)
    assert set(ids) == set(live.checkpoints) == {4, 8, 16}
    assert store.tags["path"] == str(live.path)
    again = cw.LiveSelector.from_journal(journal).selection
    assert again is not None
    assert store.log().log(again) == ids


def test_the_lightning_callback_logs_when_training_ends(store: Store) -> None:
    available("lightning")
    from checkwise.integrations.lightning import ReliabilityCheckpoint
    from tests.integrations.lightning_models import fit

    for epochs, resumed in ((2, None), (4, "last")):
        choosing: Any = ReliabilityCheckpoint(
            delta_pp=20,
            domains=["a", "b"],
            dirpath=store.folder / "run",
            tracker=store.log(),
        )
        fit(store.folder, choosing, max_epochs=epochs, resume=resumed)
        assert store.tags["step"] == str(choosing.selection.step)
        assert store.tags["path"] == choosing.best_model_path
        on_disk = {str(path) for path in (store.folder / "run").glob("epoch*.ckpt")}
        assert {model.tags["checkwise.path"] for model in store.kept().values()} == on_disk
        (chosen,) = [m for m in store.kept().values() if m.tags["checkwise.chosen"] == "true"]
        assert chosen.tags["checkwise.path"] == choosing.best_model_path


def test_a_tracker_that_fails_does_not_end_the_program(store: Store) -> None:
    available("lightning")
    from checkwise.integrations.lightning import ReliabilityCheckpoint
    from tests.integrations.lightning_models import fit

    choosing: Any = ReliabilityCheckpoint(
        domains=["a", "b"], dirpath=store.folder / "run", tracker=store.log()
    )
    store.client.delete_run(store.run_id)
    with pytest.warns(cw.CheckwiseWarning, match="is deleted: restore it .* Log it again with"):
        fit(store.folder, choosing, max_epochs=1)
    assert choosing.selection.step == 4


def test_the_transformers_callback_logs_when_training_ends(store: Store) -> None:
    available("transformers")
    from checkwise.integrations.transformers import ReliabilityCallback
    from tests.integrations.transformers_runs import arguments, script, scripted_trainer

    r = ReliabilityCallback("ac-nc", delta_pp=5, tracker=store.log())
    table, labels = script([0.1, 0.6, 0.8, 0.78, 0.81, 0.7])
    trainer = scripted_trainer(arguments(store.folder / "out", steps=10), table, labels, r)
    trainer.train()
    assert store.tags["step"] == str(r.choice)
    assert store.tags["path"] == trainer.state.best_model_checkpoint
    on_disk = {str(path) for path in (store.folder / "out").glob("checkpoint-*")}
    assert {model.tags["checkwise.path"] for model in store.kept().values()} == on_disk


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run_id": 7}, "value: 7"),
        ({"tracking_uri": 7}, "value: tracking_uri"),
        ({"upload": "yes"}, "value: upload … 'yes'"),
        ({"alias": ""}, "value: alias"),
        ({"registered_model": 3}, "value: registered_model"),
    ],
)
def test_arguments_of_another_kind_are_refused_at_once(
    options: dict[str, Any], message: str
) -> None:
    with refused(message):
        MlflowLog(**{"run_id": "run", **options})
