"""Options that say where workers run; every command that starts workers takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from checkwise.cli.option_groups import OptionGroup

if TYPE_CHECKING:
    from checkwise.sweep.executors import ExecutorSettings


@dataclass(frozen=True)
class ExecutorOptions(OptionGroup):
    """They replace the ``[executor]`` table of a study file."""

    executor: Annotated[
        str | None,
        typer.Option(help="Where workers run: local, slurm or ray. [default: local]"),
    ] = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many workers. [default: one per core]")
    ] = None
    partition: Annotated[str | None, typer.Option(help="Partition, for slurm.")] = None
    time: Annotated[
        str | None,
        typer.Option(help="Time limit of a job, for slurm: 4:00:00. [default: 1:00:00]"),
    ] = None
    memory: Annotated[str | None, typer.Option(help="Memory of a worker: 4G.")] = None
    cpus: Annotated[int | None, typer.Option(min=1, help="CPUs of a worker. [default: 1]")] = None
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs of a worker. [default: 0]")] = None
    address: Annotated[str | None, typer.Option(help="Address of a running cluster, for ray.")] = (
        None
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
