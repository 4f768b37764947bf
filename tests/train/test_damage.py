"""Damage to an unfinished run is noticed when it continues: nothing of it is sealed as good."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from checkwise.errors import InputError
from checkwise.store import (
    CHECKPOINTS_FOLDER,
    DONE_FILE,
    LEASE_FILE,
    RESUME_FILE,
    RUN_FILE,
    SOURCE_FILE,
    finished,
    read_json,
)
from tests.refusals import refused, said
from tests.runs import config, contents, train
from tests.train.test_resume import stopping

FLIPS = 60
KEPT = config(logits="all", averages=("sma", "dense-swad"))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    train(folder, KEPT)
    return contents(folder)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped") / "run"
    assert train(folder, KEPT, stop=stopping(8)) == "stopped"
    return folder


def positions(folder: Path) -> list[tuple[str, int]]:
    """Places spread over every file: as many in each, and more in the state."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != LEASE_FILE)
    chosen = random.Random(0)
    places = []
    for file in files:
        share = 12 if file.name == "state.pt" else 4
        places += [
            (file.relative_to(folder).as_posix(), chosen.randrange(file.stat().st_size))
            for _ in range(share)
        ]
    return places


def test_a_flipped_byte_is_refused_or_leaves_no_trace(
    stopped: Path, unbroken: dict[str, bytes], tmp_path: Path
) -> None:
    places = positions(stopped)
    assert len(places) >= FLIPS
    refusals: list[str] = []
    for number, (name, position) in enumerate(places):
        folder = Path(shutil.copytree(stopped, tmp_path / str(number)))
        content = bytearray((folder / name).read_bytes())
        content[position] ^= 1 << number % 8
        (folder / name).write_bytes(content)
        try:
            train(folder, KEPT)
        except InputError as error:
            refusals.append(str(error))
            assert not finished(folder)
        else:
            assert contents(folder) == unbroken, (name, position)
    assert len(refusals) > len(places) // 2
    for message in refusals:
        assert "\n" not in message
        assert any(way in message for way in ("remove", "restore what changed", "verify"))


def gone(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def cut_state(folder: Path) -> None:
    (folder / RESUME_FILE).write_bytes((folder / RESUME_FILE).read_bytes()[:100])


def other_schema(folder: Path) -> None:
    state = torch.load(folder / RESUME_FILE, weights_only=True)
    torch.save({**state, "schema": 99}, folder / RESUME_FILE)


def without_a_checksum(folder: Path) -> None:
    torch.save({"schema": 1, "digest": "", "updates": 8}, folder / RESUME_FILE)


def of_another_run(folder: Path) -> None:
    other = config("IRM", logits="all")
    train(folder.parent / "other", other, stop=stopping(8))
    shutil.copy(folder.parent / "other" / RESUME_FILE, folder / RESUME_FILE)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "journal": (gone("heldout/30.jsonl"), "damaged: 30.jsonl"),
    "shortened": (lambda f: (f / SOURCE_FILE).write_bytes(b""), "damaged: source.jsonl"),
    "logits": (gone("predictions/source/step-000003.npz"), "damaged: step-000003.npz"),
    "held out": (gone("predictions/heldout/30/step-000000.npz"), "damaged: step-000000.npz"),
    "weights": (gone("checkpoints/step-000006.safetensors"), "damaged: step-000006"),
    "cut state": (cut_state, "damaged: state.pt"),
    "schema": (other_schema, "damaged: 99 … update checkwise"),
    "no checksum": (without_a_checksum, "damaged: state.pt"),
    "another run": (of_another_run, "damaged: state.pt"),
}


def test_what_is_gone_or_changed_is_named(stopped: Path, tmp_path: Path) -> None:
    wrong = []
    for what, (damage, expected) in DAMAGE.items():
        folder = Path(shutil.copytree(stopped, tmp_path / what / "run"))
        damage(folder)
        try:
            train(folder, KEPT)
            wrong.append(f"{what}: not refused")
        except InputError as error:
            if not said(error, expected):
                wrong.append(f"{what}: {error.code}: {error}")
    assert wrong == []


def test_another_configuration_is_refused_and_what_differs_is_named(
    stopped: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    with refused("differs: data.fingerprint (was … steps (was 13, now 20)"):
        train(folder, replace(KEPT, steps=20, fingerprint="other"))
    with refused("differs: the data changed"):
        train(folder, replace(KEPT, fingerprint="f" * 64))


def test_weights_that_vanish_where_some_are_dropped_are_missed_at_the_end(tmp_path: Path) -> None:
    asked = config(keep="feasible", keep_delta_pp="100", steps=7, record_every=2)
    folder = tmp_path / "run"
    assert train(folder, asked, stop=stopping(4)) == "stopped"
    left = "step-000002.safetensors"
    (folder / CHECKPOINTS_FOLDER / left).unlink()
    with pytest.raises(InputError, match=f"{left} as the run wrote it, but it was removed"):
        train(folder, asked)
    assert not finished(folder)


def test_a_changed_run_file_is_written_again_from_what_was_checked(
    stopped: Path, unbroken: dict[str, bytes], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    path = folder / RUN_FILE
    path.write_text(path.read_text().replace('"numpy": "', '"numpy": "9'))
    train(folder, KEPT)
    assert contents(folder) == unbroken


def test_a_run_that_goes_on_with_another_processor_says_so(
    stopped: Path, unbroken: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from checkwise.store import read_run
    from checkwise.study.train import loop

    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    first = read_json(folder / RUN_FILE)
    assert first["machine"]["instructions"]
    assert "continued" not in first
    elsewhere = {**first["machine"], "processor": "another"}
    monkeypatch.setattr(loop, "machine", lambda device: elsewhere)
    train(folder, KEPT)
    (note,) = read_json(folder / RUN_FILE)["continued"]
    assert (note["updates"], note["machine"]) == (8, elsewhere)
    assert read_json(folder / RUN_FILE)["machine"] == first["machine"]
    assert read_run(folder).key == KEPT.key
    same = {name for name, content in contents(folder).items() if unbroken[name] == content}
    assert set(unbroken) - same == {RUN_FILE, DONE_FILE}
