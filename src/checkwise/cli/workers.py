"""The options of commands that start workers, or say which runs they train."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final

import click

from checkwise.cli.command import Shared, field, option
from checkwise.cli.options import pairs
from checkwise.errors import InputError

if TYPE_CHECKING:
    from checkwise.study.sweep import ExecutorSettings, Study

WHERE = "Where it runs"
AT_LEAST_ONE = click.IntRange(min=1)
Kinds = Mapping[str, Callable[[str], Any]]
# What --set takes: settings of executors, and how a worker holds on to the runs that it trains.
EXECUTOR: Final[Kinds] = {
    "partition": str, "time": str, "memory": str, "cpus": int, "gpus": int, "address": str,
}  # fmt: skip
LIMITS: Final[Kinds] = {"resume_seconds": float, "takeover": float, "retries": int}
set_option = option(
    "--set NAME=VALUE…", "A setting of workers, as memory=16G (docs/scale.md); repeatable."
)


def read_settings(written: Iterable[str], known: Kinds) -> dict[str, Any]:
    """What ``--set`` says; numbers are not negative."""
    found = pairs("--set", written, "NAME=VALUE", split=str.partition)
    values: dict[str, Any] = {}
    for name, text in found.items():
        if name not in known:
            raise InputError(
                f"Expected --set with one of {', '.join(known)}, but got {name!r:.60}.",
                code="unknown",
            )
        try:
            values[name] = known[name](text)
        except ValueError:
            values[name] = -1
        if not isinstance(values[name], str) and not 0 <= values[name] < inf:
            raise InputError(f"Expected a number for --set {name}, but got {text!r:.40}.")
    return values


class Launching(Shared, under=WHERE):
    """They replace the ``[executor]`` table of a study file."""

    known: ClassVar[Kinds] = EXECUTOR
    executor: str | None = field("--executor TEXT", "local, slurm or ray. [default: local]")
    workers: int | None = field(
        "--workers N", "How many workers. [default: one per core]", type=AT_LEAST_ONE
    )
    set: tuple[str, ...] = set_option.field

    def over(self, table: ExecutorSettings | None = None) -> ExecutorSettings:
        """The settings of a table with these options in their places.

        What a table says for one executor does not hold for another.
        """
        from checkwise.study.sweep import ExecutorSettings

        given = read_settings(self.set, self.known)
        values = {name: value for name, value in given.items() if name in EXECUTOR}
        if self.workers is not None:
            values["workers"] = self.workers
        base = table or ExecutorSettings()
        kind = self.executor or base.kind
        return replace(base if kind == base.kind else ExecutorSettings(kind=kind), **values)


class Training(Launching, under=WHERE):
    """The same, and how workers hold on to runs."""

    known: ClassVar[Kinds] = {**EXECUTOR, **LIMITS}

    @property
    def limits(self) -> dict[str, Any]:
        """How workers hold on to runs, where that was said."""
        given = read_settings(self.set, self.known)
        return {name: value for name, value in given.items() if name in LIMITS}


class RunFilters(Shared, under="Only some runs"):
    """Which runs of a study."""

    only_held_out: tuple[str, ...] = field(
        "--held-out TEXT…", "Only this held-out domain; repeatable."
    )
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
            algorithms=self.algorithm,
            hparams_seeds=self.hparams_seed,
            trial_seeds=self.trial_seed,
            held_out=self.only_held_out,
        )
