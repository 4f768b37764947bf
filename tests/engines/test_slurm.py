"""A real Slurm, whatever happens to its jobs, leaves the bytes that the local executor leaves."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.conftest import Reference
from tests.engines.slurm_cluster import PRESENT, SlurmCluster
from tests.engines.sweeps import LONG, Sweep, evaluated, write_long, write_small
from tests.requirements import requires
from tests.sweep.studies import all_contents

pytestmark = requires("slurm", PRESENT, "Slurm, munge, submitit or the rights of root are missing")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with SlurmCluster(tmp_path_factory.mktemp("slurm") / "cluster") as running:
        yield running


def start(cluster: SlurmCluster, study: object, out: Path, *words: object) -> Sweep:
    return Sweep(study, out, "--executor", "slurm", *words, environment=cluster.environment)


def kill_and_requeue(sweep: Sweep, cluster: SlurmCluster) -> None:
    """Kill the process of the first job; requeue the second, which starts once more."""
    pids = sweep.pids()
    for pid in pids:
        if b"SLURM_ARRAY_TASK_ID=0" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            os.kill(pid, signal.SIGKILL)
    array = min(cluster.jobs()).partition("_")[0]
    cluster.run("scontrol", "requeue", f"{array}_1")
    sweep.wait(lambda: bool(sweep.pids() - pids))


def test_a_killed_and_a_requeued_job_change_nothing(
    cluster: SlurmCluster, reference: Reference, tmp_path: Path
) -> None:
    study, expected = reference("small")
    sweep = start(cluster, study, tmp_path / "out", "--workers", 2)
    sweep.wait_for_work(2)
    kill_and_requeue(sweep, cluster)
    code, printed, errors = sweep.end()
    assert (code, errors) == (0, "")
    assert printed == f"8 of 8 runs finished in {sweep.out}.\n"
    assert all_contents(sweep.out) == expected
    assert cluster.jobs() == {}


def test_a_job_that_slurm_warns_saves_and_is_queued_again(
    cluster: SlurmCluster, reference: Reference, tmp_path: Path
) -> None:
    study, expected = reference("small")
    sweep = start(cluster, study, tmp_path / "out", "--workers", 1)
    sweep.wait_for_work(1)
    before = sweep.pids()
    cluster.run("scancel", "--signal=USR2", *cluster.jobs())
    sweep.wait(lambda: bool(sweep.pids() - before))
    (log,) = sweep.out.glob("workers/*/slurm/*_0_log.err")
    assert "Caught signal SIGUSR2" in log.read_text()
    code, _, errors = sweep.end()
    assert (code, errors) == (0, "")
    assert all_contents(sweep.out) == expected


@LONG
def test_the_demo_with_a_job_killed_one_requeued_and_one_at_its_time_limit(
    cluster: SlurmCluster, reference: Reference, tmp_path: Path
) -> None:
    study, expected = reference("demo")
    # Slurm warns a job 90 s before its limit and looks every 30 s: after the first minute.
    sweep = start(cluster, study, tmp_path / "out", "--workers", 3, "--set", "time=3")
    sweep.wait_for_work(2)
    kill_and_requeue(sweep, cluster)
    code, printed, errors = sweep.end()
    assert (code, errors) == (0, "")
    assert printed == f"30 of 30 runs finished in {sweep.out}.\n"
    assert all_contents(sweep.out) == expected


def test_an_interrupted_sweep_cancels_its_jobs_after_they_saved(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    sweep = start(cluster, write_long(tmp_path), tmp_path / "out", "--workers", 2)
    sweep.wait_for_work(2)
    sweep.process.send_signal(signal.SIGINT)
    code, printed, errors = sweep.end()
    assert (code, errors) == (130, "")
    assert "The same command continues them where they stopped." in printed
    assert cluster.jobs() == {}
    states = [run.state for run in sweep.statuses()]
    assert states.count("interrupted") >= 2
    assert set(states) == {"interrupted", "waiting"}


def test_checkpoints_are_evaluated_by_jobs(cluster: SlurmCluster, tmp_path: Path) -> None:
    place = ("--executor", "slurm", "--workers", 2)
    by_jobs = evaluated(tmp_path, *place, environment=cluster.environment)
    assert by_jobs == evaluated(tmp_path)


def test_what_slurm_refuses_is_one_line(cluster: SlurmCluster, tmp_path: Path) -> None:
    study = write_small(tmp_path)
    sweep = start(cluster, study, tmp_path / "out", "--workers", 2, "--set", "partition=wrong")
    code, _, errors = sweep.end()
    assert code == 2
    assert errors.count("\n") == 1
    assert "invalid partition specified: wrong" in errors
    assert not (tmp_path / "out" / "workers").exists()


def test_a_folder_that_the_nodes_do_not_share_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with SlurmCluster(tmp_path / "cluster", hidden=out) as cluster:
        cluster.run("scontrol", "update", "NodeName=one", "State=DRAIN", "Reason=test")
        code, _, errors = start(cluster, write_small(tmp_path), out, "--workers", 1).end()
    assert code == 2
    assert errors.count("\n") == 1
    assert f"Expected {out} on storage that every worker shares" in errors
    assert "was not read on two" in errors
