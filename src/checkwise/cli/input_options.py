"""The options that say how runs are read from what people have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from checkwise.cli.command import Shared, field, field_of
from checkwise.cli.imported_beside import check_sealed
from checkwise.cli.options import FIND, READ, column_option, source_option, validation_option
from checkwise.cli.progress import counting
from checkwise.cli.rule_options import Choosing
from checkwise.errors import InputError
from checkwise.metrics import BANDWIDTH, BINS
from checkwise.readers import Request, load_runs, only
from checkwise.records import RunKey, Trajectory
from checkwise.selection import DEFAULT_RULE, NAMED_SCORES, find_metrics, get_rule
from checkwise.store import check_validation


class Reading(Shared):
    """What is kept out, which columns are read, and how metrics are computed from outputs."""

    held_out: tuple[str, ...] = field(
        "--held-out",
        multiple=True,
        metavar="NAME",
        under=READ,
        help="A set that must not be read; repeatable.",
    )
    source: tuple[str, ...] = field_of(source_option)
    column: tuple[str, ...] = field_of(column_option)
    n: str | None = field(
        "--n",
        metavar="NUMBER",
        under=READ,
        help="Validation examples: 5000, or photo=400,art=300.",
    )
    only_run: str | None = field(
        "--run", metavar="NAME", under=READ, help="Only this run of several."
    )
    validation: str | None = field_of(validation_option)
    bins: int = field(
        "--bins", type=int, default=BINS, under=READ, help=f"Bins of calibration errors. [{BINS}]"
    )
    bandwidth: float = field(
        "--bandwidth",
        type=float,
        default=BANDWIDTH,
        under=READ,
        help=f"Width of the soft bins. [{BANDWIDTH}]",
    )
    checkpoints: str | None = field(
        "--checkpoints",
        metavar="PATTERN",
        under=FIND,
        help="As 'checkpoint-{step}' or 'weights.{epoch+1}.keras'.",
    )
    include_unsaved: bool = field(
        "--include-unsaved",
        is_flag=True,
        under=FIND,
        help="Allow steps whose checkpoint is not there.",
    )

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
        choosing: Choosing | None = None,
    ) -> dict[RunKey, Trajectory]:
        """Every run at a path, with a progress bar where outputs have to be evaluated."""
        choosing = choosing or Choosing()
        choosing.load_plugins()
        return self.load_runs_for(path, choosing.rule, choosing.params)

    def load_runs_for(
        self, path: Path, rule: str | None, params: Mapping[str, Any]
    ) -> dict[RunKey, Trajectory]:
        """Every run at a path, for a rule whose plug-in is loaded."""
        check_sealed(path, self.request)
        metrics = scores_read(rule, params)
        with counting("evaluating checkpoints") as progress:
            runs = load_runs(
                path,
                held_out=self.held_out,
                sources=self.source,
                columns=columns_of(self.column),
                n=examples_of(self.n),
                checkpoints=self.checkpoints,
                include_unsaved=self.include_unsaved,
                validation=check_validation(self.validation),
                metrics=metrics,
                bins=self.bins,
                bandwidth=self.bandwidth,
                progress=progress,
            )
        return runs if self.only_run is None else only(self.only_run, runs, path)


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
