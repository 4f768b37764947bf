"""Whatever stands in a study file, it is a study or one line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkwise.errors import InputError
from checkwise.study.sweep import read_study
from checkwise.words import printable
from tests.sweep.studies import write_tiny

VALUES = (
    "1979-05-27",
    "07:32:00",
    "1979-05-27T07:32:00Z",
    "12345678901234567890",
    "9" * 5000,
    "0x" + "f" * 3000,
    "nan",
    "inf",
    "1e400",
    '"\\u001b[31m"',
    '"two\\nlines"',
    '"nul\\u0000"',
    "[[]]",
    "{a = 1}",
    "[1979-05-27]",
    "[12345678901234567890]",
    "[" + "9" * 5000 + "]",
    "[true]",
    '[["art", 1]]',
    "-1",
)
KEYS = (
    "name", "description", "data.held_out", "data.name", "data.root", "data.size", "network.kind",
    "runs.algorithms", "runs.trial_seeds", "training.steps", "training.holdout",
    "training.averages", "records.bins", "records.bandwidth", "records.keep_delta_pp",
    "hparams.batch_size",
)  # fmt: skip


def said(path: Path) -> str | None:
    """What a refusal says; anything but one printable line is a failure."""
    try:
        read_study(path)
    except InputError as error:
        message = str(error)
        assert printable(message) == message
        assert len(message) < 700
        return message
    return None


def changed(content: str, key: str, value: str) -> str:
    """A study file with one key set to a value, given as TOML."""
    table, _, name = key.rpartition(".")
    kept, here = [], ""
    for line in content.splitlines():
        if line.startswith("["):
            here = line.strip("[]")
        if (here, line.split("=")[0].strip()) != (table, name):
            kept.append(line)
    at = kept.index(f"[{table}]") + 1 if table and f"[{table}]" in kept else 0
    if table and not at:
        return "\n".join([*kept, f"[{table}]", f"{name} = {value}"])
    return "\n".join([*kept[:at], f"{name} = {value}", *kept[at:]])


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_tiny(tmp_path)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:20])
def test_a_value_of_the_wrong_kind_is_one_line(study: Path, value: str) -> None:
    content = study.read_text()
    for key in KEYS:
        study.write_text(changed(content, key, value))
        assert said(study) is not None, key


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"x = " + b"[" * 3000 + b"]" * 3000, "in TOML"),
        (b"a = " + b"{b = " * 600 + b"1" + b"}" * 600, "in TOML"),
        (b'name = "half\xed\xb2\x80"', "in TOML"),
        (b'name = "\\ud800"', "in TOML"),
        (b"name = 1\nname = 2", "in TOML"),
        (b"\0", "in TOML"),
        (b"#" * (2 << 20), "more than 1 MiB"),
        (b'"\\u001b[31m" = 1\nname = "x"\nrole = "development"\n', "Expected"),
    ],
    ids=range(8),
)
def test_a_file_that_cannot_be_read_is_one_line(study: Path, content: bytes, reason: str) -> None:
    study.write_bytes(content)
    assert reason in (said(study) or "")


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a\\\\b", "x" * 4000, "two\\nlines"])
def test_a_name_becomes_part_of_file_names(study: Path, name: str) -> None:
    content = study.read_text()
    for key in ("name", "data.name"):
        study.write_text(changed(content, key, f'"{name}"'))
        assert "`name`" in (said(study) or ""), key


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_changed_bytes_are_read_or_refused(study: Path, data: st.DataObject) -> None:
    whole = write_tiny(study.parent).read_bytes()
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 8))
        content[place : place + length] = data.draw(st.binary(max_size=8))
    study.write_bytes(content)
    said(study)
    study.write_bytes(whole)
    assert tomllib.loads(whole.decode())
