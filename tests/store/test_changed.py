"""What was changed after it was written is refused by every reader, by name and with a way out."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import checkwise as cw
from checkwise.cli import main
from checkwise.deployed import read_checkpoint
from checkwise.errors import InputError
from checkwise.store import (
    CHECKPOINTS_FOLDER,
    COHORT_FILE,
    DONE_FILE,
    RUN_FILE,
    RUNS_FOLDER,
    SOURCE_FILE,
    checkpoint_file,
    read_run,
)
from checkwise.study import Cohort, read_heldout
from checkwise.study.folder import open_cohort, pack, verify
from checkwise.study.sweep.progress import cohort_status
from tests.figures.saved_logits import save_logits
from tests.refusals import refused
from tests.store.test_verify import flip
from tests.study import cohorts


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    folder = cohorts.write_cohort(tmp_path / "tiny", cohorts.tiny_runs()[:3])
    save_logits(folder, cohorts.STEPS)
    return folder


def first_run(cohort: Path) -> Path:
    return cohort / RUNS_FOLDER / str(cohorts.key("ERM", 0))


READERS: dict[str, Callable[[Path], object]] = {
    "run.json": lambda cohort: cw.load(first_run(cohort)),
    "source.jsonl": lambda cohort: Cohort.open(cohort).select("ac-nc"),
    "heldout/sketch.jsonl": lambda cohort: Cohort.open(cohort).evaluate("ac-nc"),
    "predictions/source/step-000100.npz": lambda cohort: (
        read_run(first_run(cohort)).predictions().logits(100)
    ),
    "predictions/heldout/sketch/step-000100.npz": lambda cohort: read_heldout(
        first_run(cohort), "sketch", 100
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_changed_file_of_a_finished_run_is_refused(cohort: Path, name: str) -> None:
    READERS[name](cohort)
    path = first_run(cohort) / name
    content = path.read_bytes()
    if path.suffix == ".npz":
        flip(path)
    else:  # still JSON: a digit becomes another
        path.write_bytes(content.replace(b"0.25", b"0.26").replace(b'"0.1.0"', b'"0.1.1"'))
    assert path.read_bytes() != content
    said = rf"checksum differs in .*{path.name}.*study status --verify"
    with pytest.raises(InputError, match=said):
        READERS[name](cohort)


@pytest.mark.parametrize("place", ["in its cohort", "alone"])
@pytest.mark.parametrize("instead", ["nothing", "a pipe", "a broken link"])
@pytest.mark.parametrize("name", [RUN_FILE, SOURCE_FILE])
def test_a_run_whose_file_is_gone_is_refused_and_not_passed_over(
    cohort: Path, name: str, instead: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, root = first_run(cohort), cohort
    if place == "alone":
        root = cohort.parent / "copies"
        shutil.copytree(cohort / RUNS_FOLDER, root)
        folder = root / folder.name
    assert len(cw.load_runs(root)) == 3
    (folder / name).unlink()
    if instead == "a pipe":
        os.mkfifo(folder / name)
    elif instead == "a broken link":
        (folder / name).symlink_to("elsewhere")
    for read in (cw.load_runs, lambda _: cw.load(folder)):
        with pytest.raises(InputError, match=rf"{folder.name}.{name} is .*study status --verify"):
            read(root)
    with pytest.raises(SystemExit) as stop:
        main(["select", str(root)])
    assert stop.value.code == 2
    assert str(folder / name) in capsys.readouterr().err


def test_a_run_that_has_recorded_nothing_yet_is_passed_over(cohort: Path) -> None:
    folder = first_run(cohort)
    (folder / DONE_FILE).unlink()
    assert len(cw.load_runs(cohort)) == 3
    (folder / SOURCE_FILE).unlink()
    assert len(cw.load_runs(cohort)) == 2
    (folder / RUN_FILE).unlink()
    assert len(cw.load_runs(cohort)) == 2


def test_the_mark_of_another_trainer_makes_no_run(cohort: Path) -> None:
    other = cohort.parent / "all" / "trial"
    shutil.copytree(cohort, other.parent / "cohort")
    other.mkdir()
    (other / DONE_FILE).write_text("done")
    (other / RUN_FILE).write_text("{}")
    assert len(cw.load_runs(other.parent)) == 3


def test_files_that_were_added_are_refused(cohort: Path) -> None:
    folder = first_run(cohort)
    (folder / CHECKPOINTS_FOLDER).mkdir()
    (folder / checkpoint_file(100)).write_bytes(b"weights")
    with refused("damaged"):
        read_checkpoint(folder, 100)


def test_changed_weights_are_not_exported(
    cohort: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = first_run(cohort)
    weights = folder / checkpoint_file(200)
    weights.parent.mkdir()
    weights.write_bytes(b"weights")
    cohorts.mark_again(folder)
    weights.write_bytes(b"weighty")
    with pytest.raises(SystemExit) as stop:
        main(["select", str(folder), "--rule", "ac-nc", "--copy-to", str(tmp_path / "best")])
    assert stop.value.code == 2
    assert "checksum differs" in capsys.readouterr().err
    assert not (tmp_path / "best").exists()


def rewrite_plan(cohort: Path, change: Callable[[dict[str, object]], object]) -> None:
    plan = json.loads((cohort / COHORT_FILE).read_text())
    change(plan)
    (cohort / COHORT_FILE).write_text(json.dumps(plan))


def test_a_changed_plan_is_refused_and_one_without_a_checksum_opens(cohort: Path) -> None:
    assert len(open_cohort(cohort).runs) == 3
    cohorts.sign_plan(cohort)
    assert len(open_cohort(cohort).runs) == 3
    rewrite_plan(cohort, lambda plan: plan.update(role="evaluation"))
    for read in (open_cohort, Cohort.open, verify, lambda c: cw.load(first_run(c))):
        with refused("damaged: cohort.json"):
            read(cohort)


def test_another_layout_of_the_same_plan_opens(cohort: Path) -> None:
    cohorts.sign_plan(cohort)
    rewrite_plan(cohort, lambda plan: plan)  # all on one line
    assert len(open_cohort(cohort).runs) == 3


def test_a_run_in_the_place_of_another_is_refused_by_name(cohort: Path, tmp_path: Path) -> None:
    folder = first_run(cohort)
    other = cohort / RUNS_FOLDER / str(cohorts.key("IRM", 0))
    shutil.rmtree(folder)
    shutil.copytree(other, folder)
    told = rf"planned for .*{folder.name}, but its run\.json is of {other.name}"
    readers: list[Callable[[Path], object]] = [
        lambda cohort: cw.load_runs(cohort),
        lambda cohort: Cohort.open(cohort).select("ac-nc"),
        lambda cohort: Cohort.open(cohort).evaluate("ac-nc"),
        lambda cohort: read_run(folder),
        lambda cohort: pack(cohort, tmp_path / "packed.tar.xz"),
    ]
    for read in readers:
        with pytest.raises(InputError, match=told):
            read(cohort)
    assert [f.run for f in verify(cohort) if "but its run.json is of" in f.what] == [folder.name]
    rewrite_plan(cohort, lambda plan: plan.update(study={"steps": 301, "record_every": 100}))
    (failed,) = [run for run in cohort_status(open_cohort(cohort)) if run.state == "failed"]
    assert failed.key == cohorts.key("ERM", 0)
    assert "run.json" in str(failed.reason)


@pytest.mark.parametrize(
    "change",
    [
        {"role": "foo"},
        {"role": "evaluation", "roles": {"PACS": "development"}},
        {"role": "mixed", "roles": {"PACS": "bar", "VLCS": "development"}},
    ],
)
def test_roles_that_do_not_exist_or_do_not_fit_are_refused(
    cohort: Path, change: dict[str, object]
) -> None:
    rewrite_plan(cohort, lambda plan: plan.update(change))
    for read in (open_cohort, Cohort.open, verify):
        with refused("damaged"):
            read(cohort)


@pytest.mark.parametrize(
    ("name", "value"),
    [("nll", -50.0), ("accuracy", 7.0), ("ece", -0.1), ("n", 0), ("correct", 10**6)],
)
def test_held_out_values_that_cannot_be_are_refused(cohort: Path, name: str, value: float) -> None:
    """As a forger would write them, who renews the mark of the run too."""
    run = first_run(cohort)
    (journal,) = (run / "heldout").glob("*.jsonl")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    lines[1][name] = value
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    cohorts.mark_again(run)
    with pytest.raises(InputError, match=rf"possible value of {name}, but got .* at step"):
        Cohort.open(cohort).evaluate("source-acc")


def test_verify_says_that_a_plan_has_no_checksum(
    cohort: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["study", "status", str(cohort), "--verify"])
    assert "cohort.json has no checksum" in capsys.readouterr().out.replace("\n", " ")
    cohorts.sign_plan(cohort)
    with pytest.raises(SystemExit):
        main(["study", "status", str(cohort), "--verify"])
    assert "no checksum" not in capsys.readouterr().out
