"""``checkwise predict``: outputs of checkpoints, by a function of the user's."""

from __future__ import annotations

import shlex
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from checkwise.cli import printing
from checkwise.cli.executor_options import ExecutorOptions
from checkwise.cli.json_output import print_json
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import AsJson
from checkwise.cli.progress import counting
from checkwise.errors import CheckwiseError, CheckwiseWarning, InputError
from checkwise.predict.run import PredictResult, predict
from checkwise.records.held_out import looks_held_out
from checkwise.store.layout import is_record
from checkwise.text import counted


@dataclass(frozen=True)
class PredictOptions(ExecutorOptions):
    """One process is the default: an evaluation may need the whole memory of a GPU."""

    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes, with one thread each. [default: 1]")
    ] = None


@with_groups
def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of checkpoints.")],
    function: Annotated[
        str,
        typer.Option(help="file.py:function or module:function, called with path and domain."),
    ],
    domains: Annotated[str, typer.Option(help="Names of validation sets, as photo,art.")],
    output: Annotated[
        Path, typer.Option("--output", "--out", "-o", help="The predictions folder.")
    ],
    *,
    launching: PredictOptions,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN", help="Names of the checkpoints in DIR, as 'weights.{epoch}.keras'."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Discard outputs of another function or checkpoint."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Evaluate every checkpoint in DIR once per domain. Safe to interrupt and to repeat.

    FUNCTION(path, domain) returns logits and labels. `checkwise select` then reads the folder.
    """
    from checkwise.sweep.executors import get_executor
    from checkwise.sweep.predict_job import evaluate_with

    settings = launching.over()
    workers = settings.workers or 1
    executor = get_executor(settings)
    elsewhere = None if settings.kind == "local" else evaluate_with(executor, workers)
    printing.refuse_folder(output)
    if is_record(output):
        raise InputError(
            f"Expected another folder than {output}, which records a run.", code="outside"
        )
    names = [name.strip() for name in domains.split(",")]
    _warn_of_held_out(names)
    with counting("evaluating checkpoints") as progress:
        result = predict(
            folder,
            function,
            names,
            output,
            checkpoints=checkpoints,
            workers=workers,
            force=force,
            progress=progress,
            elsewhere=elsewhere,
        )
    if as_json:
        print_json("predict", _facts(result, output))
    else:
        _show(result, output)
    if result.interrupted:
        return 130
    if result.failures:
        first = result.failures[0]
        raise CheckwiseError(
            f"Expected outputs of {counted(len(result.steps), 'checkpoint')}, but "
            f"{len(result.failures)} failed; the first, step {first.step} on {first.domain!r}: "
            f"{str(first.error).rstrip('.')}. Correct it, or move the checkpoint away, and run "
            "the same command again: what is written stays."
        ) from first.error
    return 0


def _warn_of_held_out(names: list[str]) -> None:
    for name in filter(looks_held_out, names):
        warnings.warn(
            f"The domain {name!r} looks held out: `checkwise select` leaves it out of the choice "
            "unless you add --source.",
            CheckwiseWarning,
            stacklevel=2,
        )


def _show(result: PredictResult, output: Path) -> None:
    console = printing.console()
    asked = f"{counted(len(result.steps), 'checkpoint')} on {', '.join(result.domains)}"
    for failure in result.failures:
        console.print(f"step {failure.step}, {failure.domain} ({failure.path}): {failure.error}")
    earlier = result.outputs - result.written - result.missing
    console.print(
        f"{asked}: {counted(result.written, 'file')} written to {output}"
        + (f", {earlier} there before" if earlier else "")
        + (f", {result.missing} missing" if result.missing else "")
        + "."
    )
    if result.interrupted:
        console.print("Interrupted. The same command continues where it stopped.")
    elif not result.missing:
        console.print(f"Choose one of them: checkwise select {shlex.quote(str(output))}")


def _facts(result: PredictResult, output: Path) -> dict[str, Any]:
    return {
        "schema": 1,
        "predictions": str(output),
        "function": result.record.function,
        "sha256": result.record.sha256,
        "steps": list(result.steps),
        "domains": list(result.domains),
        "written": result.written,
        "missing": result.missing,
        "interrupted": result.interrupted,
        "failed": [
            {
                "step": failure.step,
                "path": failure.path,
                "domain": failure.domain,
                "error": str(failure.error),
            }
            for failure in result.failures
        ],
    }
