"""Deletion has a home: whatever a journal says, nothing outside of it changes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkwise as cw
from checkwise.integrations.callbacks import Options
from checkwise.integrations.folder import CheckpointFolder
from checkwise.selection import Choice
from checkwise.store import Home, append_whole, delete_checkpoint, delete_others, state_of
from tests.refusals import refused

NAMES = ("in.pt", "../out/w.pt", "../out", "..", ".", "", "link.pt", "folder-link/w.pt",
         "sub/../../out/w.pt", "checkwise.jsonl", "hard.pt", "/", "predictions", "a\0b", "x" * 300,
         "ABSOLUTE")  # fmt: skip


def metrics(accuracy: float) -> dict[str, Any]:
    return {"val": {"accuracy": accuracy, "nll": 0.5, "n": 1000}}


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def write_journal(run: Path, lines: list[dict[str, Any]]) -> Path:
    """A journal of four records and of whatever lines somebody put there."""
    journal = run / "checkwise.jsonl"
    with cw.LiveSelector("ac-nll", journal=journal) as live:
        for step, accuracy in enumerate((0.5, 0.6, 0.9, 0.7)):
            live.add(step, metrics(accuracy))
    with journal.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return journal


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(NAMES)), min_size=1, max_size=6),
    st.sampled_from(["", *NAMES]),
    st.booleans(),
)
def test_a_journal_never_deletes_outside_its_folder(
    named: list[tuple[int, str]], predictions: str, through_link: bool
) -> None:
    with TemporaryDirectory() as at:
        root = Path(at)
        run, out = root / "run", root / "out"
        (run / "sub").mkdir(parents=True)
        (out / "step-000001").mkdir(parents=True)
        (out / "step-000001" / "val.npz").write_bytes(b"theirs")
        (out / ".w.01234567.being-deleted").mkdir()
        (out / "w.pt").write_bytes(b"canary")
        (run / "in.pt").write_bytes(b"ours")
        (run / "link.pt").symlink_to(out / "w.pt")
        (run / "folder-link").symlink_to(out)
        os.link(out / "w.pt", run / "hard.pt")
        lines: list[dict[str, Any]] = []
        for step, name in named:
            name = str(out / "w.pt") if name == "ABSOLUTE" else name
            state = "" if name in ("/", "a\0b") else state_of(run / name)
            lines.append({"step": step, "saved": name, "state": state})
        if predictions:
            name = str(out) if predictions == "ABSOLUTE" else predictions
            lines += [{"predictions": name}, {"resumed": 0}]
        before, own = tree(out), {"checkwise.jsonl"}
        journal = write_journal(run, lines)
        if through_link:
            (root / "home").symlink_to(run)
            journal = root / "home" / "checkwise.jsonl"
        try:
            with cw.LiveSelector.from_journal(journal, read_only=False) as live:
                live.prune()
        except cw.CheckwiseError:
            pass
        assert tree(out) == before
        assert own <= set(os.listdir(run))


@pytest.mark.parametrize("how", ["absolute", "dots", "link", "link-folder"])
def test_the_store_refuses_what_is_outside(tmp_path: Path, how: str) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    out.mkdir()
    (out / "w").write_bytes(b"canary")
    (home / "link").symlink_to(out / "w")
    (home / "folder").symlink_to(out)
    path = {"absolute": out / "w", "dots": home / "../out/w", "link": home / "link",
            "link-folder": home / "folder/w"}[how]  # fmt: skip
    with pytest.raises(cw.InputError) as error:
        delete_checkpoint(path, Home((home,)))
    assert error.value.code == "outside"
    assert (out / "w").read_bytes() == b"canary"
    for around in (home, tmp_path):
        with pytest.raises(cw.InputError) as error:
            delete_checkpoint(around, Home((home,)))
        assert error.value.code == "outside"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_copied_run_leaves_the_weights_of_the_first(tmp_path: Path, elsewhere: bool) -> None:
    run = tmp_path / "run"
    weights = tmp_path / "weights" if elsewhere else run
    for folder in (run, weights):
        folder.mkdir(exist_ok=True)
    with cw.LiveSelector("ac-nll", journal=run / "checkwise.jsonl", checkpoints=weights) as live:
        for step, accuracy in enumerate((0.5, 0.6, 0.9, 0.7)):
            live.add(step, metrics(accuracy))
            (weights / f"{step}.pt").write_bytes(b"w")
            live.saved(step, weights / f"{step}.pt")
    before = tree(weights)
    shutil.copytree(run, tmp_path / "copy")
    with cw.LiveSelector.from_journal(tmp_path / "copy/checkwise.jsonl", read_only=False) as live:
        live.prune()
    assert tree(weights) == before
    home = {"checkpoints": weights, "read_only": False}
    with cw.LiveSelector.from_journal(run / "checkwise.jsonl", **home) as live:  # type: ignore[arg-type]
        live.prune()
    assert {path.name for path in weights.glob("*.pt")} == {"2.pt", "3.pt"}


def test_what_changed_since_it_was_saved_stays(tmp_path: Path) -> None:
    with cw.LiveSelector("ac-nll", journal=tmp_path / "checkwise.jsonl") as live:
        for step, accuracy in enumerate((0.5, 0.6, 0.7, 0.9)):
            live.add(step, metrics(accuracy))
            (tmp_path / f"{step}").mkdir()
            (tmp_path / f"{step}" / "w").write_bytes(b"w")
            live.saved(step, tmp_path / f"{step}")
        (tmp_path / "0" / "notes.txt").write_text("mine")
        shutil.rmtree(tmp_path / "1")
        shutil.copytree(tmp_path / "2", tmp_path / "1", copy_function=shutil.copyfile)
        assert live.prune().steps == (2,)
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == ["0", "1", "3"]


def test_a_process_names_the_folder_of_its_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(b"w")
    with cw.LiveSelector("ac-nll", journal=tmp_path / "run/checkwise.jsonl") as live:
        live.add(1, metrics(0.9))
        live.saved(1, tmp_path / "w.pt")
        with refused("outside: checkpoints=") as error:
            live.prune()
        assert error.value.code == "outside"
    reading = cw.LiveSelector.from_journal(tmp_path / "run/checkwise.jsonl")
    with pytest.raises(cw.InputError) as error:
        reading.prune()
    assert error.value.code == "unsupported"


def test_predictions_go_only_where_the_journal_has_their_digest(tmp_path: Path) -> None:
    said = {"val": (2 * np.eye(3), [0, 1, 2])}
    with cw.LiveSelector(journal=tmp_path / "checkwise.jsonl", predictions=True) as live:
        for step in (1, 2, 3):
            live.add(step, said)
        (tmp_path / "predictions/step-000003/val.npz").write_bytes(b"mine")
        live.resume(1)
        with pytest.raises(cw.InputError) as error:
            live.add(3, said)
        assert error.value.code == "exists"
    assert sorted(os.listdir(tmp_path / "predictions")) == ["step-000001", "step-000003"]


def test_the_newest_is_synced_and_nothing_outside_is_listed_as_deleted(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    saved = {1: tmp_path / "1", 2: tmp_path / "home/2", 3: tmp_path / "home/3"}
    for path in saved.values():
        path.touch()
    assert delete_others(saved, (), home=Home((tmp_path / "home",))) == (2,)
    assert saved[1].exists()


def test_what_a_failed_append_left_is_cut_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = os.open(tmp_path / "j", os.O_RDWR | os.O_CREAT)

    def fails(*_: object) -> None:
        raise OSError(5, "no disk")

    append_whole(file, b"one\n", at=0)
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fails)
        broken.setattr(os, "ftruncate", fails)
        for _ in range(2):
            with pytest.raises(OSError, match="no disk"):
                append_whole(file, b"a long line that was not synced\n", at=4)
    append_whole(file, b"two\n", at=4)
    assert (tmp_path / "j").read_bytes() == b"one\ntwo\n"
    with pytest.raises(cw.InputError) as error:
        append_whole(file, b"three\n", at=100)
    assert error.value.code == "damaged"
    os.close(file)


def test_adding_takes_the_same_time_however_many_there_are() -> None:
    live = cw.LiveSelector("ac-nll")
    taken = []
    for part in range(4):
        started = time.process_time()
        for step in range(2500 * part, 2500 * (part + 1)):
            live.add(step, metrics(0.5))
        taken.append(time.process_time() - started)
    assert min(taken[2:]) < 3 * min(taken[:2])


HEADER = ("schema", "rule", "params", "weights", "worst_domain", "directions", "guard", "tolerance",
          "alpha", "bins", "bandwidth", "held_out", "sources", "journal",
          "predictions")  # fmt: skip
WRONG: list[Any] = [None, True, 7, -1, 1.5, "x", "", [], [1], ["a"], {}, {"a": []}, {"journal": 1},
                    {"rule": "ac"}, {"self": 1}, [[]]]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(HEADER), st.sampled_from(["drop", *WRONG]))
def test_a_first_line_that_was_changed_is_refused_by_a_code(name: str, value: Any) -> None:
    with TemporaryDirectory() as at:
        journal = write_journal(Path(at), [])
        first, rest = journal.read_text().split("\n", 1)
        header = json.loads(first)
        if value == "drop":
            header.pop(name, None)
        else:
            header[name] = value
        journal.write_text(json.dumps(header, separators=(",", ":")) + "\n" + rest)
        refused = None
        try:
            cw.LiveSelector.from_journal(journal)
        except cw.InputError as error:
            refused = error.code
        # An unknown rule may be a plug-in's; settings left out, or the usual ones, are others.
        allowed = {"rule": ("value", "unknown"), "params": ("differs",), "guard": ("differs",)}
        assert refused in (None, "damaged", "format", *allowed.get(name, ()))
        with contextlib.suppress(cw.CheckwiseError):
            cw.select(cw.load(journal))


SAID = {"val": (2 * np.eye(3), [0, 1, 2])}


@pytest.mark.parametrize(
    "name", ["checkwise.jsonl", "predictions", "calibrator.json", "notes", "", ".."]
)
def test_an_announced_save_deletes_only_the_checkpoint_that_was_saved(
    tmp_path: Path, name: str
) -> None:
    keeping: dict[str, Any] = {"predictions": True, "calibrator": "ts-soften"}
    with cw.LiveSelector(journal=tmp_path / "checkwise.jsonl", **keeping) as live:
        live.add(1, SAID)
        (tmp_path / "a.ckpt").write_text("w")
        live.saved(1, tmp_path / "a.ckpt")
    (tmp_path / "notes").write_text("mine")
    before = tree(tmp_path)
    announcement = tmp_path / f".{name}.saving"
    announcement.write_text(state_of(tmp_path / name) if name != "notes" else "")
    folder = CheckpointFolder(Options(Choice("ac-nc"), **keeping))
    folder.open(tmp_path, str(tmp_path / "a.ckpt"))
    folder.close()
    after = tree(tmp_path)
    assert {path: after.get(path) for path in before} == before
