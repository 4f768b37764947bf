"""What ``checkwise study status`` says: states, hosts, rate, remaining time, silence, failures."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checkwise.records import RunKey
from checkwise.store import LEASE_FILE, attempts_folder
from checkwise.study.folder import (
    SILENT_SECONDS,
    STALE_SECONDS,
    Failure,
    attempts_at,
    open_cohort,
    take,
    write_failure,
)
from checkwise.study.sweep import Job, RunStatus, Watched, make_cohort, overview, read_study, work
from checkwise.study.sweep.progress import State, cohort_status
from tests.commands import call
from tests.sweep.studies import write_tiny


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    """Four planned runs of three records."""
    make_cohort(read_study(write_tiny(tmp_path)), tmp_path / "cohort", {})
    return tmp_path / "cohort"


def places(cohort: Path) -> list[Path]:
    return list(open_cohort(cohort).runs.values())


def first_of(cohort: Path) -> RunStatus:
    return cohort_status(open_cohort(cohort))[0]


@contextmanager
def held(run: Path, *, silent: float = 0.0, host: str | None = None) -> Iterator[None]:
    """A run that a worker holds, here or on a host, of which nothing was heard for a while."""
    lease = take(attempts_folder(run))
    assert lease is not None
    with lease:
        if host is not None:
            content = json.loads(lease.path.read_text())
            lease.path.write_text(json.dumps({**content, "host": host}))
        beaten = time.time() - silent
        os.utime(lease.path, (beaten, beaten))
        yield


def test_a_run_that_is_held_names_its_host(cohort: Path) -> None:
    with held(places(cohort)[0], silent=SILENT_SECONDS / 2):
        found = first_of(cohort)
    assert (found.state, found.host, found.process) == (
        "running",
        socket.gethostname(),
        os.getpid(),
    )
    assert found.silent is None
    assert first_of(cohort).state == "waiting"


@pytest.mark.parametrize(
    ("host", "silent", "state"),
    [
        (None, SILENT_SECONDS + 10, "running"),  # stopped: its process is there
        (None, 10 * STALE_SECONDS, "running"),
        ("elsewhere", SILENT_SECONDS + 10, "running"),
        ("elsewhere", 10 * STALE_SECONDS, "waiting"),  # lost: any worker takes the run over
    ],
)
def test_a_run_that_is_held_but_silent_is_named(
    cohort: Path, capsys: pytest.CaptureFixture[str], host: str | None, silent: float, state: State
) -> None:
    with held(places(cohort)[0], silent=silent, host=host):
        found = first_of(cohort)
        code, printed, _ = call(capsys, "study", "status", cohort)
    where = host or socket.gethostname()
    assert (found.state, found.host) == (state, where)
    assert found.silent == pytest.approx(silent, abs=60)
    assert code == 0
    said = f"{found.key} is held by process {os.getpid()} on {where}, of which nothing was heard"
    assert said in printed


def test_a_worker_of_this_machine_that_was_killed_holds_nothing(cohort: Path) -> None:
    with held(places(cohort)[0], silent=1000) as _:
        lease = attempts_folder(places(cohort)[0]) / LEASE_FILE
        content = {**json.loads(lease.read_text()), "pid": 2**22 + 1}  # above the largest number
        lease.write_text(json.dumps(content))
        found = first_of(cohort)
    assert (found.state, found.host, found.silent) == ("waiting", None, None)


def test_a_failure_comes_with_its_host_and_the_last_line_of_its_log(
    cohort: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = places(cohort)[0]
    attempts_folder(run).mkdir(parents=True)
    (attempts_folder(run) / "x.log").write_text("first\nCUDA error: out of memory\n\n")
    write_failure(run, "a" * 32, Failure("r", 1, "node7", "It was killed.", log="x.log"))
    found = first_of(cohort)
    assert (found.state, found.host, found.reason) == ("failed", "node7", "It was killed.")
    assert found.log == f"attempts/{run.name}/x.log"
    assert found.last_line == "CUDA error: out of memory"
    _, printed, _ = call(capsys, "study", "status", cohort)
    assert f"It was killed. Its log {found.log} ends with: CUDA error: out of memory" in printed
    _, printed, _ = call(capsys, "study", "status", cohort, "--json")
    (entry,) = [run for run in json.loads(printed)["runs"] if run["state"] == "failed"]
    assert entry["last_line"] == "CUDA error: out of memory"
    assert entry["host"] == "node7"


def test_a_log_that_leads_elsewhere_is_not_read(cohort: Path, tmp_path: Path) -> None:
    run = places(cohort)[0]
    (tmp_path / "secret").write_text("secret\n")
    attempts_folder(run).mkdir(parents=True)
    for name in ("../../../secret", "link.log"):
        (attempts_folder(run) / "link.log").unlink(missing_ok=True)
        (attempts_folder(run) / "link.log").symlink_to(tmp_path / "secret")
        write_failure(run, "a" * 32, Failure("r", 1, "node7", "It was killed.", log=name))
        assert first_of(cohort).last_line is None


def a_run(number: int, state: State, records: int, **facts: float | str | None) -> RunStatus:
    key = RunKey("D", "ERM", ("x",), 0, number)
    return RunStatus(key, state, records, 10, **facts)  # type: ignore[arg-type]


def test_the_rate_is_that_of_finished_runs_times_the_workers_that_live() -> None:
    runs = [
        *(a_run(n, "finished", 10, seconds=100.0, ended=float(n)) for n in range(5)),
        a_run(5, "running", 4, host="one", seconds=1.0),
        a_run(6, "running", 0, host="one"),
        a_run(7, "running", 9, host="two", silent=500.0),
        a_run(8, "failed", 3),
        a_run(9, "waiting", 0),
    ]
    found = overview(runs)
    assert found.counts == {"failed": 1, "finished": 5, "running": 3, "waiting": 1}
    assert found.hosts == {"one": 2, "two": 1}
    assert found.runs_per_hour == pytest.approx(72)  # two workers, 100 s a run
    assert found.remaining_seconds == pytest.approx((6 + 10 + 1 + 10) * 10 / 2)


def test_before_a_run_is_finished_those_being_trained_tell_the_rate() -> None:
    runs = [a_run(0, "running", 5, host="one", seconds=20.0), a_run(1, "waiting", 0)]
    found = overview(runs)
    assert found.runs_per_hour == pytest.approx(3600 / 40)
    assert found.remaining_seconds == pytest.approx(15 * 4)


@pytest.mark.parametrize("state", ["finished", "waiting", "interrupted"])
def test_without_workers_there_is_no_rate(state: State) -> None:
    found = overview([a_run(0, state, 10, seconds=1.0, ended=1.0), a_run(1, "waiting", 0)])
    assert (found.runs_per_hour, found.remaining_seconds) == (None, None)
    assert overview([]).counts == {}


def test_a_watched_cohort_follows_its_runs(cohort: Path) -> None:
    watched = Watched(open_cohort(cohort))
    assert [run.state for run in watched.look()] == ["waiting"] * 4
    calls = iter(range(1000))
    work(Job(str(cohort), "a", wait=False), stop=lambda: next(calls) > 3)
    assert sorted(run.state for run in watched.look()) == ["interrupted", *["waiting"] * 3]
    (begun,) = [run for run in places(cohort) if attempts_at(attempts_folder(run))]
    for path in sorted(attempts_folder(begun).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    attempts_folder(begun).rmdir()
    assert [run.state for run in watched.look()] == ["waiting"] * 4
    work(Job(str(cohort), "a"))
    assert [run.state for run in watched.look()] == ["finished"] * 4


def test_without_a_worker_the_next_step_is_named(
    cohort: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"or start a worker with `checkwise study work {cohort}`"
    _, printed, _ = call(capsys, "study", "status", cohort)
    assert said in printed.replace("\n", " ")
    with held(places(cohort)[0]):
        assert "No worker" not in call(capsys, "study", "status", cohort)[1]


def test_watching_ends_when_every_run_is_finished(
    cohort: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def train(seconds: float) -> None:
        slept.append(seconds)
        calls = iter(range(1000))
        work(Job(str(cohort), "a", wait=False), stop=lambda: next(calls) > 12)

    monkeypatch.setattr("checkwise.cli.status.time.sleep", train)
    code, printed, _ = call(capsys, "study", "status", cohort, "--watch", "--json")
    looks = [json.loads(line) for line in printed.splitlines()]
    assert code == 0
    assert len(looks) == len(slept) + 1 > 2
    assert looks[0]["counts"] == {"waiting": 4}
    assert looks[-1]["counts"] == {"finished": 4}
    code, printed, _ = call(capsys, "study", "status", cohort, "--watch")
    assert (code, printed) == (0, "tiny (development): 4 runs, 4 finished\n")


def test_files_are_checked_on_request(cohort: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = call(capsys, "study", "status", cohort, "--verify", "--json")
    assert code == 1
    assert [fault["kind"] for fault in json.loads(printed)["faults"]] == ["unfinished"] * 4
    work(Job(str(cohort), "a"))
    code, printed, _ = call(capsys, "study", "status", cohort, "--verify", "--json")
    assert (code, json.loads(printed)["faults"]) == (0, [])
    assert "faults" not in json.loads(call(capsys, "study", "status", cohort, "--json")[1])
    journal = next(cohort.glob("runs/*/source.jsonl"))
    journal.write_text(journal.read_text().replace("0", "1", 1))
    code, printed, _ = call(capsys, "study", "status", cohort, "--verify")
    assert code == 1
    assert f"{journal.parent.name}: source.jsonl was changed" in printed
    code, _, complaint = call(capsys, "study", "status", journal.parent, "--verify")
    assert (code, "cohort.json" in complaint) == (2, True)
