"""``select --copy-to``: whole copies of files and folders, and nothing of the run is touched."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checkwise.store import whole_folders as copying
from tests.cli.calls import otherwise, refusal, run, said


def content(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A run of two steps whose checkpoints are folders; the second is chosen."""
    for step in (1, 2):
        folder = tmp_path / "run" / f"checkpoint-{step}"
        (folder / "global_step" / "empty").mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(bytes([step]) * 1000)
        (folder / "global_step" / "rank 0.pt").write_bytes(b"rank")
        (folder / ".hidden").write_bytes(b"")
    path = tmp_path / "run" / "run.csv"
    path.write_text(
        "step,accuracy,nll,path\n"
        + "".join(f"{s},0.8,{1 / s},{tmp_path}/run/checkpoint-{s}\n" for s in (1, 2))
    )
    return path


def test_a_folder_is_copied_whole_and_said_why(table: Path, tmp_path: Path) -> None:
    assert str(tmp_path / "best") in said("select", table, "--copy-to", tmp_path / "best")
    assert content(tmp_path / "best") == content(table.parent / "checkpoint-2")
    why = json.loads((tmp_path / "best.json").read_text())
    assert why["step"] == 2
    assert why["path"] == str(table.parent / "checkpoint-2")
    assert not list(tmp_path.glob(".*"))


def test_an_earlier_copy_is_replaced_as_a_whole(table: Path, tmp_path: Path) -> None:
    best = tmp_path / "best"
    assert run("select", table, "--copy-to", best) == 0
    (best / "mine.txt").write_text("added")
    assert "--force" in refusal("select", table, "--copy-to", best)
    assert (best / "mine.txt").exists()
    (table.parent / "checkpoint-2" / "model.safetensors").write_bytes(b"newer")
    assert run("select", table, "--copy-to", best, "--force") == 0
    assert content(best) == content(table.parent / "checkpoint-2")
    assert not list(tmp_path.glob(".*"))


def test_a_folder_that_is_no_copy_is_never_replaced(table: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("x")
    for reasons in (None, "{}", "[", "[]", '{"step": 1, "rule": "ac"}'):
        if reasons is not None:
            (tmp_path / "precious.json").write_text(reasons)
        said = refusal("select", table, "--copy-to", precious, "--force")
        assert "or an earlier copy to replace" in said
    assert content(precious) == {"thesis.tex": b"x"}


def test_nothing_is_written_into_the_run(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(table.parent / "checkpoint-1")
    before = content(table.parent)
    places = {
        "run/checkpoint-1/best": "part of one",
        "run/checkpoint-2/global_step/best.pt": "part of one",
        "run/run.csv": "run.csv",
        "link/best": "part of one",
        "..": ".. is a folder",
    }
    lines = {
        f"select TABLE --copy-to {place} {force}": named
        for place, named in places.items()
        for force in ("", "--force")
    }
    assert not otherwise(lines, TABLE=table)
    assert content(table.parent) == before


@pytest.mark.parametrize("name", ["run/checkpoint-1", "run/checkpoint-2", "run"])
def test_a_checkpoint_is_not_replaced_even_with_reasons_beside_it(
    table: Path, tmp_path: Path, name: str
) -> None:
    reasons = {"step": 1, "rule": "ac-nll", "explanation": "x"}
    (tmp_path / f"{name}.json").write_text(json.dumps(reasons))
    before = content(table.parent)
    said = refusal("select", table, "--copy-to", tmp_path / name, "--force")
    assert "which is a checkpoint of the run" in said or "which holds the run" in said
    assert content(table.parent) == before


def test_files_do_not_go_where_the_trainer_keeps_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / "epoch=0.ckpt").write_bytes(b"weights")
    table = tmp_path / "run.csv"
    table.write_text(f"step,accuracy,path\n0,0.5,{folder}/epoch=0.ckpt\n")
    said = refusal("select", table, "--rule", "source-acc", "--copy-to", folder / "best.ckpt")
    assert "among the checkpoints of the run" in said
    assert run("select", table, "--rule", "source-acc", "--copy-to", tmp_path / "best.ckpt") == 0
    assert (tmp_path / "best.ckpt").read_bytes() == b"weights"


def test_links_are_copied_as_files_if_they_stay_inside(table: Path, tmp_path: Path) -> None:
    folder = table.parent / "checkpoint-2"
    (folder / "latest").symlink_to("global_step/rank 0.pt")
    assert run("select", table, "--copy-to", tmp_path / "best") == 0
    assert (tmp_path / "best" / "latest").read_bytes() == b"rank"
    assert not (tmp_path / "best" / "latest").is_symlink()
    (tmp_path / "secret").write_text("x")
    for target in (tmp_path / "secret", "../../secret", "nowhere", "latest", "global_step", "/"):
        (folder / "latest").unlink()
        (folder / "latest").symlink_to(target)
        said = refusal("select", table, "--copy-to", tmp_path / "other")
        assert "latest" in said
        assert not (tmp_path / "other").exists()
    (folder / "latest").unlink()
    os.mkfifo(folder / "latest")
    assert "latest" in refusal("select", table, "--copy-to", tmp_path / "other")
    assert not list(tmp_path.glob(".*"))


def test_the_checkpoint_itself_may_be_a_link(table: Path, tmp_path: Path) -> None:
    folder = table.parent / "checkpoint-2"
    folder.rename(tmp_path / "store")
    folder.symlink_to(tmp_path / "store")
    assert run("select", table, "--copy-to", tmp_path / "best") == 0
    assert content(tmp_path / "best") == content(tmp_path / "store")


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_disk_that_is_too_full_is_said_before_copying(
    table: Path, tmp_path: Path, is_folder: bool
) -> None:
    weights = table.parent / "checkpoint-2" / "model.safetensors"
    os.truncate(weights, shutil.disk_usage(tmp_path).free + 10**11)  # sparse: takes no space
    if not is_folder:
        table.write_text(
            table.read_text().replace("checkpoint-2", "checkpoint-2/model.safetensors")
        )
    said = refusal("select", table, "--copy-to", tmp_path / "best")
    assert "GB" in said
    assert "free some space" in said
    assert not list(tmp_path.glob("*best*"))


def test_kinds_of_checkpoints_that_cannot_be_copied(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = table.parent / "checkpoint-2"
    (tmp_path / "file").write_text("x")
    said = refusal("select", table, "--copy-to", tmp_path / "file", "--force")
    assert "is a file or a link" in said
    with monkeypatch.context() as patch:
        patch.setattr(copying, "MOST_FILES", 2)
        assert "at most 2 files" in refusal("select", table, "--copy-to", tmp_path / "best")
    shutil.rmtree(folder)
    assert "there is no file" in refusal("select", table, "--copy-to", tmp_path / "best")
    folder.mkdir()
    assert "is empty: keep it" in refusal("select", table, "--copy-to", tmp_path / "best")
    (folder / "cp.ckpt.index").write_bytes(b"x")
    (folder / "cp.ckpt.data-00000-of-00001").write_bytes(b"x")
    table.write_text(table.read_text().replace("checkpoint-2", "checkpoint-2/cp.ckpt.index"))
    assert "copy cp.ckpt.* together" in refusal("select", table, "--copy-to", tmp_path / "best")


KILLING = """
import json, os, random, signal, sys, time
from pathlib import Path
from checkwise.store.whole_folders import copy_checkpoint
from tests.killing import in_child, was_killed

def state(out):
    if out.is_file():
        return out.read_bytes()
    return {p.name: p.read_bytes() for p in out.iterdir()}

place, kind = Path(sys.argv[1]), sys.argv[2]
sources = [place / "a", place / "b"]
for number, source in enumerate(sources):
    if kind == "folder":
        source.mkdir()
        for name in "xyz":
            (source / f"{name}{number}").write_bytes(bytes([number]) * 2_000_000)
    else:
        source.write_bytes(bytes([number]) * 6_000_000)
whole = [state(source) for source in sources]
out = place / "out"
copy_checkpoint(sources[0], place / "warm")
began = time.monotonic()
for number in range(3):
    copy_checkpoint(sources[0], place / f"timed-{number}")
took = (time.monotonic() - began) / 3
copy_checkpoint(sources[0], out)
dice, seen = random.Random(0), {"killed": 0, "old": 0, "new": 0}
now = 0
for number in range(60):
    child = in_child(lambda: copy_checkpoint(sources[1 - now], out, replace=True))
    time.sleep(dice.uniform(0, took))
    os.kill(child, signal.SIGKILL)
    killed = was_killed(child)
    took *= 1.1 if killed else 0.9  # the machine may be more or less busy than it was
    seen["killed"] += killed
    after = whole.index(state(out))
    seen["old" if after == now else "new"] += 1
    now = after
copy_checkpoint(sources[1 - now], out, replace=True)
assert state(out) == whole[1 - now]
if kind == "folder":
    assert not list(place.glob(".*"))
print(json.dumps(seen))
"""


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_killed_copy_leaves_the_old_copy_or_the_new_one(tmp_path: Path, kind: str) -> None:
    words = [sys.executable, "-c", KILLING, str(tmp_path), kind]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["killed"] >= 10
    assert seen["old"] >= 5


def test_old_reasons_do_not_stand_beside_new_weights(table: Path, tmp_path: Path) -> None:
    assert run("select", table, "--copy-to", tmp_path / "best") == 0
    assert (tmp_path / "best.json").stat().st_size > 1100
    newer = bytes(1000)
    (table.parent / "checkpoint-2" / "model.safetensors").write_bytes(newer)
    words = ["select", table, "--copy-to", tmp_path / "best", "--force"]
    done = subprocess.run(
        [sys.executable, "-B", "-m", "checkwise", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1100, 1100)),
    )
    assert done.returncode == 2
    assert "best.json" in done.stderr
    assert (tmp_path / "best" / "model.safetensors").read_bytes() == newer
    assert not (tmp_path / "best.json").exists()
