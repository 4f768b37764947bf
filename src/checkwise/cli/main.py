"""Entry point: one line and exit code 2 for anything a user can put right."""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core

from checkwise import __version__
from checkwise.errors import CheckwiseError, CheckwiseWarning
from checkwise.extras import missing_extra
from checkwise.store.atomic_write import disk_remedy
from checkwise.text import printable

# typer carries its own copy of click or depends on it, by version; this finds either.
_UsageError: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

_SETTINGS: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}

# Name, module and function under `checkwise.cli`, and help.
# By what one wants to do; every line of help fits beside the names in 60 columns.
COMMANDS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Choose a checkpoint": (
        ("select", "select.command", "Choose a checkpoint of every run."),
        ("export", "export.command", "Copy the chosen checkpoint as it is."),
        ("deploy", "deploy.command", "Write a model to use: averaged, calibrated."),
        ("prune", "prune.command", "Delete what cannot be chosen any more."),
        ("calibrate", "calibrate.command", "Calibrate the chosen checkpoint."),
        ("rules", "rules.command", "List the rules and what they need."),
        ("metrics", "metrics.command", "Measure saved logits or probabilities."),
        ("predict", "predict.command", "Evaluate checkpoints with your function."),
    ),
    "Train": (
        ("demo", "demo.command", "Run a small study from start to end."),
        ("train", "train.command", "Train one run of a study."),
        ("sweep", "sweep.command", "Train every run of a study."),
        ("plan", "plan.command", "Plan a study for workers to train."),
        ("work", "work.command", "Train runs of a planned study."),
        ("status", "status.command", "Show which runs are done, and which failed."),
        ("verify", "verify.command", "Check files against their checksums."),
        ("derive", "derive.command", "Average weights, or make ensembles."),
        ("swad", "derive.swad", "Average the checkpoints of the loss valley."),
        ("lodo", "lodo.command", "Validate on domains that are left out."),
    ),
    "Study": (
        ("import", "importing.command", "Make a study of logs or a table you have."),
        ("preregister", "preregister.command", "Register a choice before looking."),
        ("registered", "registered.command", "Show the contrasts that were registered."),
        ("compare", "compare.command", "Compare rules on held-out domains."),
        ("tables", "tables.command", "Write the tables of a study."),
        ("figures", "figures.command", "Draw the figures of a study."),
        ("report", "report.command", "Write one page about a study or a run."),
        ("pack", "pack.pack", "Put a study into one file."),
        ("unpack", "pack.unpack", "Make a study's folder from that file."),
    ),
    "Help": (("doctor", "doctor.command", "Show what is installed, and what is missing."),),
}


class _Commands(Mapping[str, Any]):
    """Commands by name; looking one up imports its module."""

    def __init__(self) -> None:
        lines = [line for group in COMMANDS.values() for line in group]
        self._places = {name: place for name, place, _ in lines}
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            module, _, function = self._places[name].partition(".")
            single = typer.Typer(add_completion=False, **_SETTINGS)
            single.command(name)(getattr(import_module(f"checkwise.cli.{module}"), function))
            self._loaded[name] = typer.main.get_command(single)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Grouped(typer.core.TyperGroup):
    """Help that lists the commands by group and folds a line instead of cutting it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Commands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for group, commands in COMMANDS.items():
            with formatter.section(group):
                formatter.write_dl([(name, line) for name, _, line in commands])


app = typer.Typer(
    name="checkwise",
    help="Pick the training checkpoint whose probabilities you can trust.",
    cls=_Grouped,
    **_SETTINGS,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"checkwise {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Pick the training checkpoint whose probabilities you can trust."""


def main(args: list[str] | None = None) -> None:
    """Run a command; ``--debug`` anywhere shows tracebacks."""
    arguments = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        _never_stop_at_a_character()
        code = _run(arguments or ["--help"])
        sys.stdout.flush()  # a full disk is reported here, not when Python ends
    except KeyboardInterrupt:
        _complain("interrupted")
        code = 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away; nothing is left to say
        code = 0
    except Exception as error:
        if debug:
            raise
        code = _explain(error)
    try:
        sys.stdout.flush()
    except OSError:
        # What cannot be written would be tried, and complained about, once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _never_stop_at_a_character() -> None:
    """Print what the terminal's encoding lacks as an escape."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _run(arguments: list[str]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("always", CheckwiseWarning)
        warnings.showwarning = _warn_once()
        result: Any = app(args=arguments, standalone_mode=False)
    return result if isinstance(result, int) else 0


def _warn_once() -> Callable[..., None]:
    """Prints a warning; Python's own filter repeats one for every module that it comes from."""
    said: set[str] = set()

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            _complain(f"warning: {message}")

    return warn


def _explain(error: Exception) -> int:
    error = missing_extra(error) or error
    if isinstance(error, _UsageError):
        _complain(_usage(error))
        return 2
    if isinstance(error, typer.Abort):
        _complain("aborted")
        return 130
    if isinstance(error, CheckwiseError):
        _complain(str(error))
        return 2
    if isinstance(error, OSError) and error.strerror:
        advice = disk_remedy(error, "check the path and its permissions")
        if error.filename:
            advice = f"{error.filename}: {advice}, or choose another place"
        _complain(f"{error.strerror.lower()}: {advice}.")
        return 2
    _complain(
        f"{type(error).__name__}: {error} — this is a fault in checkwise; "
        "run again with --debug and report what it prints."
    )
    return 1


def _usage(error: Any) -> str:
    """Typer's message; for an extra argument, reworded like our other messages."""
    said: str = error.format_message()
    surplus = re.fullmatch(r"Got unexpected extra argument\S* \((.*)\)", said)
    context = getattr(error, "ctx", None)
    if surplus is None or context is None:
        return said
    arguments = [p for p in context.command.params if p.param_type_name == "argument"]
    if not arguments:
        return f"Expected options only, but got {surplus[1]}: leave it out."
    wanted = " and ".join(f"one {(p.metavar or p.name).upper()}" for p in arguments)
    again = f"`checkwise {context.command.name}`"
    return f"Expected {wanted}, but got {surplus[1]} as well: give {again} for each by itself."


def _complain(message: str) -> None:
    one_line = printable(" ".join(message.split()))
    print(f"checkwise: {one_line}", file=sys.stderr)
