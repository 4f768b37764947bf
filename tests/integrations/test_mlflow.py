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
from dataclasses import dataclass, replace
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

    def series(self, name: str) -> dict[int, float]:
        """Step → what was logged last."""
        history = self.client.get_metric_history(self.run_id, name)
        return {m.step: m.value for m in sorted(history, key=lambda m: (m.step, m.timestamp))}

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


def selection(store: Store, *steps: int, rule: str = "ac-nc", **changed: Any) -> cw.Selection:
    """With the weights of these steps."""
    run = cw.Trajectory.from_frame({**ROWS, **changed})
    there = store.weights(*steps)
    paths = tuple(str(there[step]) if step in there else None for step in run.steps.tolist())
    return cw.select(replace(run, paths=paths if steps else None), rule)


def test_the_run_has_the_selection_the_table_and_the_page(store: Store) -> None:
    chosen = selection(store)
    store.log().log(chosen)
    assert json.loads(store.text("selection.json")) == chosen.as_dict()
    ranked = list(csv.DictReader(io.StringIO(store.text("ranking.csv"))))
    assert [int(row["step"]) for row in ranked] == [8, 16, 4, 12]
    assert [float(row["nll"]) for row in ranked] == [0.40, 0.45, 0.50, 0.90]
    assert "Step 8" in store.text("report.html")
    assert store.tags == {
        "choice": "8",
        "rule": "ac-nc",
        "accuracy": "0.898",
        "score": str(chosen.score),
        "gap_pp": str(chosen.gap_pp),
        "path": "",
    }


def test_every_checkpoint_has_its_numbers_and_select_reads_them(store: Store) -> None:
    chosen = selection(store, 4, 8)
    store.log().log(chosen)
    names = ("accuracy", "nll", "cwece")
    for name in names:
        assert store.series(f"checkwise/validation/{name}") == dict(
            zip(ROWS["step"], ROWS[name], strict=True)
        )
    assert store.series("checkwise/chosen") == {4: 0, 8: 1, 12: 0, 16: 0}
    assert store.tags["path"] == chosen.path
    again = cw.select(cw.load(store.folder / "store.db"))
    assert (again.step, again.rule) == (8, "ac-nc")


def test_logging_again_replaces_the_choice(store: Store) -> None:
    """Runs are sorted by the metrics of the choice, also where it returns to an earlier one."""
    log = store.log()
    for _ in range(2):
        for rule, step, accuracy in (("ac-nc", 8, 0.898), ("source-acc", 4, 0.900)):
            log.log(selection(store, step, rule=rule))
            assert store.tags["choice"] == str(step)
            shown = store.run.data.metrics
            assert (shown["checkwise/choice"], shown["checkwise/accuracy"]) == (step, accuracy)
            marked = store.series("checkwise/chosen")
            assert [at for at, value in marked.items() if value] == [step]
            assert f"Step {step}" in store.text("report.html")
    log.log(selection(store))
    assert store.tags["path"] == ""


def test_a_row_that_was_logged_is_not_logged_again(store: Store) -> None:
    for _ in range(3):  # as trainings do that were resumed
        store.log().log(selection(store))
    assert len(store.client.get_metric_history(store.run_id, "checkwise/validation/nll")) == 4
    store.log().log(selection(store, nll=[0.50, 0.48, 0.90, 0.45]))
    assert store.series("checkwise/validation/nll") == {4: 0.50, 8: 0.48, 12: 0.90, 16: 0.45}
    again = cw.load(store.folder / "store.db")
    assert again.values["nll"][:, 0].tolist() == [0.50, 0.48, 0.90, 0.45]


def test_a_long_run_is_logged_in_parts(store: Store) -> None:
    """A store takes a thousand numbers at a time."""
    steps = list(range(1, 401))
    values = {"accuracy": [0.5] * 400, "nll": [1 / k for k in steps], "cwece": [0.1] * 400}
    store.log().log(cw.select(cw.Trajectory.from_frame({"step": steps, **values})))
    assert list(store.series("checkwise/validation/nll")) == steps
    assert store.tags["choice"] == "400"


LOGGING_FOREVER = f"""
import sys
import checkwise as cw
from checkwise.integrations.mlflow import MlflowLog

uri, run_id = sys.argv[1:]
log = MlflowLog(run_id, uri)
runs = [cw.Trajectory.from_frame({{**{ROWS!r}, "nll": nll}})
        for nll in ([0.5, 0.4, 0.9, 0.45], [0.5, 0.48, 0.9, 0.46])]
print("ready", flush=True)
while True:
    for run in runs:
        log.log(cw.select(run))
"""


def test_logging_goes_on_after_kills_at_any_instant(store: Store) -> None:
    for delay in (0.3,):
        process = subprocess.Popen(
            [sys.executable, "-c", LOGGING_FOREVER, store.uri, store.run_id],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(delay)
        process.kill()
        process.wait()
        process.stdout.close()
        store.log().log(selection(store))
        assert store.series("checkwise/validation/nll") == {4: 0.5, 8: 0.4, 12: 0.9, 16: 0.45}
        assert store.tags["choice"] == "8"
        assert cw.select(cw.load(store.folder / "store.db")).step == 8


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_the_weights_of_the_choice_are_uploaded_on_request(store: Store, kind: str) -> None:
    chosen = selection(store, 4, 8)
    if kind == "folder":
        folder = store.folder / "checkpoint-8"
        folder.mkdir()
        (store.folder / "8.ckpt").rename(folder / "8.ckpt")
        paths = (None, str(folder), None, None)
        chosen = cw.select(replace(chosen.trajectory, paths=paths), "ac-nc")
    store.log(upload=True).log(chosen)
    (uploaded,) = store.client.list_artifacts(store.run_id, "checkwise/step-8")
    assert (Path(uploaded.path).name, uploaded.file_size) == ("8.ckpt", 8)
    with refused("missing: 8"):
        store.log(upload=True).log(selection(store))
    store.log().log(selection(store, 4, rule="source-acc"))
    assert not store.client.list_artifacts(store.run_id, "checkwise/step-4")


def test_nothing_is_sent_to_an_active_run(store: Store) -> None:
    mlflow.set_tracking_uri(store.uri)
    mlflow.set_experiment("trial")
    with mlflow.start_run() as active:
        store.log().log(selection(store, 8))
    tags = store.client.get_run(active.info.run_id).data.tags
    assert not [tag for tag in tags if tag.startswith("checkwise")]
    assert store.tags["choice"] == "8"


def test_a_run_that_is_not_there_is_refused_at_once(store: Store) -> None:
    with refused("missing: nowhere"):
        MlflowLog("nowhere", store.uri)
    store.client.delete_run(store.run_id)
    with refused("missing"):
        store.log()


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
        assert store.tags["choice"] == str(choosing.selection.step)
        assert store.tags["path"] == choosing.best_model_path


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
    assert store.tags["choice"] == str(r.choice)
    assert store.tags["path"] == trainer.state.best_model_checkpoint


def test_what_is_no_id_is_refused_at_once() -> None:
    with refused("value: 7"):
        MlflowLog(7)  # type: ignore[arg-type]
