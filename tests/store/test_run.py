"""What selection reads of a run, and that it reads nothing else."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import checkwise as cw
from checkwise.errors import InputError
from checkwise.store import DONE_FILE, HELDOUT_FOLDER, RUN_FILE, SOURCE_FILE, inner_path, read_run
from checkwise.study.folder import sealed_results as read_heldout
from checkwise.study.train.checkpoint_files import kept_steps
from tests.refusals import refused
from tests.runs import config, train

OPENED: list[str] = []
LISTENING = [False]


def _listen(event: str, args: tuple[object, ...]) -> None:
    if LISTENING[0] and event in ("open", "os.listdir", "os.scandir"):
        OPENED.append(str(args[0]))


sys.addaudithook(_listen)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    train(folder, config(source_in=True, logits="all"))
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def opened() -> Iterator[list[str]]:
    OPENED.clear()
    LISTENING[0] = True
    yield OPENED
    LISTENING[0] = False


def test_a_trajectory_carries_every_metric_exactly(run: Path) -> None:
    found = read_run(run).trajectory()
    lines = [json.loads(line) for line in (run / SOURCE_FILE).read_text().splitlines()]
    assert found.steps.tolist() == [0, 3, 6, 9, 12]
    assert found.domains == ("0", "15")
    assert found.key == config().key
    usual = {name for name, metric in cw.metrics.METRICS.items() if not metric.on_demand}
    assert set(found.metrics) == usual
    for t, line in enumerate(lines):
        for e, domain in enumerate(found.domains):
            assert found.values["nll"][t, e] == line["domains"][domain]["nll"]
    assert found.paths is not None
    assert all(path is not None and Path(path).is_file() for path in found.paths)


def test_journals_name_no_time_and_no_host(run: Path) -> None:
    for path in run.rglob("*.jsonl"):
        for line in path.read_text().splitlines():
            assert set(json.loads(line)) <= {
                *("step", "diverged", "domains", "in", "train", "split", "n", "correct"),
                *cw.metrics.METRICS,
            }


def test_selection_opens_nothing_held_out(run: Path, opened: list[str]) -> None:
    cw.select(read_run(run).trajectory())
    LISTENING[0] = False
    assert any(path.endswith("source.jsonl") for path in opened)
    assert not [path for path in opened if "heldout" in path]


@pytest.mark.parametrize("spoil", ["remove", "poison", "lock"])
def test_selection_does_not_change_with_what_is_held_out(run: Path, spoil: str) -> None:
    before = cw.select(read_run(run).trajectory()).to_json()
    place = run / HELDOUT_FOLDER
    if spoil == "remove":
        shutil.rmtree(place)
    elif spoil == "poison":
        for path in place.iterdir():
            path.write_bytes(b"\xff\x00 not a journal\n")
    else:
        os.chmod(place, 0)
    try:
        assert cw.select(read_run(run).trajectory()).to_json() == before
    finally:
        if place.exists():
            os.chmod(place, 0o755)


def test_held_out_results_come_back_as_arrays(run: Path) -> None:
    (run.parent / "cohort.json").write_text("{}")  # what is opened is marked in a cohort
    found = read_heldout(run, "30")
    assert found["step"].tolist() == [0, 3, 6, 9, 12]
    assert np.array_equal(found["accuracy"], found["correct"] / found["n"])
    assert found["n"].tolist() == [48] * 5
    with refused("missing: '45' … 30"):
        read_heldout(run, "45")


def test_a_torn_last_line_is_passed_over(run: Path) -> None:
    (run / DONE_FILE).unlink()
    with (run / SOURCE_FILE).open("ab") as file:
        file.write(b'{"step":15,"div')
    found = read_run(run).trajectory()
    assert len(found) == 5
    assert found.notes == ("the run is not finished",)


@pytest.mark.parametrize(("schema", "advice"), [(99, "update checkwise"), (0, "write it again")])
def test_another_schema_is_refused_by_name(run: Path, schema: int, advice: str) -> None:
    content = json.loads((run / RUN_FILE).read_text())
    (run / RUN_FILE).write_text(json.dumps({**content, "schema": schema}))
    with pytest.raises(InputError, match=rf"schema 1, but got {schema} in .*run\.json: {advice}"):
        read_run(run).trajectory()


def test_a_metric_that_lacks_is_named(run: Path) -> None:
    path = run / SOURCE_FILE
    path.write_text(path.read_text().replace('"nll":', '"mll":', 3))
    with refused("damaged"):
        read_run(run).trajectory()
    (run / DONE_FILE).unlink()
    with refused("damaged"):
        read_run(run).trajectory()


def line(step: int, correct: int, *, diverged: bool = False) -> dict[str, object]:
    entry = {"n": 1000, "correct": correct, "accuracy": correct / 1000}
    if diverged:
        entry = {"n": 1000, "correct": None, "accuracy": None}  # type: ignore[dict-item]
    return {"step": step, "diverged": diverged, "domains": {"val": entry}}


def test_weights_on_the_edge_of_the_tolerance_stay() -> None:
    lines = [line(0, 889), line(1, 890), line(2, 900), line(3, 0, diverged=True)]
    assert kept_steps(lines, "feasible", "1.0") == {1, 2}
    assert kept_steps(lines, "all", "1.0") == {0, 1, 2, 3}
    assert kept_steps(lines, "none", "1.0") == set()
    assert kept_steps(lines[3:], "feasible", "1.0") == set()


@pytest.mark.parametrize("named", [".", "..", "../cohort", "../../all/cohort/"])
def test_inner_runs_lie_beside_the_cohort_however_it_is_named(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "all" / "cohort"
    (here / "runs").mkdir(parents=True)
    monkeypatch.chdir(here / "runs" if named == ".." else here)
    assert inner_path(Path(named)).resolve() == tmp_path / "all" / "cohort-lodo"
