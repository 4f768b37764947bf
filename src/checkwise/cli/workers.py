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
        from checkwise.study.sweep import ExecutorSettings

        given = {name: value for name, value in vars(self).items() if value is not None}
        base = table or ExecutorSettings()
        kind = given.pop("executor", base.kind)
        return replace(base if kind == base.kind else ExecutorSettings(kind=kind), **given)


class SeedFilters(Shared):
    """Which runs of a study, whatever they hold out."""

    algorithm: tuple[str, ...] = field(
        "--algorithm", multiple=True, under=SOME, help="Only this one; repeatable."
    )
    hparams_seed: tuple[int, ...] = field(
        "--hparams-seed",
        multiple=True,
        type=int,
        under=SOME,
        help="Only this seed of hyperparameters; repeatable.",
    )
    trial_seed: tuple[int, ...] = field(
        "--trial-seed",
        multiple=True,
        type=int,
        under=SOME,
        help="Only this seed of split and training; repeatable.",
    )

    def narrowed(self, study: Study) -> Study:
        """The study with only these runs."""
        return study.narrowed(
            algorithms=self.algorithm,
            hparams_seeds=self.hparams_seed,
            trial_seeds=self.trial_seed,
        )


class RunFilters(SeedFilters):
    """Which runs of a study."""

    only_held_out: tuple[str, ...] = field(
        "--held-out", multiple=True, under=SOME, help="Only this held-out domain; repeatable."
    )

    def narrowed(self, study: Study) -> Study:
        """The study with only these runs."""
        return super().narrowed(study).narrowed(held_out=self.only_held_out)


class Working(Shared):
    """How a worker holds on to the runs that it trains."""

    resume_seconds: float = field(
        "--resume-seconds",
        type=click.FloatRange(min=0),
        default=20.0,
        help="Least time between saved states of a run.",
    )
    takeover: float = field(
        "--takeover",
        metavar="SECONDS",
        type=click.FloatRange(min=1),
        default=STALE_SECONDS,
        help="Take over a run whose worker shows no sign of life for this long.",
    )
    retries: int = field(
        "--retries",
        type=click.IntRange(min=0),
        default=RETRIES,
        help="How often a run that fails is tried again.",
    )
