"""Damage to an unfinished run is noticed when it continues: nothing of it is sealed as good."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from checkwise.errors import InputError
from checkwise.store import finished, layout
from checkwise.study.train import RunConfig
from tests.refusals import refused
from tests.runs import config, contents, train

FLIPS = 60
KEPT = config(logits="all", averages=("sma", "dense-swad"))


def stop_after(updates: int) -> Callable[[], bool]:
    calls = iter(range(1, 100))
    return lambda: next(calls) == updates


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    train(folder, KEPT)
    return contents(folder)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped") / "run"
    assert train(folder, KEPT, stop=stop_after(8)) == "stopped"
    return folder


def positions(folder: Path) -> list[tuple[str, int]]:
    """Places spread over every file: as many in each, and more in the state."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != layout.LEASE_FILE)
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
    for said in refusals:
        assert "\n" not in said
        assert any(way in said for way in ("remove", "restore what changed", "verify"))


@pytest.mark.parametrize(
    "name",
    [
        "heldout/30.jsonl",
        "predictions/source/step-000003.npz",
        "predictions/heldout/30/step-000000.npz",
        "checkpoints/step-000006.safetensors",
    ],
)
def test_a_file_that_is_gone_is_named(stopped: Path, tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"{name.rpartition('/')[2]}.*remove the run's folder"):
        train(folder, KEPT)


def test_weights_that_vanish_where_some_are_dropped_are_missed_at_the_end(tmp_path: Path) -> None:
    asked = config(keep="feasible", keep_delta_pp="100", steps=7, record_every=2)
    folder = tmp_path / "run"
    assert train(folder, asked, stop=stop_after(4)) == "stopped"
    left = "step-000002.safetensors"
    (folder / layout.CHECKPOINTS_FOLDER / left).unlink()
    with pytest.raises(InputError, match=f"{left} as the run wrote it, but it was removed"):
        train(folder, asked)
    assert not finished(folder)


def test_the_state_of_another_run_is_refused(stopped: Path, tmp_path: Path) -> None:
    other: RunConfig = config("IRM", logits="all")
    train(tmp_path / "other", other, stop=stop_after(8))
    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    shutil.copy(tmp_path / "other" / layout.RESUME_FILE, folder / layout.RESUME_FILE)
    with refused("damaged"):
        train(folder, KEPT)


def test_a_state_without_a_checksum_is_refused_by_its_age(stopped: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    torch.save({"schema": 1, "digest": "", "updates": 8}, folder / layout.RESUME_FILE)
    with refused("damaged"):
        train(folder, KEPT)
    (folder / layout.RESUME_FILE).unlink()
    assert train(folder, KEPT) == "finished"


def test_a_changed_run_file_is_written_again_from_what_was_checked(
    stopped: Path, unbroken: dict[str, bytes], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    path = folder / layout.RUN_FILE
    path.write_text(path.read_text().replace('"numpy": "', '"numpy": "9'))
    train(folder, KEPT)
    assert contents(folder) == unbroken


def test_a_run_that_goes_on_with_another_processor_says_so(
    stopped: Path, unbroken: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from checkwise.store import read_run
    from checkwise.study.train import loop

    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    first = layout.read_json(folder / layout.RUN_FILE)
    assert first["machine"]["instructions"]
    assert "continued" not in first
    elsewhere = {**first["machine"], "processor": "another"}
    monkeypatch.setattr(loop, "machine", lambda device: elsewhere)
    train(folder, KEPT)
    (note,) = layout.read_json(folder / layout.RUN_FILE)["continued"]
    assert (note["updates"], note["machine"]) == (8, elsewhere)
    assert layout.read_json(folder / layout.RUN_FILE)["machine"] == first["machine"]
    assert read_run(folder).key == KEPT.key
    same = {name for name, content in contents(folder).items() if unbroken[name] == content}
    assert set(unbroken) - same == {layout.RUN_FILE, layout.DONE_FILE}
