"""A file that cannot be written is one line: the reason, the path, and what to do."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checkwise.cli.entry import _explain
from checkwise.store import write_bytes, write_with


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    lines = [
        {"step": t, "accuracy": 0.8, "nll": 1 / (t + 1), "cwece": 0.1, "domain": "photo"}
        for t in range(2000)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run(*arguments: Any, most: int | None = None, **options: Any) -> Any:
    def limit() -> None:
        if most is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return subprocess.run(
        [sys.executable, "-B", "-m", "checkwise", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
        timeout=120,
        check=False,
        **{"stdout": subprocess.PIPE, **options},
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("select", "TABLE", "--out", "OUT/chosen.json"),
        ("select", "TABLE", "--out", "OUT/chosen.csv"),
        ("select", "TABLE", "--page", "OUT/page.html"),
    ],
)
def test_a_full_disk_names_the_file_and_the_remedy(
    table: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    words = [a.replace("TABLE", str(table)).replace("OUT", str(tmp_path)) for a in arguments]
    done = run(*words, most=1000)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "file too large" in done.stderr
    assert str(tmp_path) in done.stderr
    assert "free some space" in done.stderr
    assert ".tmp" not in done.stderr
    assert not Path(words[-1]).exists()
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_standard_output_on_a_full_disk_is_one_line(table: Path) -> None:
    with open("/dev/full", "w") as full:
        done = run("select", table, "--json", stdout=full)
    assert done.returncode == 2
    assert done.stderr == "checkwise: no space left on device: free some space.\n"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (
            errno.ENOSPC,
            "no space left on device: out.csv: free some space, or choose another place.",
        ),
        (errno.EDQUOT, "out.csv: free some space, or choose another place."),
        (errno.EROFS, "read-only file system: out.csv: check the path and its permissions"),
        (errno.EACCES, "permission denied: out.csv: check the path and its permissions"),
        (
            errno.ENAMETOOLONG,
            "file name too long: out.csv: choose a shorter name, or choose another place.",
        ),
        (
            errno.EMFILE,
            "too many open files: out.csv: allow more open files (`ulimit -n`), or choose",
        ),
    ],
)
def test_every_reason_has_a_remedy(
    number: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _explain(OSError(number, os.strerror(number), "out.csv")) == 2
    assert said in capsys.readouterr().err


def test_a_failed_write_names_the_file_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path, __: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "something.tmp")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(OSError, match=r"No space left on device: '.*/out\.csv'"):
        write_bytes(tmp_path / "out.csv", b"x")


def test_the_fault_of_the_disk_is_named_though_the_writer_raised_another(tmp_path: Path) -> None:
    def stumble(_: Path) -> None:
        try:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            raise AttributeError("'Stream' object has no attribute 'pos'")  # as matplotlib does

    with pytest.raises(OSError, match=r"No space left on device: '.*/figure\.pdf'"):
        write_with(tmp_path / "figure.pdf", stumble)
