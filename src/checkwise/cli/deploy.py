"""``checkwise deploy``: a folder with the chosen or averaged model, calibrated, and a card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkwise.cli import places, printing
from checkwise.cli.command import argument, command, option
from checkwise.cli.handover import Taken, again_option, take
from checkwise.cli.options import data_option, force_option, json_option, out_option, plugin_option
from checkwise.cli.printing import print_json
from checkwise.errors import InputError
from checkwise.selection import MEMBERS_DELTA_PP
from checkwise.store import GROUPS, write_text
from checkwise.words import counted

if TYPE_CHECKING:
    from checkwise.deployed import Asked


@command(
    "deploy",
    examples=[
        "checkwise deploy out -o model",
        "checkwise select out --delta-pp 1 -o choice.json",
        "checkwise deploy choice.json --average 5 -o model",
        "checkwise deploy predictions --calibrator-only -o calibrator.json",
    ],
)
@argument("path", metavar="PATH|choice.json")
@option(
    "--for new|same",
    "Where it is used: new places, never more confident than as trained, or data like "
    "validation, one temperature as it fits. [default: new]",
    name="for_",
)
@option(
    "--average K|all|weights",
    "Mean probabilities of K, or all, checkpoints near the best; or one model with the mean "
    "of their weights. [default: one checkpoint]",
)
@option(
    "--within-pp POINTS",
    f"How far below the best accuracy an averaged checkpoint may be. [default: {MEMBERS_DELTA_PP}]",
)
@option("--calibrator NAME|none", "Another way to calibrate, instead of --for.")
@option("--calibrator-only", "Write the calibrator alone, to FILE.json.")
@data_option
@again_option
@plugin_option
@out_option.but(required=True, help="The new folder, such as model.")
@force_option
@json_option
def deploy_command(
    path: Path,
    for_: str | None,
    average: str | None,
    within_pp: str | None,
    calibrator: str | None,
    calibrator_only: bool,
    data: tuple[str, ...],
    again: bool,
    plugin: tuple[str, ...],
    out: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Write a folder to deploy: weights, calibrator, a card that says why, digests.

    PATH is a run, a predictions folder or a trainer's folder, with weights. The checkpoint is
    chosen as `checkwise select` does; to choose otherwise, give its choice.json.
    `checkwise.deployed.load` reads the folder. To copy a checkpoint as it is: select --copy-to.
    """
    from checkwise.deployed import Asked, check_out, deploy_run
    from checkwise.study.sweep import read_roots

    how, members = _average(average)
    asked = Asked(how, members, calibrator, for_)  # type: ignore[arg-type]
    if calibrator_only:
        places.check_file(out, path, kinds=(".json",), replace=force)
    else:
        check_out(out, replace=force)
    if within_pp is not None and average is None:
        raise InputError("Expected --average with --within-pp: add it.", code="missing")
    taken = take(path, plugin, again=again)
    if taken.reading.validation == GROUPS:
        raise InputError(
            f"Expected a choice by validation examples, to which a calibrator is fitted, but "
            f"{path} was made with --validation groups: leave that out of `checkwise select`.",
            code="unsupported",
        )
    roots = read_roots(data)
    if calibrator_only:
        _calibrator_only(taken, out, asked, roots, as_json=as_json)
        return
    choice = taken.choice
    if within_pp is not None:
        choice = replace(choice, params={**choice.params, "delta_pp": within_pp})
    deployment = deploy_run(
        taken.path, taken.run, out, asked, choice=choice, roots=roots, force=force
    )
    info = deployment.info
    if as_json:
        facts = {name: value for name, value in info.items() if name != "schema"}
        print_json("deploy", {"path": str(out), **facts})
        return
    steps = ", ".join(map(str, info["steps"]))
    what = {
        "single": f"step {steps}",
        "weights-mean": f"the mean weights of {counted(len(info['steps']), 'step')}: {steps}",
        "ensemble": f"{counted(len(info['steps']), 'member')}: steps {steps}",
    }[info["kind"]]
    calibrated = [info["calibration"]] if info["calibrator"] is not None else []  # a note says why
    printing.say(
        f"Deployed {what}.",
        *calibrated,
        *(f"note: {note}" for note in deployment.notes),
        f"{out} is complete; {out / 'card.md'} says what it is and what it is not.",
    )


def _average(text: str | None) -> tuple[str | None, int | str | None]:
    """What is averaged, and over how many."""
    if text is None or text == "weights":
        return text, None
    if text == "all":
        return "probabilities", text
    if not text.isascii() or not text.isdigit() or int(text[:9]) < 1:
        raise InputError(
            f"Expected --average as a number from 1, all or weights, but got {text!r:.40}."
        )
    return "probabilities", int(text[:9])


def _calibrator_only(
    taken: Taken, out: Path, asked: Asked, roots: Mapping[str, str], *, as_json: bool
) -> None:
    from checkwise.deployed import calibrate_run

    done = calibrate_run(taken.path, taken.run, asked, choice=taken.choice, roots=roots)
    write_text(out, json.dumps(done.record, indent=2, allow_nan=False) + "\n")
    calibration = done.calibration
    if as_json:
        record: dict[str, Any] = {n: value for n, value in done.record.items() if n != "schema"}
        print_json("deploy", {"path": str(out), **record, "calibration": calibration.done})
        return
    printing.say(
        f"Step {done.selection.step}. {calibration.done}",
        *calibration.elsewhere,
        *(f"note: {note}" for note in calibration.notes),
        f"{out} has the calibrator: `checkwise.calibrators.from_dict` applies it.",
    )
