"""A real Slurm on this machine for one test: its own munge, controller and two nodes."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

PRESENT = (
    all(map(shutil.which, ("slurmctld", "slurmd", "munged", "sbatch")))
    and os.geteuid() == 0
    and find_spec("submitit") is not None
)
NODES = ("one", "two")
CONFIGURATION = """\
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits as long as a credential lives.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/node-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=30
MinJobAge=10
NodeName=one NodeAddr=127.0.0.1 NodeHostname=localhost Port={one} CPUs={cpus}
NodeName=two NodeAddr=127.0.0.1 NodeHostname=localhost Port={two} CPUs={cpus}
PartitionName=main Nodes=one,two Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


class SlurmCluster:
    """Started on entry, ended on exit.

    The second node does not see the folder ``hidden``, as if that were not on shared storage.
    """

    def __init__(self, folder: Path, hidden: Path | None = None) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._hidden = hidden
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        ports = dict(zip(("controller", *NODES), free_ports(3), strict=True))
        text = CONFIGURATION.format(folder=self.folder, cpus=os.cpu_count(), **ports)
        (self.folder / "slurm.conf").write_text(text)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log"}
        options = [f"--{name}={self.folder}/munge.{end}" for name, end in files.items()]
        seed = f"--seed-file={self.folder}/munge.seed"
        self._start("munged", "--foreground", "--force", "--num-threads=1", seed, *options)
        self._wait(lambda: (self.folder / "munge.socket").exists(), "munged")
        self._start("slurmctld", "-D", "-i")
        self._start("slurmd", "-D", "-N", "one")
        if self._hidden is None:
            self._start("slurmd", "-D", "-N", "two")
        else:
            script = f"mount -t tmpfs none {self._hidden} && exec slurmd -D -N two"
            self._start("unshare", "--mount", "sh", "-c", script)
        self._wait(lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D") == "2", "two nodes")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.run("scancel", "--signal=KILL", "--user=root")
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def run(self, *command: str) -> str:
        """What a command of Slurm prints; empty where it fails."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    def jobs(self) -> dict[str, str]:
        """The state of every job that has not ended, by its number."""
        lines = self.run("squeue", "-h", "-r", "-o", "%i %T").splitlines()
        return dict(line.split() for line in lines if line)

    def _start(self, *command: str) -> None:
        with (self.folder / f"{command[0]}-{len(self._daemons)}.log").open("wb") as log:
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        self._daemons.append(process)

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + 60
        while not ready():
            if time.monotonic() > end:
                raise TimeoutError(f"{what} did not start: see the logs in {self.folder}")
            time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
