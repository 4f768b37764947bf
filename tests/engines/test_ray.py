"""A real Ray cluster of two nodes, one of them lost, leaves what the local executor leaves."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.engines.conftest import Reference
from tests.engines.slurm_cluster import free_ports
from tests.engines.sweeps import (
    LONG,
    PATIENCE_SECONDS,
    Sweep,
    evaluated,
    write_long,
    write_small,
)
from tests.requirements import requires
from tests.sweep.studies import all_contents

pytestmark = requires("ray", find_spec("ray") is not None, "ray is not installed")


@pytest.fixture(scope="module", autouse=True)
def own_token() -> Iterator[None]:
    """Clusters of these tests let nobody else in, and no token of the user is read or made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.setenv("RAY_worker_niceness", "0")  # or anything else on the machine comes first
        yield


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two nodes with two CPUs each, which ignore Ctrl-C as a shell's background does."""
    from ray.cluster_utils import Cluster

    running = Cluster()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    for _ in range(2):
        running.add_node(num_cpus=2, object_store_memory=100 * 2**20, include_dashboard=False)
    signal.signal(signal.SIGINT, before)
    yield running
    running.shutdown()


def start(cluster: Any, study: object, out: Path, *words: object) -> Sweep:
    place = ("--executor", "ray", "--set", f"address={cluster.address}")
    return Sweep(study, out, *place, "--workers", 4, *words)


@pytest.mark.parametrize("name", ["small", pytest.param("demo", marks=LONG)])
def test_a_node_that_is_lost_changes_nothing(
    name: str, cluster: Any, reference: Reference, tmp_path: Path
) -> None:
    study, expected = reference(name)
    sweep = start(cluster, study, tmp_path / "out")
    sweep.wait_for_work(3)  # so at least one on each node
    cluster.remove_node(cluster.list_all_nodes()[1], allow_graceful=False)
    code, printed, errors = sweep.end()
    assert (code, errors) == (0, "")
    assert f"{len(expected)} of {len(expected)} runs finished" in printed
    assert all_contents(sweep.out) == expected


def test_an_interrupted_sweep_cancels_its_tasks_after_they_saved(
    cluster: Any, tmp_path: Path
) -> None:
    sweep = start(cluster, write_long(tmp_path), tmp_path / "out")
    sweep.wait_for_work(2)
    sweep.process.send_signal(signal.SIGINT)
    code, printed, errors = sweep.end()
    assert (code, errors) == (130, "")
    assert "The same command continues them where they stopped." in printed
    states = [run.state for run in sweep.statuses()]
    assert states.count("interrupted") >= 2
    assert set(states) == {"interrupted", "waiting"}


def test_checkpoints_are_evaluated_on_the_cluster(cluster: Any, tmp_path: Path) -> None:
    place = ("--executor", "ray", "--set", f"address={cluster.address}", "--workers", 2)
    assert evaluated(tmp_path, *place) == evaluated(tmp_path)


def test_workers_that_no_node_can_take_are_refused(cluster: Any, tmp_path: Path) -> None:
    code, _, errors = start(
        cluster, write_small(tmp_path), tmp_path / "out", "--set", "gpus=8"
    ).end()
    assert code == 2
    assert "Expected a node of the Ray cluster with 1 CPU, 8 GPU for a worker" in errors
    assert errors.count("\n") == 1


def test_an_address_without_a_cluster_is_refused(tmp_path: Path) -> None:
    place = ("--executor", "ray", "--set", "address=127.0.0.1:9")
    code, _, errors = Sweep(write_small(tmp_path), tmp_path / "out", *place).end()
    assert code == 2
    assert "Expected a Ray cluster at 127.0.0.1:9" in errors
    assert errors.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide a folder from a process")
def test_a_folder_that_a_node_does_not_share_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (port,) = free_ports(1)
    ray = f"{sys.executable} -m ray.scripts.scripts start --head --block --num-cpus 1"
    script = f"mount -t tmpfs none {out} && exec {ray} --port {port} --include-dashboard false"
    with (tmp_path / "ray.log").open("wb") as log:
        node = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        end = time.monotonic() + PATIENCE_SECONDS
        while "Ray runtime started" not in (tmp_path / "ray.log").read_text():
            assert node.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        place = ("--executor", "ray", "--set", f"address=127.0.0.1:{port}")
        code, _, errors = Sweep(write_small(tmp_path), out, *place).end()
    finally:
        node.terminate()
        node.wait()
    assert code == 2
    assert f"Expected {out} on storage that every worker shares" in errors
    assert errors.count("\n") == 1
