"""``checkwise demo``: the shipped study, from training to the page."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from checkwise.cli import compare, printing
from checkwise.cli.command import command, option
from checkwise.cli.options import open_option, out_option
from checkwise.cli.progress import counting
from checkwise.cli.run import report, run_study
from checkwise.cli.workers import AT_LEAST_ONE
from checkwise.errors import InputError, require

if TYPE_CHECKING:
    from checkwise.records import RunKey
    from checkwise.study import Cohort

STUDY = "demo"
QUICK = "demo-quick"
RULES = ("ac-nc", "ac-nll", "ac-mean")


@command("demo")
@option("--quick", "Three runs in under a minute: choose and compare only.")
@option("--workers N", "How many workers. [default: one per core]", type=AT_LEAST_ONE)
@out_option.but(help=f"Where runs and page go. [default: out/{STUDY}, or out/{QUICK}]")
@open_option
def demo_command(quick: bool, workers: int | None, out: Path | None, show: bool) -> int:
    """Train on rotated digits, choose, average, calibrate, deploy, and test on unseen angles.

    Finished runs are used again, so a second call only compares.
    """
    from checkwise.study import Cohort
    from checkwise.study.report import write_report
    from checkwise.study.sweep import ExecutorSettings, read_study

    require("torch", "scipy")
    study = QUICK if quick else STUDY
    out = out or Path("out") / study
    place = None if quick else _model_place(out)
    console = printing.console()
    console.print(
        "Training on rotated digits, with one rotation held out of every run. source-acc then "
        "takes the checkpoint with the best validation accuracy; ac-nc takes, among those within "
        "0.5 points of it, the one with the best NLL and calibration."
    )
    code = report(run_study(read_study(study), out, {}, ExecutorSettings(workers=workers)), out)
    if code:
        return code
    cohort = Cohort.open(out)
    _one_run(cohort)
    if quick:
        rows = cohort.contrasts(RULES[:1])
        console.print(f"\nOn rotations that training never saw, against {rows[0].reference}:\n")
        compare.present(cohort, rows)
        printing.say(
            "\nThree short runs show how it works, not how much it helps: `checkwise demo` trains "
            "thirty, then averages, calibrates and deploys (4 minutes)."
        )
    else:
        _stages(cohort)
    page = write_report(cohort, out / "report.html", rules=RULES, stages=not quick)
    if place is not None:
        _deploy(cohort, place)
        console.print(f"A model to use is {place.resolve()} (read card.md in it).")
    else:
        folder = _folder(cohort, min(cohort.usable))
        console.print(f"A model of the first run: checkwise deploy {folder} -o model")
    console.print(f"The page is {page.resolve()}")
    console.print("On your own run: checkwise select LOG, the log or folder of any training.")
    if show:
        printing.open_page(page)
    return 0


def _one_run(cohort: Cohort) -> None:
    """What `checkwise select` shows of the first run, so that no result decided which."""
    from checkwise.selection import select

    first = min(cohort.usable)
    chosen = select(cohort.usable[first], RULES[0])
    folder = _folder(cohort, first)
    printing.say(
        f"\nOne run explained, the first; `checkwise select {folder}` says the same:\n",
        chosen.explain(),
    )


def _folder(cohort: Cohort, key: RunKey) -> str:
    return shlex.quote(str(cohort.runs.folder(key)))


def _stages(cohort: Cohort) -> None:
    """Average and calibrate in every run, and show the four stages side by side."""
    from checkwise.selection import REFERENCE
    from checkwise.study import method, recipe_of
    from checkwise.study.baselines import OpenRuns, derive
    from checkwise.study.report import MADE, METRICS, STAGES

    opening = OpenRuns()
    for name in MADE:
        with counting(name) as watch:
            derive(cohort.path, name, recipe_of(name), opening=opening, watch=watch)
    printing.say(
        f"\nFrom a choice to a model, on rotations that training never saw, against {REFERENCE}: "
        "choose one checkpoint, average the probabilities of five near the best, calibrate the "
        "choice, or deploy the average calibrated.\n"
    )
    rows = [method(stage.row).called(stage.title) for stage in STAGES]
    compare.present(cohort, cohort.contrasts(rows, metrics=METRICS))


def _model_place(out: Path) -> Path:
    """Where the model goes, beside the runs; refused before the training if that is taken."""
    from checkwise.deployed import check_out

    runs = Path(os.path.abspath(out)) if out.name in ("", "..") else out
    place = runs.with_name(f"{runs.name}-model")
    try:
        check_out(place, replace=True)
    except InputError as error:
        raise InputError(
            f"Expected nothing, or an earlier model, at {place}, where the demo deploys its model, "
            "but something else is there: name another folder with --out, or move that away.",
            code="exists",
        ) from error
    return place


def _deploy(cohort: Cohort, place: Path) -> None:
    """Deploy one run: the first, so that no result decided which."""
    from checkwise.deployed import deploy

    first = min(cohort.usable)
    deploy(cohort.runs.folder(first), place, average="probabilities", members=5, force=True)
    printing.console().print(
        f"\nDeployed {first}: checkwise deploy {_folder(cohort, first)} "
        f"--average 5 -o {shlex.quote(str(place))}"
    )
