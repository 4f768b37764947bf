"""A packed cohort is the cohort: the same bytes, the same choices."""

from __future__ import annotations

import io
import lzma
import shutil
import tarfile
from pathlib import Path

import pytest

import checkwise as cw
from checkwise.cli import main
from checkwise.store.cohort import write_cohort
from checkwise.store.pack import pack, unpack
from checkwise.store.registration import LOG, OPENED, REGISTRATION, read_log, register
from checkwise.store.verify import verify
from tests.runs import config, train


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
    frames = [cw.Cohort.open(path).compare(["ac-nc"]) for path in (cohort, tmp_path / "back")]
    measured = ["seconds"]  # what choosing took, not what was found
    assert frames[0].drop(columns=measured).equals(frames[1].drop(columns=measured))


def test_a_changed_journal_is_still_found_after_unpacking(cohort: Path, tmp_path: Path) -> None:
    pack(cohort, tmp_path / "tiny.tar.xz")
    back = tmp_path / "back"
    unpack(tmp_path / "tiny.tar.xz", back)
    journal = next(back.rglob("source.jsonl"))
    journal.write_bytes(journal.read_bytes().replace(b"1", b"2", 1))
    assert "damaged" in {fault.kind for fault in verify(back)}
    with pytest.raises(cw.InputError, match="was changed since"):
        cw.load_runs(back)


def test_an_unfinished_cohort_is_not_packed(cohort: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    pack(cohort, tmp_path / "tiny.tar.xz")
    unpack(tmp_path / "tiny.tar.xz", part)
    next(part.rglob("done")).unlink()
    with pytest.raises(cw.InputError, match="1 of 2 runs"):
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
    with pytest.raises(cw.InputError, match=f"{journal.name} was changed or removed since"):
        pack(part, tmp_path / "other.tar.xz")
    assert not (tmp_path / "other.tar.xz").exists()


def test_a_damaged_log_of_registrations_is_not_packed(cohort: Path, tmp_path: Path) -> None:
    part = Path(shutil.copytree(cohort, tmp_path / "part"))
    log = part / LOG
    log.unlink(missing_ok=True)
    register(part, {"rule": "ac-nc"})
    log.write_text(log.read_text().rstrip("\n"))
    with pytest.raises(cw.InputError, match=f"line 1 of {log} does not"):
        pack(part, tmp_path / "other.tar.xz")
    assert not (tmp_path / "other.tar.xz").exists()


def archive_of(file: Path, *names: str) -> Path:
    with lzma.open(file, "wb") as raw, tarfile.open(fileobj=raw, mode="w") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 1
            archive.addfile(entry, io.BytesIO(b"x"))
    return file


def test_another_archive_leaves_nothing_behind(tmp_path: Path) -> None:
    for names in (["a.txt"], ["cohort.json", "../outside"]):
        with pytest.raises(cw.InputError):
            unpack(archive_of(tmp_path / "other.tar.xz", *names), tmp_path / "out")
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["../outside", "/absolute", "runs/../../x"])
def test_an_archive_cannot_write_elsewhere(name: str, tmp_path: Path) -> None:
    file = archive_of(tmp_path / "evil.tar.xz", name)
    with pytest.raises(cw.InputError, match="plain files inside"):
        unpack(file, tmp_path / "out")
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("content", [b"", b"no archive", b"\xfd7zXZ\0broken"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "some.tar.xz"
    file.write_bytes(content)
    with pytest.raises(cw.InputError, match="a packed cohort"):
        unpack(file, tmp_path / "out")


def test_the_command_line(cohort: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, code in [
        (["pack", cohort, "-o", tmp_path / "a.tar.xz"], 0),
        (["unpack", tmp_path / "a.tar.xz", "--out", tmp_path / "b"], 0),
        (["unpack", tmp_path / "a.tar.xz", "--out", tmp_path / "b"], 2),
        (["pack", cohort, "-o", tmp_path / "a.zip"], 2),
        (["pack", cohort, "-o", tmp_path / "a.tar.xz"], 2),
        (["pack", cohort, "-o", tmp_path / "a.tar.xz", "--force"], 0),
    ]:
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in words])
        assert stop.value.code == code, capsys.readouterr().err
