"""Options that say where workers run; every command that starts workers takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from checkwise.cli.command import OUTPUT, PATH, Shared, field, option
from checkwise.plugins import Plugin, load_plugin
from checkwise.study.folder import RETRIES, STALE_SECONDS

if TYPE_CHECKING:
    from checkwise.study.sweep import ExecutorSettings, Study

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

        from checkwise.study.sweep import ExecutorSettings

        base = table or ExecutorSettings()
        if self.executor not in (None, base.kind):
            base = ExecutorSettings(kind=str(self.executor))
        named = ("workers", "partition", "time", "memory", "cpus", "gpus", "address")
        options = {name: getattr(self, name) for name in named}
        return replace(base, **{k: value for k, value in options.items() if value is not None})


CHOOSE = "Choose"
READ = "Read the log"
FIND = "Find the files"
SOME = "Only some runs"

json_option = option(
    "--json", "as_json", is_flag=True, under=OUTPUT, help="Print JSON for machines."
)
open_option = option(
    "--open", "show", is_flag=True, under=OUTPUT, help="Open the page in the browser."
)
out_option = option("-o", "--out", type=PATH, under=OUTPUT, help="Where to write it.")
force_option = option("--force", is_flag=True, under=OUTPUT, help="Replace what is there.")
plugin_option = option(
    "--plugin",
    multiple=True,
    metavar="FILE",
    help="A Python file or module with rules, metrics or algorithms of your own; repeatable.",
)
column_option = option(
    "--column",
    multiple=True,
    metavar="NAME=COLUMN",
    under=READ,
    help="Read a column as NAME: accuracy=val/top1; repeatable.",
)
source_option = option(
    "--source",
    multiple=True,
    metavar="NAME",
    under=READ,
    help="Validation, although it looks held out; repeatable.",
)
data_option = option(
    "--data",
    multiple=True,
    metavar="NAME=PATH",
    help="Where a data set is; repeatable. Or set CHECKWISE_DATA.",
)
dry_run_option = option("--dry-run", is_flag=True, help="Show the plan, train nothing.")
validation_option = option(
    "--validation",
    metavar="NAME",
    under=READ,
    help="Of runs with both: examples or groups. [examples]",
)


def load_plugins(names: Iterable[str]) -> tuple[Plugin, ...]:
    """Import files or modules whose decorators register what is in them."""
    return tuple(load_plugin(name) for name in names)


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
