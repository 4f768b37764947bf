"""The options that say how runs are read from what people have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from checkwise.cli.imported_beside import check_sealed
from checkwise.cli.option_groups import OptionGroup
from checkwise.cli.options import Checkpoints, Column, HeldOut, IncludeUnsaved, Source
from checkwise.cli.progress import counting
from checkwise.cli.rule_options import RuleOptions
from checkwise.errors import InputError
from checkwise.metrics.settings import BANDWIDTH, BINS
from checkwise.readers import load_runs
from checkwise.readers.request import Request
from checkwise.readers.run_keys import only
from checkwise.records import RunKey, Trajectory
from checkwise.selection import DEFAULT_RULE, get_rule
from checkwise.selection.default_rule import NAMED_SCORES
from checkwise.selection.rules import find_metrics
from checkwise.store.validation import check_validation


@dataclass(frozen=True, kw_only=True)
class InputOptions(OptionGroup):
    """What is kept out, which columns are read, and how metrics are computed from outputs."""

    held_out: HeldOut = None
    source: Source = None
    column: Column = None
    n: Annotated[
        str | None,
        typer.Option(
            "--n",
            metavar="NUMBER",
            help="How many validation examples there were, for a log: 5000, or photo=400,art=300.",
        ),
    ] = None
    checkpoints: Checkpoints = None
    include_unsaved: IncludeUnsaved = False
    only_run: Annotated[
        str | None,
        typer.Option(
            "--run", metavar="NAME", help="Only this run of several, as their table names it."
        ),
    ] = None
    bins: Annotated[int, typer.Option(help="Bins of calibration errors of saved predictions.")] = (
        BINS
    )
    bandwidth: Annotated[float, typer.Option(help="Width of the soft bins.")] = BANDWIDTH

    @property
    def request(self) -> Request:
        """What is read of logs and tables."""
        return Request.of(
            self.held_out,
            (),
            sources=self.source,
            columns=columns_of(self.column),
            n=examples_of(self.n),
            checkpoints=self.checkpoints,
            include_unsaved=self.include_unsaved,
        )

    def load_runs(
        self,
        path: Path,
        rule: str | None,
        options: RuleOptions,
        validation: str | None = None,
    ) -> dict[RunKey, Trajectory]:
        """Every run at a path, with a progress bar where outputs have to be evaluated."""
        options.load_plugins()
        check_sealed(path, self.request)
        metrics = scores_read(rule, options.params)
        with counting("evaluating checkpoints") as progress:
            runs = load_runs(
                path,
                held_out=self.held_out,
                sources=self.source,
                columns=columns_of(self.column),
                n=examples_of(self.n),
                checkpoints=self.checkpoints,
                include_unsaved=self.include_unsaved,
                validation=check_validation(validation),
                metrics=metrics,
                bins=self.bins,
                bandwidth=self.bandwidth,
                progress=progress,
            )
        return runs if self.only_run is None else only(self.only_run, runs, path)

    def expect_run(self, path: Path) -> None:
        """Refuse options about reading for a run or cohort of checkwise, which knows all of it."""
        for option, value in (
            ("--held-out", self.held_out),
            ("--source", self.source),
            ("--column", self.column),
            ("--checkpoints", self.checkpoints),
            ("--include-unsaved", self.include_unsaved),
        ):
            if value:
                raise InputError(
                    f"Expected {option} with a predictions folder, but {path} is none: leave it "
                    "out, runs know what they hold out.",
                    code="unsupported",
                )


def scores_read(rule: str | None, params: Mapping[str, Any]) -> tuple[str, ...]:
    """The scores that a reader has to find; none where those that it knows anyway will do.

    Accuracy is among them where the rule needs it: where it is not, a run may lack it.
    """
    named = "objectives" in params or "constraint" in params
    used = get_rule(rule or (NAMED_SCORES if named else DEFAULT_RULE))
    if rule is not None:
        find_metrics(used, params)
    return used.looks_at(params) if named or not used.needs_accuracy else ()


def columns_of(pairs: Iterable[str] | None) -> dict[str, str]:
    """``NAME=COLUMN`` as a map."""
    columns: dict[str, str] = {}
    for pair in pairs or ():
        name, separator, column = pair.partition("=")
        if not separator or not name or not column:
            raise InputError(
                f"Expected --column NAME=COLUMN, but got {pair!r}: write, for example, "
                "--column accuracy=val_accuracy."
            )
        if name in columns:
            raise InputError(
                f"Expected one column for {name}, but --column names two: give one.",
                code="ambiguous",
            )
        columns[name] = column
    return columns


def examples_of(text: str | None) -> int | dict[str, int] | None:
    """``5000``, or ``photo=400,art=300`` as a map."""
    if text is None:
        return None
    if "=" not in text:
        return _whole(text)
    examples: dict[str, int] = {}
    for part in text.split(","):
        name, separator, number = part.rpartition("=")
        if not separator or not name or name in examples:
            raise InputError(
                f"Expected --n NUMBER, or SET=NUMBER,… with each set once, but got {text!r}: "
                "write, for example, --n photo=400,art=300."
            )
        examples[name] = _whole(number)
    return examples


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:20]) < 2**53:
        raise InputError(f"Expected --n as a whole number above 0, but got {text!r:.40}.")
    return int(text)
