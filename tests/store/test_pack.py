"""A packed cohort is the cohort: the same bytes, the same choices."""

from __future__ import annotations

import io
import json
import lzma
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import checkwise as cw
from checkwise.cli import main
from checkwise.store import new_folder
from checkwise.study.folder import (
    LOG,
    OPENED,
    REGISTRATION,
    pack,
    register,
    unpack,
    verify,
    write_cohort,
)
from checkwise.study.folder.registration import read_log
from tests.refusals import refused
from tests.runs import config, train

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pack") / "cohort"
    asked = [config("ERM"), config("VREx")]
    write_cohort(
        path,
        name="tiny",
        roles={"digits": "development"},
        study={},
        metrics={"bins": 15, "bandwidth": 0.1},
        keys=[one.key for one in asked],
    )
    for one in asked:
        train(path / "runs" / str(one.key), one)
    return path


def test_journals_come_back_byte_for_byte_and_verify(cohort: Path, tmp_path: Path) -> None:
    file = tmp_path / "tiny.tar.xz"
    assert pack(cohort, file) == 2
    back = tmp_path / "back"
    unpack(file, back)
    journals = sorted(p.relative_to(cohort) for p in cohort.rglob("*.json*"))
    assert len(journals) == 1 + 2 * 3
    for name in journals:
        assert (back / name).read_bytes() == (cohort / name).read_bytes()
    assert not list(back.rglob("*.safetensors"))
    assert verify(back) == []
    assert pack(cohort, tmp_path / "again.tar.xz") == 2
    assert (tmp_path / "again.tar.xz").read_bytes() == file.read_bytes()


def test_an_unpacked_cohort_counts_as_opened(cohort: Path, tmp_path: Path) -> None:
    unpacked = {}
    for name, choices in (("fresh", []), ("registered", [{"rule": "ac-nc"}])):
        here = tmp_path / name
        shutil.copytree(cohort, here)
        (here / LOG).unlink(missing_ok=True)
        for choice in choices:
            register(here, choice)
        pack(here, tmp_path / f"{name}.tar.xz")
        unpack(tmp_path / f"{name}.tar.xz", tmp_path / "back" / name)
        unpacked[name] = [entry["kind"] for entry in read_log(tmp_path / "back" / name)]
        assert verify(tmp_path / "back" / name) == []
    assert unpacked == {"fresh": [OPENED], "registered": [REGISTRATION, OPENED]}
    pack(tmp_path / "back" / "fresh", tmp_path / "again.tar.xz")
    unpack(tmp_path / "again.tar.xz", tmp_path / "again")
    assert [entry["kind"] for entry in read_log(tmp_path / "again")] == [OPENED]


def test_the_same_selections_and_comparisons(cohort: Path, tmp_path: Path) -> None:
    pack(cohort, tmp_path / "tiny.tar.xz")
    unpack(tmp_path / "tiny.tar.xz", tmp_path / "back")
    here, there = cw.load_runs(cohort), cw.load_runs(tmp_path / "back")
    for rule in ("source-acc", "ac-nc", "pure-nll"):
        before, after = cw.select_many(here, rule), cw.select_many(there, rule)
        assert {k: s.digest for k, s in before.items()} == {k: s.digest for k, s in after.items()}
        assert {k: s.step for k, s in before.items()} == {k: s.step for k, s in after.items()}
    frames = [cw.study.Cohort.open(path).compare(["ac-nc"]) for path in (cohort, tmp_path / "back")]
    measured = ["seconds"]  # what choosing took, not what was found
    assert frames[0].drop(columns=measured).equals(frames[1].drop(columns=measured))


def test_an_unfinished_cohort_is_not_packed(cohort: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    pack(cohort, tmp_path / "tiny.tar.xz")
    unpack(tmp_path / "tiny.tar.xz", part)
    next(part.rglob("done")).unlink()
    with refused("missing: 1 … 2"):
        pack(part, tmp_path / "other.tar.xz")
    assert not (tmp_path / "other.tar.xz").exists()


@pytest.mark.parametrize("damage", ["changed", "removed"])
def test_damaged_journals_are_not_packed(damage: str, cohort: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    pack(cohort, tmp_path / "tiny.tar.xz")
    unpack(tmp_path / "tiny.tar.xz", part)
    journal = next(part.rglob("heldout/*.jsonl"))
    if damage == "changed":
        journal.write_bytes(journal.read_bytes().replace(b"1", b"2", 1))
    else:
        journal.unlink()
    with refused(f"damaged: {journal.name}"):
        pack(part, tmp_path / "other.tar.xz")
    assert not (tmp_path / "other.tar.xz").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "/absolute",
        "runs/../../x",
        "cohort.json/../../outside",
        "runs/x/done/../../../../outside",
        "runs/x/heldout/y.jsonl/../../../../../outside",
        "cohort.json\n",
    ],
)
def test_an_archive_cannot_write_elsewhere(name: str, tmp_path: Path) -> None:
    file = write_members(tmp_path / "evil.tar.xz", [(name, b"x")])
    with refused("outside"):
        unpack(file, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["evil.tar.xz"]


@pytest.mark.parametrize("content", [b"", b"no archive", b"\xfd7zXZ\0broken"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "some.tar.xz"
    file.write_bytes(content)
    with refused("system"):
        unpack(file, tmp_path / "out")


def packed_members(file: Path) -> list[tuple[str, bytes]]:
    with lzma.open(file) as raw, tarfile.open(fileobj=io.BytesIO(raw.read())) as archive:
        bodies = [(entry.name, archive.extractfile(entry)) for entry in archive]
        return [(name, body.read()) for name, body in bodies if body is not None]


def write_members(file: Path, members: list[tuple[str, bytes]]) -> Path:
    with lzma.open(file, "wb") as raw, tarfile.open(fileobj=raw, mode="w") as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file


Members = list[tuple[str, bytes]]
BAD: dict[str, Callable[[Members], Members]] = {
    "a file is missing": lambda members: members[:-1],
    "a held-out journal is missing": lambda members: [m for m in members if "heldout" not in m[0]],
    "the mark of a run is missing": lambda members: [m for m in members if "done" not in m[0]],
    "a journal is other than its mark says": lambda members: [
        (name, content.replace(b"1", b"2", 1) if "heldout" in name else content)
        for name, content in members
    ],
    "a name is there twice": lambda members: [*members, members[0]],
    "a name leads outside": lambda members: [*members, ("runs/../../x", b"")],
    "a name is absolute": lambda members: [*members, ("/tmp/x", b"")],
    "a name is written otherwise": lambda members: [*members, (f"./{members[0][0]}", b"")],
    "a run has the name of a parent": lambda members: [*members, ("runs/../run.json", b"{}")],
    "a program comes along": lambda members: [*members, ("setup.py", b"")],
    "a run was not planned": lambda members: [*members, ("runs/other/run.json", b"{}")],
    "a journal is hidden": lambda members: [*members, ("runs/x/heldout/.y.jsonl", b"")],
    "the plan is no JSON": lambda members: [
        (name, b"{" if name == "cohort.json" else content) for name, content in members
    ],
    "the log does not hold together": lambda members: [*members, (LOG, b'{"previous": "x"}\n')],
}


@pytest.mark.parametrize("fault", BAD)
def test_an_archive_that_is_not_whole_leaves_nothing(
    fault: str, cohort: Path, tmp_path: Path
) -> None:
    own = Path(shutil.copytree(cohort, tmp_path / "own"))
    (own / LOG).unlink(missing_ok=True)
    pack(own, tmp_path / "good.tar.xz")
    members = packed_members(tmp_path / "good.tar.xz")
    place = tmp_path / "place"
    place.mkdir()
    unpack(write_members(tmp_path / "same.tar.xz", members), place / "good")
    shutil.rmtree(place / "good")
    with pytest.raises(cw.InputError):
        unpack(write_members(tmp_path / "bad.tar.xz", BAD[fault](members)), place / "out")
    assert list(place.iterdir()) == []


def test_a_cut_archive_leaves_nothing(cohort: Path, tmp_path: Path) -> None:
    pack(cohort, tmp_path / "good.tar.xz")
    whole = (tmp_path / "good.tar.xz").read_bytes()
    place = tmp_path / "place"
    place.mkdir()
    for length in range(0, len(whole), max(1, len(whole) // 40)):
        (tmp_path / "cut.tar.xz").write_bytes(whole[:length])
        with refused("system"):
            unpack(tmp_path / "cut.tar.xz", place / "out")
        assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    "header", [{"GNU.sparse.map": "0,1", "GNU.sparse.size": str(2**40)}, {"GNU.sparse.map": "abc"}]
)
def test_a_sparse_file_cannot_claim_more_than_the_archive_holds(
    header: dict[str, str], cohort: Path, tmp_path: Path
) -> None:
    pack(cohort, tmp_path / "good.tar.xz")
    members = packed_members(tmp_path / "good.tar.xz")
    bad = tmp_path / "bad.tar.xz"
    with lzma.open(bad, "wb") as raw, tarfile.open(fileobj=raw, mode="w") as archive:
        for name, content in [*members, ("runs/z/run.json", b"x")]:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.pax_headers = header if name == "runs/z/run.json" else {}
            archive.addfile(entry, io.BytesIO(content))
    with pytest.raises(cw.InputError, match="Expected a packed study"):
        unpack(bad, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_message_names_no_temporary_folder(cohort: Path, tmp_path: Path) -> None:
    pack(cohort, tmp_path / "good.tar.xz")
    members = packed_members(tmp_path / "good.tar.xz")
    bad = write_members(tmp_path / "bad.tar.xz", BAD["the mark of a run is missing"](members))
    with refused("damaged") as told:
        unpack(bad, tmp_path / "out")
    assert str(tmp_path) not in str(told.value).replace(str(bad), "")


KILLING = """
import json, sys
from pathlib import Path
from checkwise.store import finished
from checkwise.study.folder import LOG, open_cohort, registration, unpack
from tests.killing import die_at, in_child, was_killed

file, place = Path(sys.argv[1]), Path(sys.argv[2])
unpack(file, place / "warm")  # imports everything, so that forks need not
seen = {"killed": 0, "whole": 0}
number, killed = 0, True
while killed:
    number += 1
    out = place / str(number)
    def work():
        die_at(number, ("mkdir", "fsync", "replace", "rename", "unlink", "rmdir"))
        unpack(file, out)
    killed = was_killed(in_child(work))
    seen["killed"] += killed
    if out.exists():
        assert [e["kind"] for e in registration.read_log(out)] == ["opened"]
        assert all(finished(f) for f in open_cohort(out).runs.values())
        seen["whole"] += 1
    else:
        for left in place.glob(f".{number}.*/*"):
            journals = list(left.rglob("*.jsonl"))
            assert not journals or b'"kind":"opened"' in (left / LOG).read_bytes()
        unpack(file, out)
        assert not list(place.glob(f".{number}.*"))
print(json.dumps(seen))
"""


def test_a_killed_unpack_leaves_nothing_and_can_be_run_again(cohort: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(cohort, tmp_path / "own"))
    (own / LOG).unlink(missing_ok=True)
    pack(own, tmp_path / "own.tar.xz")
    place = tmp_path / "place"
    place.mkdir()
    words = [sys.executable, "-c", KILLING, str(tmp_path / "own.tar.xz"), str(place)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["killed"] >= 10
    assert seen["whole"] >= 2  # after the last rename, and once without a kill


def test_two_commands_at_once_do_not_disturb_each_other(cohort: Path, tmp_path: Path) -> None:
    pack(cohort, tmp_path / "own.tar.xz")

    def build_while_another_unpacks() -> None:
        with new_folder(tmp_path / "out") as place:
            (place / "cohort.json").write_text("{}")
            unpack(tmp_path / "own.tar.xz", tmp_path / "out")
            assert (place / "cohort.json").is_file()

    with refused("exists"):
        build_while_another_unpacks()
    assert verify(tmp_path / "out") == []
    assert not list(tmp_path.glob(".*"))


def test_a_folder_that_cannot_be_swapped_is_refused(
    cohort: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(cohort, tmp_path / "own.tar.xz")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with refused("exists"):
        unpack(tmp_path / "own.tar.xz", Path())
    unpack(tmp_path / "own.tar.xz", Path("new"))
    assert verify(tmp_path / "here" / "new") == []


def test_the_command_line(cohort: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, code in [
        (["study", "pack", cohort, "-o", tmp_path / "a.tar.xz"], 0),
        (["study", "unpack", tmp_path / "a.tar.xz", "--out", tmp_path / "b"], 0),
        (["study", "unpack", tmp_path / "a.tar.xz", "--out", tmp_path / "b"], 2),
        (["study", "pack", cohort, "-o", tmp_path / "a.zip"], 2),
        (["study", "pack", cohort, "-o", tmp_path / "a.tar.xz"], 2),
        (["study", "pack", cohort, "-o", tmp_path / "a.tar.xz", "--force"], 0),
    ]:
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in words])
        assert stop.value.code == code, capsys.readouterr().err
