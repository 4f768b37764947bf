"""``checkwise predict``: outputs of checkpoints, by a function of the user's."""

from __future__ import annotations

import shlex
import warnings
from pathlib import Path

from checkwise.cli import printing
from checkwise.cli.command import argument, command, field, option, takes
from checkwise.cli.options import force_option, json_option, out_option
from checkwise.cli.places import check_folder
from checkwise.cli.printing import print_json
from checkwise.cli.progress import counting
from checkwise.cli.workers import AT_LEAST_ONE, WHERE, Launching
from checkwise.errors import CheckwiseError, CheckwiseWarning, InputError
from checkwise.predict import PredictResult, predict
from checkwise.records import looks_held_out
from checkwise.store import is_own_record
from checkwise.words import counted


class PredictOptions(Launching, under=WHERE):
    """One process is the default: an evaluation may need the whole memory of a GPU."""

    workers: int | None = field(
        "--workers N", "Processes, with one thread each. [default: 1]", type=AT_LEAST_ONE
    )


@command(
    "predict",
    examples=["checkwise predict ckpts --function eval.py:predict --domains val -o predictions"],
)
@argument("folder", metavar="DIR")
@option(
    "--function FILE.py:NAME",
    "Your function, or module:function; called with path and domain.",
    required=True,
)
@option("--domains NAMES", "Your validation sets, as photo,art.", required=True)
@option("--checkpoints PATTERN", "Names of the checkpoints, as 'weights.{epoch}.keras'.")
@takes(PredictOptions, "launching")
@out_option.but(required=True, help="The predictions folder.")
@force_option.but(help="Discard outputs of another function or checkpoint.")
@json_option
def predict_command(
    folder: Path,
    function: str,
    domains: str,
    checkpoints: str | None,
    launching: PredictOptions,
    out: Path,
    force: bool,
    as_json: bool,
) -> int:
    """Evaluate every checkpoint in DIR once per domain. Safe to interrupt and to repeat.

    FUNCTION(path, domain) returns logits and labels. `checkwise select` then reads the folder.
    """
    from checkwise.study.sweep import evaluate_with, get_executor

    settings = launching.over()
    workers = settings.workers or 1
    executor = get_executor(settings)
    elsewhere = None if settings.kind == "local" else evaluate_with(executor, workers)
    check_folder(out)
    if is_own_record(out):
        raise InputError(
            f"Expected another folder than {out}, which records a run.", code="outside"
        )
    names = [name.strip() for name in domains.split(",")]
    for name in filter(looks_held_out, names):
        warnings.warn(
            f"The domain {name!r} looks held out: `checkwise select` leaves it out of the choice "
            "unless you add --source.",
            CheckwiseWarning,
            stacklevel=2,
        )
    with counting("evaluating checkpoints") as progress:
        result = predict(
            folder,
            function,
            names,
            out,
            checkpoints=checkpoints,
            workers=workers,
            force=force,
            progress=progress,
            elsewhere=elsewhere,
        )
    if as_json:
        failed = [
            {"step": one.step, "path": one.path, "domain": one.domain, "error": str(one.error)}
            for one in result.failures
        ]
        facts = {
            "predictions": str(out),
            "function": result.record.function,
            "sha256": result.record.sha256,
            "steps": list(result.steps),
            "domains": list(result.domains),
            "written": result.written,
            "missing": result.missing,
            "interrupted": bool(result.interrupted),
            "failed": failed,
        }
        print_json("predict", facts)
    else:
        _show(result, out)
    if result.interrupted:
        return 128 + result.interrupted
    if result.failures:
        first = result.failures[0]
        raise CheckwiseError(
            f"Expected outputs of {counted(len(result.steps), 'checkpoint')}, but "
            f"{len(result.failures)} failed; the first, step {first.step} on {first.domain!r}: "
            f"{str(first.error).rstrip('.')}. Correct it, or move the checkpoint away, and run "
            "the same command again: what is written stays."
        ) from first.error
    return 0


def _show(result: PredictResult, output: Path) -> None:
    earlier = result.outputs - result.written - result.missing
    last = []
    if result.interrupted:
        last = ["Interrupted. The same command continues where it stopped."]
    elif not result.missing:
        last = [f"Choose one of them: checkwise select {shlex.quote(str(output))}"]
    printing.say(
        *(f"step {one.step}, {one.domain} ({one.path}): {one.error}" for one in result.failures),
        f"{counted(len(result.steps), 'checkpoint')} on {', '.join(result.domains)}: "
        f"{counted(result.written, 'file')} written to {output}"
        + (f", {earlier} there before" if earlier else "")
        + (f", {result.missing} missing" if result.missing else "")
        + ".",
        *last,
    )
