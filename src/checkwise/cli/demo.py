"""``checkwise demo``: the shipped study, from training to the page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from checkwise.cli import compare, printing, sweep
from checkwise.cli.options import Workers

if TYPE_CHECKING:
    from checkwise.study import Cohort

STUDY = "demo"
RULES = ("ac-nc", "ac-nll", "ac-mean")


def command(
    out: Annotated[Path, typer.Option(help="Where runs and page go.")] = Path("out/demo"),
    workers: Workers = None,
) -> int:
    """Train on rotated digits, choose, average, calibrate, deploy, and test on unseen angles.

    Finished runs are used again, so a second call only compares.
    """
    from checkwise.extras import require
    from checkwise.page import sentences, write_report
    from checkwise.study import Cohort

    require("torch", "scipy")
    console = printing.console()
    console.print(
        "Training on rotated digits, with one rotation held out of every run. source-acc then "
        "takes the checkpoint with the best validation accuracy; ac-nc takes, among those within "
        "0.5 points of it, the one with the best NLL and calibration."
    )
    code = sweep.command(study=STUDY, out=out, workers=workers)
    if code:
        return code
    cohort = Cohort.open(out)
    rows = cohort.contrasts(RULES)
    console.print()
    compare.present(cohort, rows)
    leading = [row for row in rows if row.rule == RULES[0]]
    console.print()
    console.print(f"On rotations that training never saw: {sentences.answer(leading)}")
    console.print(" ".join([sentences.spread(leading), *sentences.by_unit(leading)]))
    _stages(cohort)
    model = _deployed(out, cohort)
    page = write_report(cohort, out / "report.html", rules=RULES, stages=True)
    console.print(f"A model to use is {model.resolve()} (read card.md in it).")
    console.print(f"The page is {page.resolve()}")
    return 0


def _stages(cohort: Cohort) -> None:
    """Average and calibrate in every run, and show the four stages side by side."""
    from checkwise.cli.progress import counting
    from checkwise.page.stages import MADE, METRICS, STAGES
    from checkwise.study.methods import method, recipe_of
    from checkwise.weights.derive import derive

    for name in MADE:
        with counting(name) as watch:
            derive(cohort.path, name, recipe_of(name), watch=watch)
    console = printing.console()
    console.print()
    console.print(
        "From a choice to a model, on the same rotations: choose one checkpoint, average the "
        "probabilities of five near the best, calibrate the choice, or deploy the average "
        "calibrated."
    )
    rows = [method(stage.row).called(stage.title) for stage in STAGES]
    compare.present(cohort, cohort.contrasts(rows, metrics=METRICS))


def _deployed(out: Path, cohort: Cohort) -> Path:
    """Deploy one run: the first, so that no result decided which."""
    from checkwise.weights.deploy import deploy

    first = min(cohort.usable)
    place = out.with_name(f"{out.name}-model")
    deploy(cohort.runs.folder(first), place, average="probabilities", members=5, force=True)
    printing.console().print(
        f"\nDeployed {first}: checkwise deploy {shlex.quote(str(cohort.runs.folder(first)))} "
        f"--average probabilities --members 5 -o {shlex.quote(str(place))}"
    )
    return place
