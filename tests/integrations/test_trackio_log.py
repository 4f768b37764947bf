"""A selection in Trackio: a real store on this disk, no server, nothing sent."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from tests.integrations.selections import STEPS, predictions, selection
from tests.requirements import available

available("trackio")

from checkwise.integrations.trackio import TrackioLog
from tests.refusals import refused

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def trackio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Trackio takes its folder from the environment when it is imported."""
    folder = tmp_path_factory.mktemp("trackio")
    before = os.environ.get("TRACKIO_DIR")
    os.environ["TRACKIO_DIR"] = str(folder)
    assert "trackio" not in sys.modules
    yield import_module("trackio")
    del os.environ["TRACKIO_DIR"]
    if before is not None:
        os.environ["TRACKIO_DIR"] = before


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Where this process connected to."""
    there: list[Any] = []
    connect = socket.socket.connect

    def noted(self: socket.socket, address: Any) -> None:
        there.append(address)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", noted)
    return there


def test_the_choice_can_be_read_again_from_the_store(
    trackio: Any, tmp_path: Path, connections: list[Any]
) -> None:
    chosen = selection(tmp_path)
    run = trackio.init(project="digits", name="one", auto_log_cpu=False, embed=False)
    run.log({"train/loss": 1.0, "train/global_step": 7})  # as a trainer's own callback does
    log = TrackioLog(run, upload=True)
    log.log(chosen)
    log.log(chosen)
    trackio.finish()
    store = Path(os.environ["TRACKIO_DIR"], "digits.db")
    again = cw.select(cw.load(store), "ac-nc", delta_pp=2)
    assert (again.step, again.accuracy) == (chosen.step, chosen.accuracy)
    assert again.reason == ""  # a store of numbers does not say how the callback was set
    assert again.trajectory.steps.tolist() == list(STEPS)
    offline = cw.select(cw.Trajectory.from_predictions(predictions()), "ac-nc", delta_pp=2)
    assert again.step == offline.step
    storage = import_module("trackio.sqlite_storage").SQLiteStorage
    logs = storage.get_logs("digits", "one", run_id=run.id)
    rows = [row for row in logs if "checkwise/choice" in row]
    assert rows[-1]["checkwise/choice"] == chosen.step
    assert rows[-1]["checkwise/path"] == str(tmp_path / f"{chosen.step}.pt")
    artifact = trackio.init(project="digits", name="two", auto_log_cpu=False, embed=False)
    found = artifact.use_artifact(f"run-{run.id}-checkwise:checkwise")
    folder = Path(found.download(str(tmp_path / "down")))
    assert (folder / f"{chosen.step}.pt").read_bytes() == bytes(chosen.step)
    assert set(found.aliases) >= {"checkwise", f"step-{chosen.step}"}
    trackio.finish()
    assert connections == []


def test_wrong_arguments_are_refused_at_once(trackio: Any) -> None:
    with refused("value: 'digits'"):
        TrackioLog("digits")
    run = trackio.init(project="wrong", name="one", auto_log_cpu=False, embed=False)
    with refused("missing"):
        TrackioLog(run, upload=True).log(selection())
    trackio.finish()
