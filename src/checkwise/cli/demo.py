"""``checkwise demo``: the shipped study, from training to the page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import compare, printing, sweep
from checkwise.cli.options import Workers

STUDY = "demo"
RULES = ("ac-nc", "ac-nll", "ac-mean")


def command(
    out: Annotated[Path, typer.Option(help="Where runs and page go.")] = Path("out/demo"),
    workers: Workers = None,
) -> int:
    """Train a small study on rotated digits, choose checkpoints, and test them on unseen angles.

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
    page = write_report(cohort, out / "report.html", rules=RULES)
    console.print(f"The page is {page.resolve()}")
    return 0
