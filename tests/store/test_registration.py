"""The log of registrations: whole lines, a digest that covers them, and damage that is named."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.study import Cohort, choice_of, method, registered_as
from checkwise.study.folder import LOG, OPENED, read_lines, register
from checkwise.study.folder.registration import LARGEST, mark_opened, read_log
from checkwise.study.registered import registered_first
from tests.commands import run
from tests.study.cohorts import sign_plan, tiny_runs, write_cohort

AC_NC = {**choice_of(method("ac-nc")), "metrics": ["target_nll"], "tables": ["main"]}
AC_NLL = {**choice_of(method("ac-nll")), "metrics": ["target_nll"], "tables": ["main"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cohort about which `verify` has nothing to say."""
    every = {"record_every": 100, "steps": 201}
    runs = [
        replace(each, extra=every, steps=(0, 100, 200), diverged=()) for each in tiny_runs()[:3]
    ]
    return sign_plan(write_cohort(tmp_path / "tiny", runs))


def chained(entries: list[dict[str, Any]]) -> bytes:
    """A log that holds together, as anybody can write it."""
    lines: list[bytes] = []
    for entry in entries:
        previous = hashlib.sha256(lines[-1]).hexdigest() if lines else ""
        lines.append(json.dumps({**entry, "previous": previous}).encode())
    return b"".join(line + b"\n" for line in lines)


def test_the_digest_is_that_of_the_line_and_is_found_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("study", "register", folder, "--json") == 0
    digest = json.loads(capsys.readouterr().out)["digest"]
    last = (folder / LOG).read_bytes().splitlines()[-1]
    assert digest == hashlib.sha256(last).hexdigest()
    assert run("study", "register", folder, "--rule", "ac-nll") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Digest: {read_lines(folder)[-1].digest}" in said
    assert f"checkwise study register {folder} --digest {read_lines(folder)[-1].digest}" in said
    Cohort.open(folder).compare()
    assert run("study", "register", folder, "--digest", digest.upper()) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "ac-nc registered" in said
    assert "before held-out results were opened" in said
    assert run("study", "register", folder, "--digest", digest, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["digest"], told["rule"], told["state"]) == (digest, "ac-nc", "before")


def test_a_late_registration_is_no_proof(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Cohort.open(folder).compare()
    digest = register(folder, AC_NC).digest
    assert run("study", "register", folder, "--digest", digest) == 1
    assert "registered late" in capsys.readouterr().out
    assert (
        run("study", "register", folder, "--digest", read_lines(folder)[0].digest) == 1
    )  # the mark
    assert "no registration in the log has this digest" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["banana", "", "12ab", "g" * 64, "a" * 63])
def test_what_is_no_digest_is_refused(
    text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("study", "register", folder, "--digest", text) == 2
    assert "Expected a digest of 64 hexadecimal digits" in capsys.readouterr().err


def rewritten(entries: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Logs that somebody wrote anew so that they hold together, by what is other in them."""

    def with_(number: int, **changes: Any) -> list[dict[str, Any]]:
        return [{**e, **changes} if i == number else e for i, e in enumerate(entries)]

    choice = entries[1]["choice"]
    yield "date", with_(1, at="2020-01-01T00:00:00+00:00")
    yield "an earlier line", with_(0, at="2020-01-01T00:00:00+00:00")
    yield "an earlier line is gone", entries[1:]
    yield "a line put in before", [entries[0], *entries]
    yield "cut", entries[:1]
    yield "empty", []
    yield "a journal", with_(1, journals={**entries[1]["journals"], "x": "0" * 64})
    yield "no journals", with_(1, journals={})
    for name in choice:
        value = {"params": {}, "metrics": ["gap_pp"], "tables": []}.get(name, "other")
        yield name, with_(1, choice={**choice, name: value})


def test_the_digest_finds_every_log_that_was_written_anew(folder: Path) -> None:
    register(folder, AC_NLL)
    digest = register(folder, AC_NC).digest
    mark_opened(folder)
    assert registered_as(folder, digest)[1].state == "before"
    entries = [{k: v for k, v in e.items() if k != "previous"} for e in read_log(folder)]
    tried = 0
    for what, other in rewritten(entries):
        (folder / LOG).write_bytes(chained(other))
        assert read_log(folder) is not None  # the chain itself holds
        assert registered_as(folder, digest)[1].state == "none", what
        tried += 1
    assert tried == 8 + len(AC_NC)


def test_every_cut_of_the_last_line_is_passed_over_and_repaired(folder: Path) -> None:
    register(folder, AC_NC)
    kept = (folder / LOG).read_bytes()
    register(folder, AC_NLL)
    whole = (folder / LOG).read_bytes()
    for length in range(len(kept) + 1, len(whole)):
        (folder / LOG).write_bytes(whole[:length])
        with pytest.warns(CheckwiseWarning, match="line 2 of .* does not end"):
            assert registered_first(folder, AC_NC).state == "before"
        if length % 16 and length != len(whole) - 1:
            continue
        with pytest.warns(CheckwiseWarning, match="line 2 of .* was torn"):
            register(folder, AC_NLL)
        lines = (folder / LOG).read_bytes().splitlines()
        assert len(lines) == (3 if length == len(whole) - 1 else 2)
        assert registered_first(folder, AC_NLL).state == "before"


def test_a_torn_mark_is_written_again_and_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(folder, AC_NC)
    kept = (folder / LOG).read_bytes()
    mark_opened(folder)
    whole = (folder / LOG).read_bytes()
    for length in (len(kept) + 1, (len(kept) + len(whole)) // 2, len(whole) - 1):
        (folder / LOG).write_bytes(whole[:length])
        assert run("study", "status", folder, "--verify") == 1
        assert "line 2 of" in capsys.readouterr().out
        assert run("study", "compare", folder) == 0
        assert "was torn when a write was cut short" in capsys.readouterr().err
        assert [entry["kind"] for entry in read_log(folder)][1] == OPENED
        assert run("study", "status", folder, "--verify") == 0
        assert registered_first(folder, AC_NC).state == "before"


ENTRY: dict[str, Any] = {
    "schema": 1,
    "at": "2026-01-01T00:00:00+00:00",
    "kind": "registration",
    "choice": {"rule": "ac-nc"},
    "journals": {},
}
MALFORMED: dict[str, bytes] = {
    "no JSON": b"no JSON\n",
    "an empty line": b"\n",
    "a list": b"[]\n",
    "null": b"null\n",
    "not UTF-8": b'{"previous": "", "kind": "\xff"}\n',
    "UTF-16": json.dumps({**ENTRY, "previous": ""}).encode("utf-16") + b"\n",
    "nested": b'{"previous":' + b"[" * 100_000 + b"\n",
    "a number of 5,000 digits": b'{"previous": ' + b"1" * 5000 + b"}\n",
    "twice": 2 * chained([ENTRY]),
    "no previous": json.dumps(ENTRY).encode() + b"\n",
    "previous a list": json.dumps({**ENTRY, "previous": []}).encode() + b"\n",
    "no kind": chained([{k: v for k, v in ENTRY.items() if k != "kind"}]),
    "another kind": chained([{**ENTRY, "kind": "banana"}]),
    "a kind that is a list": chained([{**ENTRY, "kind": []}]),
    "no date": chained([{k: v for k, v in ENTRY.items() if k != "at"}]),
    "a date that is a number": chained([{**ENTRY, "at": 7}]),
    "a date that is none": chained([{**ENTRY, "at": "\x1b[31myesterday"}]),
    "no choice": chained([{k: v for k, v in ENTRY.items() if k != "choice"}]),
    "a choice that is a word": chained([{**ENTRY, "choice": "ac-nc"}]),
    "a rule that is a list": chained([{**ENTRY, "choice": {"rule": []}}]),
    "metrics that are a number": chained([{**ENTRY, "choice": {"rule": "ac-nc", "metrics": 1}}]),
    "tables that are numbers": chained([{**ENTRY, "choice": {"rule": "ac-nc", "tables": [1]}}]),
    "no journals": chained([{k: v for k, v in ENTRY.items() if k != "journals"}]),
    "journals that are a list": chained([{**ENTRY, "journals": []}]),
    "hashes that are numbers": chained([{**ENTRY, "journals": {"x": 1}}]),
    "another schema": chained([{**ENTRY, "schema": 99}]),
    "no schema": chained([{k: v for k, v in ENTRY.items() if k != "schema"}]),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_line_is_one_clear_line(
    what: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / LOG).write_bytes(MALFORMED[what])
    assert run("study", "status", folder, "--verify") == 1
    said = capsys.readouterr()
    assert (said.out.count("\n"), said.err) == (3, "")
    assert LOG in said.out
    for command in (
        ["study", "register", folder],
        ["study", "pack", folder, "-o", tmp_path / "x.tar.xz"],
    ):
        assert run(*command) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert LOG in told
        assert "fault in checkwise" not in told
        assert (folder / LOG).read_bytes() == MALFORMED[what]
    assert run("study", "compare", folder) == 0
    said = capsys.readouterr()
    assert "whether this was registered is unknown" in " ".join(said.out.split())
    assert said.err == ""
    assert b'"kind":"opened"' in (folder / LOG).read_bytes()


def fifo(path: Path) -> None:
    os.mkfifo(path)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)


def link(path: Path) -> None:
    (path.parent.parent / "elsewhere.jsonl").write_bytes(chained([ENTRY]))
    path.symlink_to(path.parent.parent / "elsewhere.jsonl")


@pytest.mark.parametrize("make", [fifo, huge, link, Path.mkdir])
def test_what_is_no_log_is_refused_and_nothing_is_shown(
    make: Callable[[Path], None],
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make(folder / LOG)
    for command in (
        ["study", "register", folder],
        ["study", "compare", folder],
        ["study", "pack", folder, "-o", tmp_path / "x.tar.xz"],
    ):
        assert run(*command) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert str(folder / LOG) in said.err
    assert run("study", "status", folder, "--verify") == 1


def test_any_damage_is_refused_or_leaves_a_log(folder: Path) -> None:
    for rule in ("ac-nc", "ac-nll", "ac-ece"):
        register(folder, choice_of(method(rule)))
    mark_opened(folder)
    whole = (folder / LOG).read_bytes()
    dice = random.Random(0)
    refused = 0
    for _ in range(500):
        damaged = bytearray(whole)
        for _ in range(dice.randint(1, 3)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        if dice.random() < 0.2:
            del damaged[dice.randrange(len(damaged)) :]
        (folder / LOG).write_bytes(damaged)
        try:
            read_log(folder)
        except InputError:
            refused += 1
    assert refused > 400


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process can become larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 1, 60])
@pytest.mark.parametrize("command", [["register"], ["compare", "--json"]])
def test_a_write_that_is_cut_short_is_undone_and_told(
    command: list[str], room: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(folder, AC_NLL)
    before = (folder / LOG).read_bytes()
    with room_for(len(before) + room):
        assert run("study", command[0], folder, *command[1:]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "free some space" in said.err
    assert str(folder) in said.err
    assert (folder / LOG).read_bytes() == before
    assert registered_first(folder, AC_NLL).state == "before"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 256 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a file system is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> None:
    with (place / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def test_a_full_disk_leaves_the_log_whole_and_the_command_says_so(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_cohort(small_disk / "tiny", tiny_runs()[:3])
    while not (folder / LOG).exists() or (folder / LOG).stat().st_size % 4096 < 3700:
        register(folder, AC_NLL)  # the next line starts in one page and ends in another
    before = (folder / LOG).read_bytes()
    fill(small_disk)
    for _ in range(2):
        assert run("study", "register", folder) == 2
        said = capsys.readouterr()
        assert "no space left on device; free some space" in said.err
        assert str(folder) in said.err
        assert (folder / LOG).read_bytes() == before
    assert registered_first(folder, AC_NLL).state == "before"
    (small_disk / "ballast").unlink()
    assert run("study", "register", folder) == 0
    assert registered_first(folder, choice_of(method("ac-nc"))).state == "before"


def test_a_mark_that_finds_no_room_shows_nothing(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_cohort(small_disk / "tiny", tiny_runs()[:3])
    fill(small_disk)
    assert run("study", "compare", folder) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "free some space" in said.err
    (small_disk / "ballast").unlink()
    assert run("study", "compare", folder) == 0
    assert [entry["kind"] for entry in read_log(folder)] == [OPENED]
