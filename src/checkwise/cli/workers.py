"""The options of commands that start workers, or say which runs they train."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from checkwise.cli.command import Shared, field
from checkwise.study.folder import RETRIES, STALE_SECONDS

if TYPE_CHECKING:
    from checkwise.study.sweep import ExecutorSettings, Study

WHERE = "Where it runs"
SOME = "Only some runs"
AT_LEAST_ONE = click.IntRange(min=1)


class ExecutorOptions(Shared, under=WHERE):
    """They replace the ``[executor]`` table of a study file."""

    executor: str | None = field("--executor TEXT", "local, slurm or ray. [default: local]")
    workers: int | None = field(
        "--workers N", "How many workers. [default: one per core]", type=AT_LEAST_ONE
    )
    partition: str | None = field("--partition TEXT", "Partition, for slurm.")
    time: str | None = field(
        "--time TEXT", "Time limit of a job, for slurm: 4:00:00. [default: 1:00:00]"
    )
    memory: str | None = field("--memory TEXT", "Memory of a worker: 4G.")
    cpus: int | None = field("--cpus N", "CPUs of a worker. [default: 1]", type=AT_LEAST_ONE)
    gpus: int | None = field("--gpus N", "GPUs of a worker. [default: 0]", type=AT_LEAST_ONE)
    address: str | None = field("--address TEXT", "Address of a running cluster, for ray.")

    def over(self, table: ExecutorSettings | None = None) -> ExecutorSettings:
        """The settings of a table with these options in their places.

        What a table says for one executor does not hold for another.
        """
        from checkwise.study.sweep import ExecutorSettings

        given = {name: value for name, value in vars(self).items() if value is not None}
        base = table or ExecutorSettings()
        kind = given.pop("executor", base.kind)
        return replace(base if kind == base.kind else ExecutorSettings(kind=kind), **given)


class SeedFilters(Shared, under=SOME):
    """Which runs of a study, whatever they hold out."""

    algorithm: tuple[str, ...] = field("--algorithm TEXT…", "Only this one; repeatable.")
    hparams_seed: tuple[int, ...] = field(
        "--hparams-seed INTEGER…", "Only this seed of hyperparameters; repeatable.", type=int
    )
    trial_seed: tuple[int, ...] = field(
        "--trial-seed INTEGER…", "Only this seed of split and training; repeatable.", type=int
    )

    def narrowed(self, study: Study) -> Study:
        """The study with only these runs."""
        return study.narrowed(
            algorithms=self.algorithm, hparams_seeds=self.hparams_seed, trial_seeds=self.trial_seed
        )


class RunFilters(SeedFilters, under=SOME):
    """Which runs of a study."""

    only_held_out: tuple[str, ...] = field(
        "--held-out TEXT…", "Only this held-out domain; repeatable."
    )

    def narrowed(self, study: Study) -> Study:
        """The study with only these runs."""
        return super().narrowed(study).narrowed(held_out=self.only_held_out)


class Working(Shared):
    """How a worker holds on to the runs that it trains."""

    resume_seconds: float = field(
        "--resume-seconds N",
        "Least time between saved states of a run.",
        type=click.FloatRange(min=0),
        default=20.0,
    )
    takeover: float = field(
        "--takeover SECONDS",
        "Take over a run whose worker shows no sign of life for this long.",
        type=click.FloatRange(min=1),
        default=STALE_SECONDS,
    )
    retries: int = field(
        "--retries N",
        "How often a run that fails is tried again.",
        type=click.IntRange(min=0),
        default=RETRIES,
    )
