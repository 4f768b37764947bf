"""Entry point: one line and exit code 2 for anything a user can put right."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Annotated, Any

import typer

from checkwise import __version__
from checkwise.cli import (
    calibrate,
    compare,
    demo,
    derive,
    export,
    figures,
    lodo,
    metrics,
    pack,
    preregister,
    report,
    rules,
    select,
    status,
    sweep,
    tables,
    train,
    verify,
)
from checkwise.errors import CheckwiseError, CheckwiseWarning

# typer carries its own copy of click or depends on it, by version; this finds either.
_UsageError: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

app = typer.Typer(
    name="checkwise",
    help="Pick the training checkpoint whose probabilities you can trust.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo.command)
app.command("select")(select.command)
app.command("export")(export.command)
app.command("rules")(rules.command)
app.command("metrics")(metrics.command)
app.command("train")(train.command)
app.command("sweep")(sweep.command)
app.command("status")(status.command)
app.command("verify")(verify.command)
app.command("pack")(pack.pack)
app.command("unpack")(pack.unpack)
app.command("preregister")(preregister.command)
app.command("compare")(compare.command)
app.command("tables")(tables.command)
app.command("figures")(figures.command)
app.command("report")(report.command)
app.command("derive")(derive.command)
app.command("swad")(derive.swad)
app.command("calibrate")(calibrate.command)
app.command("lodo")(lodo.command)


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
        code = _run(arguments or ["--help"])
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
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("once", CheckwiseWarning)
        warnings.showwarning = _warn
        result: Any = app(args=arguments, standalone_mode=False)
    return result if isinstance(result, int) else 0


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    _complain(f"warning: {message}")


def _explain(error: Exception) -> int:
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
        where = f" {error.filename}" if error.filename else ""
        _complain(f"{error.strerror.lower()}:{where}")
        return 2
    _complain(
        f"{type(error).__name__}: {error} — this is a fault in checkwise; "
        "run again with --debug and report what it prints."
    )
    return 1


def _usage(error: Any) -> str:
    """What typer says; of one argument too many, in the words of the other messages."""
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
    one_line = " ".join(message.split())
    print(f"checkwise: {one_line}", file=sys.stderr)
