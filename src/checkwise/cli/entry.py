"""Entry point: one line and exit code 2 for anything a user can put right."""

from __future__ import annotations

import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from checkwise import __version__, predict, store
from checkwise.errors import CheckwiseError, CheckwiseWarning, missing_extra
from checkwise.words import printable

# Name, module and function under `checkwise.cli`, and help.
# By what one wants to do; every line of help fits beside the names in 60 columns.
Lines = Mapping[str, tuple[tuple[str, str, str], ...]]
COMMANDS: Lines = {
    "Choose a checkpoint": (
        ("select", "select.select_command", "Choose a checkpoint, and say why."),
        ("predict", "predict.predict_command", "Evaluate checkpoints that have no log."),
        ("deploy", "deploy.deploy_command", "Write a calibrated model to use."),
        ("prune", "prune.prune_command", "Delete what cannot be chosen any more."),
    ),
    "Look things up": (
        ("rules", "rules.rules_command", "List the rules and what they need."),
        ("metrics", "metrics.metrics_command", "Measure saved logits or probabilities."),
        ("demo", "demo.demo_command", "Run a small study from start to end."),
        ("doctor", "doctor.doctor_command", "Show what is installed, and what is missing."),
    ),
    "Whole studies": (("study", "", "Train, compare and report many runs."),),
}
STUDY_COMMANDS: Lines = {
    "Train": (
        ("run", "run.run_command", "Train every run of a study."),
        ("work", "run.work_command", "Train runs of a planned study."),
        ("status", "status.status_command", "Show which runs are done, and which failed."),
        ("derive", "derive.derive_command", "Make averages, ensembles, LODO."),
    ),
    "Compare": (
        ("import", "importing.import_command", "Make a study of logs or a table you have."),
        ("register", "register.register_command", "Register a choice before looking."),
        ("compare", "compare.compare_command", "Compare rules on held-out domains."),
        ("report", "report.report_command", "Write a page, tables and figures."),
    ),
    "Hand over": (
        ("pack", "importing.pack_command", "Put a study into one file."),
        ("unpack", "importing.unpack_command", "Make a study's folder from that file."),
    ),
}


class Commands(click.Group):
    """Commands by what one wants to do; one is imported when it is used."""

    def __init__(self, name: str, lines: Lines, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.lines = lines
        self._places = {name: place for group in lines.values() for name, place, _ in group}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return None
        if cmd_name == STUDY:
            return study
        module, _, function = self._places[cmd_name].partition(".")
        found: click.Command = getattr(import_module(f"checkwise.cli.{module}"), function)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group, lines in self.lines.items():
            with formatter.section(group):
                formatter.write_dl([(name, line) for name, _, line in lines])


STUDY = "study"
study = Commands(
    STUDY, STUDY_COMMANDS, help="Train, compare and report many runs, as in a paper's study."
)
app = Commands(
    "checkwise", COMMANDS, help="Pick the training checkpoint whose probabilities you can trust."
)
click.version_option(__version__, message="checkwise %(version)s", help="Print the version.")(app)
click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")(app)


def commands() -> dict[str, click.Command]:
    """Every command by all of its name, such as ``study run``; this imports all of them."""
    context = click.Context(app)
    found = {name: app.get_command(context, name) for name in app.list_commands(context)}
    del found[STUDY]
    for name in study.list_commands(context):
        found[f"{STUDY} {name}"] = study.get_command(context, name)
    return {name: one for name, one in found.items() if one is not None}


def main(args: list[str] | None = None) -> None:
    """Run a command; ``--debug`` anywhere shows tracebacks."""
    arguments = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):  # what its encoding lacks is escaped
            sys.stdout.reconfigure(errors="backslashreplace")
        code = _run([*arguments, "--help"] if arguments in ([], [STUDY]) else arguments)
        sys.stdout.flush()  # a full disk is reported here, not when Python ends
    except KeyboardInterrupt as stop:
        _complain("interrupted")
        code = 128 + predict.stopped_by(stop)
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away; nothing is left to say
        code = 0
    except Exception as error:
        if debug:
            traceback.print_exc()
        code = _explain(error)
    try:
        sys.stdout.flush()
    except OSError:
        # What cannot be written would be tried, and complained about, once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("always", CheckwiseWarning)
        warnings.showwarning = _warn_once()
        typed = "python -m checkwise" if Path(sys.argv[0]).name == "__main__.py" else "checkwise"
        result: Any = app(args=arguments, prog_name=typed, standalone_mode=False)
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
    if isinstance(error, click.ClickException):
        _complain(_of_select(error) or error.format_message())
        return 2
    if isinstance(error, click.Abort):  # click's word for an interrupt inside a command
        _complain("interrupted")
        stop = error.__cause__ or error.__context__
        return 128 + predict.stopped_by(
            stop if isinstance(stop, KeyboardInterrupt) else KeyboardInterrupt()
        )
    if isinstance(error, CheckwiseError):
        _complain(str(error))
        return 2
    if isinstance(error, OSError) and error.strerror:
        advice = store.disk_remedy(error, "check the path and its permissions")
        if error.filename:
            advice = f"{error.filename}: {advice}, or choose another place"
        _complain(f"{error.strerror.lower()}: {advice}.")
        return 2
    _complain(
        f"{type(error).__name__}: {error} — this is a fault in checkwise; "
        "run again with --debug and report what it prints."
    )
    return 1


def _of_select(error: click.ClickException) -> str:
    """Where an option belongs that stands on ``select`` alone."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    select: Any = app.get_command(error.ctx, "select")
    taker, name = error.ctx.info_name, error.option_name
    if taker not in ("deploy", "prune") or not any(name in one.opts for one in select.params):
        return ""
    return (
        f"{name} belongs to `checkwise select`: choose with it, `checkwise select PATH {name} … -o "
        f"choice.json`, then `checkwise {taker} choice.json`."
    )


def _complain(message: str) -> None:
    one_line = printable(" ".join(message.split()))
    print(f"checkwise: {one_line}", file=sys.stderr)
