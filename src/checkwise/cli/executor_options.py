"""Options that say where workers run; every command that starts workers takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from checkwise.cli.command import Shared, field

if TYPE_CHECKING:
    from checkwise.sweep.executors import ExecutorSettings

WHERE = "Where it runs"
AT_LEAST_ONE = click.IntRange(min=1)


class ExecutorOptions(Shared):
    """They replace the ``[executor]`` table of a study file."""

    executor: str | None = field(
        "--executor", under=WHERE, help="local, slurm or ray. [default: local]"
    )
    workers: int | None = field(
        "--workers",
        type=AT_LEAST_ONE,
        under=WHERE,
        help="How many workers. [default: one per core]",
    )
    partition: str | None = field("--partition", under=WHERE, help="Partition, for slurm.")
    time: str | None = field(
        "--time", under=WHERE, help="Time limit of a job, for slurm: 4:00:00. [default: 1:00:00]"
    )
    memory: str | None = field("--memory", under=WHERE, help="Memory of a worker: 4G.")
    cpus: int | None = field(
        "--cpus", type=AT_LEAST_ONE, under=WHERE, help="CPUs of a worker. [default: 1]"
    )
    gpus: int | None = field(
        "--gpus", type=AT_LEAST_ONE, under=WHERE, help="GPUs of a worker. [default: 0]"
    )
    address: str | None = field(
        "--address", under=WHERE, help="Address of a running cluster, for ray."
    )

    def over(self, table: ExecutorSettings | None = None) -> ExecutorSettings:
        """The settings of a table with these options in their places.

        What a table says for one executor does not hold for another.
        """
        from dataclasses import replace

        from checkwise.sweep.executors import ExecutorSettings

        base = table or ExecutorSettings()
        if self.executor not in (None, base.kind):
            base = ExecutorSettings(kind=str(self.executor))
        named = ("workers", "partition", "time", "memory", "cpus", "gpus", "address")
        options = {name: getattr(self, name) for name in named}
        return replace(base, **{k: value for k, value in options.items() if value is not None})
