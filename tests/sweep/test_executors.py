"""Executors by name: their settings, and what is refused before anything is planned."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from checkwise.errors import InputError
from checkwise.study.sweep import (
    ExecutorSettings,
    get_executor,
    launching,
    read_executor,
    read_study,
    worker_count,
)
from checkwise.study.sweep.launching import RemoteWorker, bytes_of, close, invite, minutes_of
from tests.commands import call
from tests.refusals import names, refused
from tests.sweep.studies import write_tiny

TABLE = """
[executor]
kind = "slurm"
workers = 3
partition = "short"
time = "2:00:00"
memory = "2G"
"""


def with_table(folder: Path, table: str) -> Path:
    study = write_tiny(folder)
    study.write_text(study.read_text() + table)
    return study


def test_where_a_study_runs_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    plain, study = write_tiny(tmp_path / "plain"), with_table(tmp_path, TABLE)
    assert read_study(study) == read_study(plain)
    assert read_executor(plain) == ExecutorSettings()
    assert read_executor(study) == ExecutorSettings(
        "slurm", workers=3, partition="short", time="2:00:00", memory="2G"
    )


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('kind = "slrum"', "did you mean 'slurm'?"),
        ('kind = "slurm"\ntime = "soon"', "for example 4:00:00"),
        ('memory = "much"', "for example 4G"),
        ("cpus = 0.5", "a whole number"),
        ('parttion = "a"', "did you mean 'partition'?"),
    ],
)
def test_a_wrong_table_is_refused_with_the_study(tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        read_study(with_table(tmp_path, f"\n[executor]\n{table}\n"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--executor", "cloud"], "'cloud'"),
        (["--set", "partition=short"], "--executor"),
        (["--executor", "ray", "--set", "time=60"], "`time` … --executor"),
        (["--executor", "slurm"], "--workers … --executor … slurm"),
        (["--executor", "slurm", "--workers", "2", "--set", "address=a"], "`address`"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    out = tmp_path / "out"
    code, _, error = call(capsys, "study", "run", write_tiny(tmp_path), "--out", out, *words)
    assert code == 2
    assert error.count("\n") == 1
    assert names(said, error)
    assert not out.exists()


def test_another_executor_than_the_table_names_takes_nothing_from_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = with_table(tmp_path, TABLE)
    words = ("study", "run", study, "--out", tmp_path / "out", "--dry-run")
    code, printed, _ = call(capsys, *words, "--executor", "local", "--workers", 1)
    assert code == 0
    assert "4 runs of 5 updates" in printed


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkwise.errors.find_spec", lambda name: None)
    with refused("missing: submitit … slurm"):
        get_executor(ExecutorSettings("slurm", workers=1))
    with refused("missing: ray"):
        get_executor(ExecutorSettings("ray"))


def test_a_machine_without_slurm_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with refused("system: sbatch"):
        get_executor(ExecutorSettings("slurm", workers=1))


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("1", 1), ("90:30", 91), ("0:01", 1), ("2:00:00", 120), ("1-0", 1440), ("1-2:3:4", 1564)],
)
def test_times_are_read_as_slurm_reads_them(text: str, minutes: int) -> None:
    assert minutes_of(text) == minutes


@pytest.mark.parametrize("text", ["", "abc", "0", "-5", "1:2:3:4", "1h"])
def test_other_times_are_refused(text: str) -> None:
    with refused("value: --time"):
        minutes_of(text)


@pytest.mark.parametrize("text", ["", "4", "0G", "-1G", "4 X"])
def test_other_amounts_of_memory_are_refused(text: str) -> None:
    with refused("value: --memory"):
        bytes_of(text)


def test_the_number_of_workers() -> None:
    assert worker_count(ExecutorSettings(workers=5)) == 5
    assert worker_count(ExecutorSettings("ray")) == os.cpu_count()


class Doing:
    """A job whose module is this one."""

    def __init__(self, cohort: Path, failure: Exception | None = None) -> None:
        self.cohort = str(cohort)
        self.failure = failure


def work(job: Doing, *, stop: object) -> None:
    if job.failure is not None:
        raise job.failure


def test_a_worker_elsewhere_works_where_it_sees_the_folder_and_says_why_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = invite(tmp_path)
    assert RemoteWorker(Doing(tmp_path), folder)() is None
    assert RemoteWorker(Doing(tmp_path, InputError("no  disk")), folder)() == "no disk"
    assert RemoteWorker(Doing(tmp_path, KeyError("x")), folder)() == "KeyError: 'x'"
    close(folder)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(launching, "VISIBLE_SECONDS", -1.0)
    told = RemoteWorker(Doing(tmp_path), folder)()
    assert names(f"{tmp_path} … {socket.gethostname()}", told or "")
