"""Checkpoints beside a log, under the names that trainers give them.

Trees marked "written by" were written by that version of the trainer; the others follow its source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import checkwise as cw
from checkwise.cli import main
from checkwise.readers import checkpoint_files
from checkwise.readers import log as trainers
from checkwise.readers.checkpoint_files import Checkpoints, find_checkpoints, steps_to_choose_from
from checkwise.readers.log import Trainer
from tests.material.trainers.cases import Case, cases
from tests.refusals import refused, said


def put(root: Path, *names: str) -> Path:
    """Files with something in them, in folders that are made as needed."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"weights")
    return root


def find(
    log: Path,
    trainer: Trainer,
    steps: Sequence[int],
    epochs: Mapping[int, int] | None = None,
    *,
    pattern: str | None = None,
    told: Mapping[int, str] | None = None,
) -> Checkpoints:
    return find_checkpoints(log, trainer, steps, epochs or {}, pattern=pattern, told=told or {})


def names(checkpoints: Checkpoints) -> dict[int, str]:
    return {step: os.path.basename(path) for step, path in checkpoints.files.items()}


def by_epoch(*steps: int) -> dict[int, int]:
    return {step: epoch for epoch, step in enumerate(steps)}


# Written by transformers 5.22.2 with save_steps=8.
HF_FILES = ("model.safetensors", "optimizer.pt", "rng_state.pth", "trainer_state.json")


def test_transformers_folders_are_beside_or_around_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, *(f"checkpoint-{step}/{file}" for step in (8, 16) for file in HF_FILES))
    put(tmp_path, "trainer_state.json", "model.safetensors", "training_args.bin")
    for log in ("trainer_state.json", "checkpoint-16/trainer_state.json", "."):
        checkpoints = find(tmp_path / log, trainers.TRANSFORMERS, [4, 8, 12, 16])
        assert checkpoints.files == {step: str(tmp_path / f"checkpoint-{step}") for step in (8, 16)}
        assert not checkpoints.notes
    monkeypatch.chdir(tmp_path / "checkpoint-16")
    assert set(find(Path("trainer_state.json"), trainers.TRANSFORMERS, [8, 16]).files) == {8, 16}


def test_half_written_and_empty_folders_are_no_checkpoints(tmp_path: Path) -> None:
    log = tmp_path / "trainer_state.json"
    put(tmp_path, "trainer_state.json", "model.safetensors", "checkpoint-2/trainer_state.json")
    assert find(log, trainers.TRANSFORMERS, [2, 4]) == Checkpoints({}, ())
    put(tmp_path, "checkpoint-1/model.safetensors", "checkpoint-best/model.safetensors")
    put(tmp_path, "checkpoint-3/model.safetensors", "checkpoint-3/checkpoint-is-incomplete.txt")
    (tmp_path / "checkpoint-4").mkdir()
    assert set(find(log, trainers.TRANSFORMERS, [1, 2, 3, 4]).files) == {1}
    assert find(tmp_path / "checkpoint-2", trainers.TRANSFORMERS, [2, 3, 4]).files == {}


TENS = (9, 19, 29)  # the last step of each epoch of ten batches, as Lightning logs it
CK = "checkpoints/"
# Trainer, files, steps, their epochs; then the place of the file of each step, how much more names
# count than the log, and what is said.
Found = tuple[
    Trainer, Sequence[str], Sequence[int], Sequence[int] | None, Mapping[int, int], int, str
]
FOUND: list[Found] = [
    # Written by Lightning 2.6.6: ten batches an epoch, each validated.
    (trainers.LIGHTNING, [f"{CK}epoch=0-step=10.ckpt", f"{CK}epoch=1-step=20.ckpt",
     f"{CK}last.ckpt"], (9, 19), (0, 1), {9: 0, 19: 1}, 1, ""),
    (trainers.LIGHTNING, [f"{CK}epoch=0-step=3.ckpt", f"{CK}epoch=1-step=6.ckpt"],
     (2, 5), (0, 1), {2: 0, 5: 1}, 1, ""),  # accumulated gradients
    (trainers.LIGHTNING, [f"{CK}epoch=00-val_loss=0.31.ckpt", f"{CK}epoch=01-val_loss=0.21.ckpt"],
     (9, 19), (0, 1), {9: 0, 19: 1}, 0, ""),
    (trainers.LIGHTNING, [f"{CK}m-00-0.50.ckpt", f"{CK}m-01-0.50.ckpt"],
     (9, 19), (0, 1), {9: 0, 19: 1}, 0, ""),  # auto_insert_metric_name=False
    *((trainers.LIGHTNING, [f"{CK}{template.format(e=e, s=s, more=s + 1)}.ckpt"
       for e, s in enumerate(TENS)], TENS, (0, 1, 2), {9: 0, 19: 1, 29: 2}, ahead, "")
      for template, ahead in (
          ("epoch={e}-step={more}", 1), ("step={more}-epoch={e}", 1), ("step={more}", 1),
          ("mine-{more}", 1), ("mine-{s}", 0), ("epoch={e}", 0), ("epoch={e}-val_acc=0.5", 0),
          # Before 1.6 names had the step of the log (Lightning-AI/pytorch-lightning#7496).
          ("epoch={e}-step={s}", 0),
      )),
    # Steps between validations belong to none: 24 is saved before step 24 is logged.
    (trainers.LIGHTNING, [f"{CK}epoch=1-step=20.ckpt", f"{CK}epoch=2-step=24.ckpt",
     f"{CK}epoch=2-step=28.ckpt"], (9, 19, 24), (0, 1, 2), {19: 0}, 1, ""),
    (trainers.LIGHTNING, [f"{CK}epoch=2-step=24.ckpt"], (9, 19, 24), (0, 1, 2), {}, 0,
     "no name of a checkpoint fits a step"),
    # A name with epoch and step has to fit in both.
    (trainers.LIGHTNING, [f"{CK}epoch={n}-step={n}.ckpt" for n in range(10)], range(10), range(10),
     {n: n for n in range(10)}, 0, ""),
    (trainers.LIGHTNING, [f"{CK}epoch={n + 5}-step={10 * n + 10}.ckpt" for n in range(12)],
     range(9, 129, 10), range(12), {}, 0, "no name of a checkpoint fits a step of the log"),
    # An epoch that was validated twice is not guessed.
    (trainers.LIGHTNING, [f"{CK}epoch=0.ckpt", f"{CK}epoch=1.ckpt"], (4, 9, 19), (0, 0, 1), {19: 1},
     0, "epoch=0.ckpt could be of several steps"),
    (trainers.LIGHTNING, [f"{CK}epoch=0-step=10{v}.ckpt" for v in ("", "-v2", "-v10")], [9], [0],
     {9: 2}, 1, "the newest of 3 versions"),
    (trainers.LIGHTNING, [f"{CK}epoch=0-step=10.ckpt", f"{CK}best-epoch=0-step=10.ckpt"], [9], [0],
     {9: 0}, 1, "step 9 has several checkpoints"),
    # Written by Keras 3.15.1: ModelCheckpoint counts epochs from 1, CSVLogger from 0.
    *((trainers.KERAS, [template.format(n) for n in (1, 2, 3)], (0, 1, 2), None, {0: 0, 1: 1, 2: 2},
       1, "") for template in (
          "weights.{:02d}.keras", "m-{:02d}-0.74.weights.h5", "cp-{:04d}.ckpt.index",
          "m{}_0.5.hdf5", "fold1-{:02d}.h5", "{:02d}-fold1.h5", "scaffold{}.h5",
      )),
    (trainers.KERAS, ["a#-1.h5", "a2-1.h5", "w1.h5", "w2.h5", "w3.h5"], (0, 1, 2), None,
     {0: 2, 1: 3, 2: 4}, 1, ""),  # a sign is part of no number
    # Numbers of folds and seeds are no epochs.
    *((trainers.KERAS, [template.format(n) for n in (1, 2, 3)], (0, 1, 2), None, {}, 0,
       "no name of a checkpoint fits a step of the log") for template in (
          "fold{}.h5", "best_fold-{}.h5", "Seed_{}.keras", "run {}.h5", "{}-fold.h5",
          "m.split={}.h5",
      )),
    (trainers.KERAS, [f"{kind}-{n}.h5" for n in (1, 2, 3) for kind in ("generator", "critic")],
     (0, 1, 2), None, {}, 0, "several kinds of names fit"),
    (trainers.KERAS, ["best_model.h5"], (0, 1, 2), None, {}, 0, "best_model.h5"),
    (trainers.KERAS, ["best-12.keras"], range(20), None, {}, 0, "'model-{epoch+1}.pt'"),
    (trainers.FASTAI, [f"models/model_{n}.pth" for n in range(3)], (0, 1, 2), None,
     {0: 0, 1: 1, 2: 2}, 0, ""),
    # Written by timm 1.0.30's CheckpointSaver(max_history=3).
    (trainers.TIMM, [*(f"checkpoint-{n}.pth.tar" for n in (2, 3, 4)), "recovery-5-17.pth.tar",
     "last.pth.tar", "model_best.pth.tar"], range(5), None, {2: 0, 3: 1, 4: 2}, 0, ""),
    # ultralytics/engine/trainer.py: names count from 0; the log from 1 since #4491, before from 0.
    *((trainers.ULTRALYTICS, [f"weights/{n}.pt" for n in ("epoch10", "epoch20", "best", "last")],
       range(first, 100 + first), None, {10 + first: 0, 20 + first: 1}, -first, "")
      for first in (0, 1)),
    (trainers.ULTRALYTICS, ["weights/best.pt", "weights/last.pt"], range(1, 9), None, {}, 0,
     "(best.pt, last.pt) say no step"),
    (trainers.OTHER, ["model-1.pt", "model-2.pt"], [1, 2], None, {}, 0, ""),
]  # fmt: skip


def test_names_that_trainers_and_users_give(tmp_path: Path) -> None:
    wrong = []
    for number, (trainer, files, steps, epochs, expected, ahead, note) in enumerate(FOUND):
        folder = put(tmp_path / str(number), *files)
        counted = {} if epochs is None else dict(zip(steps, epochs, strict=True))
        found = find(folder / "log.csv", trainer, steps, counted)
        named = {step: str(folder / files[place]) for step, place in expected.items()}
        notes = " ".join(found.notes)
        if found.files != named or found.ahead != ahead or note not in notes:
            wrong.append(f"{trainer.name} {files[:3]}: {found}")
        if bool(note) != bool(notes):
            wrong.append(f"{trainer.name} {files[:3]}: {notes}")
    assert not wrong


@pytest.mark.parametrize("first", [0, 1])
def test_steps_that_could_be_counted_in_two_ways_are_asked_for(tmp_path: Path, first: int) -> None:
    put(tmp_path, *(f"checkpoints/step={n}.ckpt" for n in range(first, 10)))
    log, epochs = tmp_path / "metrics.csv", by_epoch(*range(10))
    checkpoints = find(log, trainers.LIGHTNING, range(10), epochs)
    assert not checkpoints.files
    pattern = "checkpoints/*step={step}*.ckpt"
    assert f"{pattern!r} if as the log does" in checkpoints.notes[0]
    chosen = find(log, trainers.LIGHTNING, range(10), epochs, pattern=f"{pattern}")
    assert names(chosen) == {n: f"step={n}.ckpt" for n in range(first, 10)}


def test_keras_names_that_could_be_counted_in_two_ways_are_asked_for(tmp_path: Path) -> None:
    put(tmp_path, "weights.02.keras", "weights.04.keras")
    checkpoints = find(tmp_path / "training.log", trainers.KERAS, range(10))
    assert not checkpoints.files
    pattern = "weights.{epoch+1}.keras"
    assert f"--checkpoints {pattern!r}" in checkpoints.notes[0]
    steps, notes = steps_to_choose_from(range(10), checkpoints, include_unsaved=False)
    assert (steps, notes) == (tuple(range(10)), ())
    chosen = find(tmp_path / "training.log", trainers.KERAS, range(10), pattern=pattern)
    assert names(chosen) == {1: "weights.02.keras", 3: "weights.04.keras"}


def test_checkpoints_above_the_log_are_taken_only_if_no_other_log_is_beside(
    tmp_path: Path,
) -> None:
    put(tmp_path, "version_0/metrics.csv", "checkpoints/epoch=0-step=10.ckpt")
    log = tmp_path / "version_0" / "metrics.csv"
    assert set(find(log, trainers.LIGHTNING, [9], {9: 0}).files) == {9}
    put(tmp_path, "version_1/metrics.csv")
    checkpoints = find(log, trainers.LIGHTNING, [9], {9: 0})
    assert not checkpoints.files
    assert "other logs lie beside" in checkpoints.notes[0]


LIGHTNING_LOG = "epoch,step,val_acc,val_loss\n0,9,0.5,1\n1,19,0.6,0.9\n"
KERAS_LOG = "epoch,accuracy,loss,val_accuracy,val_loss\n0,0.5,1,0.5,1\n1,0.6,0.9,0.6,0.9\n"


def test_checkpoints_above_the_log_are_those_of_the_log_there(tmp_path: Path) -> None:
    put(tmp_path, "checkpoints/epoch=0-step=10.ckpt", "checkpoints/epoch=1-step=20.ckpt")
    (tmp_path / "version_1").mkdir()
    for folder in (tmp_path, tmp_path / "version_1"):
        (folder / "metrics.csv").write_text(LIGHTNING_LOG)
    above, below = sorted(cw.load_runs(tmp_path).values(), key=lambda run: run.paths is None)
    assert above.paths is not None
    assert below.paths is None
    assert any("metrics.csv lies there as well" in note for note in below.notes)


@pytest.mark.parametrize("other", ["b.csv", "b.log", "history.json"])
def test_checkpoints_beside_two_logs_are_of_neither(tmp_path: Path, other: str) -> None:
    put(tmp_path, "weights.01.keras", "weights.02.keras")
    (tmp_path / "a.csv").write_text(KERAS_LOG)
    # Tables that are no logs, and logs of trainers that save no checkpoints, take nothing.
    (tmp_path / "predictions.csv").write_text("id,class\n1,2\n")
    (tmp_path / "own.csv").write_text("step,val_acc\n1,0.5\n")
    assert cw.load(tmp_path / "a.csv").paths is not None
    history = '{"val_accuracy": [0.5, 0.6], "val_loss": [1, 0.9]}'
    (tmp_path / other).write_text(history if other.endswith(".json") else KERAS_LOG)
    for name in ("a.csv", other):
        run = cw.load(tmp_path / name)
        assert run.paths is None
        assert any("they could be of" in note for note in run.notes)


def test_event_files_inside_a_transformers_run(tmp_path: Path) -> None:
    put(tmp_path, "runs/Nov16_host/events.out.tfevents.1.host.1.0", "checkpoint-8/model.bin")
    for log in ("runs/Nov16_host", "runs/Nov16_host/events.out.tfevents.1.host.1.0"):
        checkpoints = find(tmp_path / log, trainers.TENSORBOARD, [4, 8])
        assert checkpoints.files == {8: str(tmp_path / "checkpoint-8")}


# ray/train/_internal/storage.py: names count checkpoints; each line of the log names its own.
def test_paths_that_the_log_names_win_where_they_exist(tmp_path: Path) -> None:
    put(tmp_path, *(f"checkpoint_00000{n}/state.pt" for n in (0, 1, 2)))
    told = {
        2: "checkpoint_000000",
        4: "checkpoint_000001",
        6: "gone",
        8: "x\0",
        9: "\ud800",
        10: "x" * 9999,
    }
    checkpoints = find(tmp_path / "result.json", trainers.RAY, range(12), told=told)
    assert checkpoints.files == {
        2: f"{tmp_path}/checkpoint_000000",
        4: f"{tmp_path}/checkpoint_000001",
    }


def test_paths_that_are_gone_are_said(tmp_path: Path) -> None:
    put(tmp_path, *(f"checkpoint_00000{n}/state.pt" for n in (0, 1, 2)))
    told = {step: f"elsewhere/{step}" for step in (1, 2, 3)}
    checkpoints = find(tmp_path / "result.json", trainers.RAY, [1, 2, 3], told=told)
    assert not checkpoints.files
    assert checkpoints.notes == ("none of the 3 checkpoints that the log names is there (1, 2, 3)",)


def test_the_log_wins_over_a_pattern(tmp_path: Path) -> None:
    put(tmp_path, "a-1.pt", "a-2.pt", "told.pt")
    log = tmp_path / "log.csv"
    told = {2: str(tmp_path / "told.pt"), 3: "nowhere"}
    checkpoints = find(log, trainers.OTHER, [1, 2, 3], pattern="a-{step}.pt", told=told)
    assert names(checkpoints) == {1: "a-1.pt", 2: "told.pt"}


@pytest.mark.parametrize("kind", ["log", "current", "absolute", "home"])
def test_where_a_pattern_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    put(tmp_path, "run/ck/e001.pt", "run/ck/e002.pt")
    (tmp_path / "elsewhere").mkdir()
    place = {"current": tmp_path}.get(kind, tmp_path / "elsewhere")
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(tmp_path / "run"))
    pattern = {
        "log": "ck/e{epoch}.pt",
        "current": "run/ck/e{epoch:03d}.pt",
        "absolute": f"{tmp_path}/*/ck/e{{epoch}}.pt",
        "home": "~/ck/e{epoch}.pt",
    }[kind]
    checkpoints = find(tmp_path / "run" / "log.csv", trainers.OTHER, [1, 2], pattern=pattern)
    assert names(checkpoints) == {1: "e001.pt", 2: "e002.pt"}


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("model.pt", "value: 'model.pt'"),
        ("{val_loss:.2f}-{epoch}.pt", "value: {val_loss:.2f}"),
        ("{val/loss}-{epoch}.pt", "value: {val/loss}"),
        ("{epoch", "value"),
        ("{epoch}}", "value"),
        ("{}", "value: {}"),
        ("e{epoch}\0.pt", "value"),
        ("x{epoch}.pt", "missing: e1.pt … e2.pt … e3.pt … 2"),
        ("nowhere/{epoch}.pt", "missing: nowhere"),
        ("e{epoch+1}0.pt", "missing"),
        ("e{step+90}.pt", "missing: e1.pt, e2.pt, e3.pt … 0, 1, 2"),
        ("e{epoch}.pt", "differs: {epoch+1} … {epoch+0}"),
        ("*{epoch+1}.*t", "ambiguous: e1.pt, f1.pt"),
    ],
)
def test_patterns_that_are_refused(tmp_path: Path, pattern: str, message: str) -> None:
    put(tmp_path, *(f"e{n}.pt" for n in (1, 2, 3)), "f1.pt", "g.txt")
    with pytest.raises(cw.InputError) as error:
        find(tmp_path / "log.csv", trainers.OTHER, [0, 1, 2], pattern=pattern)
    assert said(error.value, message)


def test_a_count_that_is_meant_is_obeyed(tmp_path: Path) -> None:
    put(tmp_path, *(f"e{n}.pt" for n in (1, 2, 3)))
    checkpoints = find(tmp_path / "log.csv", trainers.OTHER, [0, 1, 2], pattern="e{epoch+0}.pt")
    assert names(checkpoints) == {1: "e1.pt", 2: "e2.pt"}


def test_a_pattern_with_epochs_where_an_epoch_has_several_steps(tmp_path: Path) -> None:
    put(tmp_path, "e0.pt")
    with refused("ambiguous: {step"):
        find(tmp_path / "a.csv", trainers.OTHER, [4, 9], {4: 0, 9: 0}, pattern="e{epoch}.pt")


def test_both_numbers_of_a_pattern_have_to_fit(tmp_path: Path) -> None:
    put(tmp_path, "0/s4.pt", "1/s4.pt", "1/s9.pt", "x/s4.pt")
    log, epochs = tmp_path / "a.csv", {4: 0, 9: 1}
    checkpoints = find(log, trainers.OTHER, [4, 9], epochs, pattern="{epoch}/s{step}.pt")
    assert checkpoints.files == {4: f"{tmp_path}/0/s4.pt", 9: f"{tmp_path}/1/s9.pt"}
    put(tmp_path, "9-9.pt", "4-9.pt")
    twice = find(log, trainers.OTHER, [4, 9], epochs, pattern="{step}-{step}.pt")
    assert names(twice) == {9: "9-9.pt"}


def test_poisoned_names_are_only_names(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/checkpoints/"
    os.mkdir(folder)
    for name in (
        b"epoch=0-step=10\nX=1.ckpt",
        b"epoch=1-step=20\xff.ckpt",
        b"epoch=2-step=30" + b"9" * 200 + b".ckpt",
        b"..epoch=3-step=40.ckpt",
        "step=٥٠.ckpt".encode(),
        b"epoch=5-step=60{step}.ckpt",
    ):
        with open(folder + name, "wb") as file:
            file.write(b"x")
    os.symlink(os.fsencode(tmp_path) + b"/gone", folder + b"epoch=6-step=70.ckpt")
    os.symlink(b"epoch=7-step=80.ckpt", folder + b"epoch=7-step=80.ckpt")
    os.mkfifo(folder + b"epoch=8-step=90.ckpt")
    steps = range(9, 100, 10)
    checkpoints = find(tmp_path / "metrics.csv", trainers.LIGHTNING, steps, by_epoch(*steps))
    assert set(checkpoints.files) == {9, 19, 59}
    for path in checkpoints.files.values():
        assert os.path.realpath(path).startswith(os.path.realpath(tmp_path) + "/checkpoints/")
    stays = find(tmp_path / "metrics.csv", trainers.LIGHTNING, [1], {1: 77})
    assert "\n" not in stays.notes[0]
    assert "\\n" in stays.notes[0]


def test_a_link_to_a_checkpoint_elsewhere_is_a_checkpoint(tmp_path: Path) -> None:
    put(tmp_path, "store/model.safetensors")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint-8").symlink_to(tmp_path / "store")
    checkpoints = find(tmp_path / "run" / "trainer_state.json", trainers.TRANSFORMERS, [8])
    assert checkpoints.files == {8: str(tmp_path / "run" / "checkpoint-8")}


def test_a_pattern_leads_through_so_many_folders_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_files, "MOST_FOLDERS", 10)
    put(tmp_path, *(f"checkpoints/epoch={n}.ckpt" for n in range(11)))
    with refused("unsupported: 10"):
        find(tmp_path / "a.csv", trainers.OTHER, [1], pattern="checkpoints/*/{epoch}.ckpt")


def test_steps_without_a_checkpoint_are_left_out_unless_they_are_wanted() -> None:
    checkpoints = Checkpoints({20: "b", 40: "d"})
    steps, notes = steps_to_choose_from([10, 20, 40], checkpoints, include_unsaved=False)
    assert steps == (20, 40)
    assert notes == (
        "1 of 3 logged steps have no checkpoint and are left out (--include-unsaved keeps them)",
    )
    steps, notes = steps_to_choose_from([10, 20, 40], checkpoints, include_unsaved=True)
    assert steps == (10, 20, 40)
    assert "1 of 3" in notes[0]
    assert steps_to_choose_from([1], Checkpoints({}), include_unsaved=False) == ((1,), ())
    assert steps_to_choose_from([20], checkpoints, include_unsaved=False) == ((20,), ())


LOGS = {
    "fastai": trainers.FASTAI,
    "keras": trainers.KERAS,
    "lightning": trainers.LIGHTNING,
    "timm": trainers.TIMM,
    "ultralytics": trainers.ULTRALYTICS,
    "transformers": trainers.TRANSFORMERS,
}


@pytest.mark.parametrize(
    "case",
    [case for case in cases() if case.trainer in LOGS],
    ids=lambda case: f"{case.trainer}-{case.name}",
)
def test_real_trainings_say_themselves_where_they_saved_a_step(case: Case, tmp_path: Path) -> None:
    root = case.unpack(tmp_path)
    for run in {run["log"]: run for run in case.expected()}.values():  # the last of one log
        log = root / run["log"]
        trainer = LOGS[case.trainer] if log.is_file() else trainers.TENSORBOARD
        saved, epochs = {}, {}
        for evaluation in run["evaluations"]:
            # Lightning counts finished steps and logs the step before; Ultralytics logs from 1.
            step = {
                "lightning": evaluation["step"] - 1,
                "transformers": evaluation["step"],
                "ultralytics": int(evaluation["epoch"]) + 1,
            }.get(case.trainer, int(evaluation["epoch"]))
            saved[step] = evaluation["checkpoint"]
            epochs[step] = int(evaluation["epoch"])
        counted = epochs if case.trainer in ("lightning", "transformers") else {}
        checkpoints = find(log, trainer, list(saved), counted)
        assert checkpoints.files == {s: str(root / name) for s, name in saved.items() if name}


LIGHTNING = "epoch,step,val_acc,val_loss\n" + "".join(
    f"{e},{100 * e + 99},{accuracy},0.5\n" for e, accuracy in enumerate((0.6, 0.7, 0.9, 0.8))
)
KERAS = "epoch,accuracy,loss,val_accuracy,val_loss\n" + "".join(
    f"{e},0.5,0.5,{0.9 if e == 11 else 0.5},0.5\n" for e in range(14)
)


@pytest.mark.parametrize(
    ("log", "text", "files", "step"),
    [
        ("metrics.csv", LIGHTNING, [f"epoch={e}-step={100 * e + 100}.ckpt" for e in range(4)], 300),
        ("metrics.csv", LIGHTNING, [f"epoch={e}-step={100 * e + 99}.ckpt" for e in range(4)], 299),
        ("metrics.csv", LIGHTNING, [f"mine-{100 * e + 100}.ckpt" for e in range(4)], 300),
        ("metrics.csv", LIGHTNING, [], 300),
        ("training.log", KERAS, [f"epoch-{e:04d}.keras" for e in range(1, 15)], 12),
        ("training.log", KERAS, [f"epoch-{e:04d}.keras" for e in range(14)], 11),
        ("training.log", KERAS, ["epoch-0011.keras", "epoch-0012.keras"], 12),
        ("training.log", KERAS, [], 12),
        ("training.log", KERAS.replace("epoch,", "step,", 1), [], 11),  # of nobody we know
        (
            "results.csv",
            "epoch,time,metrics/accuracy_top1,val/loss\n1,1,.5,.9\n2,1,.7,.8\n3,1,.6,.9\n",
            [f"weights/epoch{e}.pt" for e in range(3)],
            1,
        ),
    ],
)
def test_the_number_that_is_printed_is_that_of_the_file(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    log: str,
    text: str,
    files: list[str],
    step: int,
) -> None:
    put(tmp_path, log, *files)
    (tmp_path / log).write_text(text)
    with pytest.raises(SystemExit):
        main(["select", str(tmp_path), "--rule", "source-acc"])
    printed = capsys.readouterr().out
    run = cw.load(tmp_path)
    chosen = cw.select(run, "source-acc")
    assert re.match(rf"Use step {chosen.step}\b", printed)
    assert chosen.step + run.names_ahead == step
    if run.names_ahead:
        assert f"({step} in names of checkpoints" in printed
    if run.paths is not None:
        assert re.search(rf"(?<![0-9])0*{step}\.[a-z]+$", printed, re.MULTILINE)


KERAS_HEADER, PLAIN_HEADER = "epoch,accuracy,loss,val_accuracy,val_loss", "step,val_acc"


@pytest.mark.parametrize(
    ("header", "first", "numbers", "ways"),
    [
        (KERAS_HEADER, 0, [11, 12, 13], [1, 0]),
        (PLAIN_HEADER, 0, [12], [1, 0]),
        (KERAS_HEADER, 0, [5, 12, 20], [1]),
        (PLAIN_HEADER, 0, [0, 11], [0]),
        (KERAS_HEADER, 0, [11, 12, 25], [1, 0]),  # one is of no row
        (PLAIN_HEADER, 1, [11, 12, 13], [0, -1]),
        (KERAS_HEADER, 1, [0, 12], [-1]),
        (PLAIN_HEADER, 5, [11, 12, 13], [1, 0, -1]),
        (KERAS_HEADER, 5, [4, 12], [-1]),
    ],
)
def test_the_line_on_unmatched_files_has_every_way_to_count(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    header: str,
    first: int,
    numbers: list[int],
    ways: list[int],
) -> None:
    put(tmp_path, *(f"epoch-{number:04d}.keras" for number in numbers))
    rows = range(first, first + 20)
    cells = {
        row: [0.5, 0.5, 0.9 - abs(row - 11) / 50, 0.5] if "loss" in header else [0.9 - row / 50]
        for row in rows
    }
    text = "".join(f"{row},{','.join(f'{c:.2f}' for c in cells[row])}\n" for row in rows)
    (tmp_path / "training.log").write_text(f"{header}\n{text}")

    def answer(*more: str) -> str:
        with pytest.raises(SystemExit):
            main(["select", str(tmp_path / "training.log"), "--rule", "source-acc", *more])
        return capsys.readouterr().out

    given = answer()
    files = {}
    for way in ways:
        saved = [n for n in numbers if n - way in rows]
        files[way] = max(saved, key=lambda n: (cells[n - way][len(cells[first]) // 2], -n))
    if re.match(r"Use step .*\.keras$", given.splitlines()[0]):
        assert len(ways) == 1
        assert given.splitlines()[0].endswith(f"epoch-{files[ways[0]]:04d}.keras")
        return
    line = next(line for line in given.splitlines() if "--checkpoints '" in line[:60])
    patterns = {way: f"epoch-{{epoch{f'{way:+d}' * bool(way)}}}.keras" for way in ways}
    assert re.findall(r"'(\S+)'", line) == list(patterns.values())
    for way, pattern in patterns.items():
        assert f"(step {files[way]})" in line or len(ways) == 1
        chosen = answer("--checkpoints", pattern).splitlines()[0]
        assert chosen.endswith(f"epoch-{files[way]:04d}.keras")
