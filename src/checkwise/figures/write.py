"""Every figure of a study as PDF and PNG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from checkwise.errors import InputError, MissingMetricError
from checkwise.figures import (
    algorithms,
    confident_errors,
    distance,
    kendall,
    learning_rate,
    reliability,
    risk_coverage,
    shared_errors,
    style,
    tolerance,
    trajectory,
)
from checkwise.records import RunKey
from checkwise.selection import select_many
from checkwise.store.logits import remedy
from checkwise.study.cohort import Cohort
from checkwise.study.heldout import Predictions, has_heldout, read_heldout
from checkwise.study.pool import Pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RULES = ("source-acc", "ac-nc")

Draw = Callable[[Pool, RunKey | None], "Figure"]


def example_predictions(
    pool: Pool, key: RunKey | None = None
) -> tuple[RunKey, dict[str, Predictions]]:
    """A run and the held-out logits of both rules' choices: the given run, or the first with them.

    Runs in which the rules choose different checkpoints come first; targets are not looked at.
    """
    runs = {run: pool.trajectory(run) for run in pool.keys}
    chosen = {rule: select_many(runs, rule) for rule in RULES}
    steps_of = {run: {rule: chosen[rule][run].step for rule in RULES} for run in pool.keys}
    differ_first = sorted(pool.keys, key=lambda run: len(set(steps_of[run].values())) == 1)
    for candidate in [key] if key is not None else differ_first:
        steps = steps_of[candidate]
        folder, domain = pool.folder(candidate), candidate.held_out[0]
        if all(has_heldout(folder, domain, step) for step in steps.values()):
            found = {rule: read_heldout(folder, domain, step) for rule, step in steps.items()}
            return candidate, found
    raise InputError(
        "Expected saved held-out logits at both choices of a run, but there are none: "
        f"{remedy(pool.folder(pool.keys[0]), heldout=True)}."
    )


def _of_one_run(draw: Callable[[dict[str, Predictions]], Figure]) -> Draw:
    """A figure of both choices in one run, which its title names."""

    def drawn(pool: Pool, key: RunKey | None) -> Figure:
        run, found = example_predictions(pool, key)
        figure = draw(found)
        n = len(found[RULES[0]].labels)
        figure.suptitle(f"{run}\none run, {n} examples of {run.held_out[0]}", fontsize=8)
        return figure

    return drawn


FIGURES: dict[str, Draw] = {
    "trajectory": lambda pool, key: trajectory.draw(trajectory.facts(pool, key)),
    "distance": lambda pool, _: distance.draw(distance.facts(pool)),
    "algorithms": lambda pool, _: algorithms.draw(algorithms.facts(pool)),
    "kendall": lambda pool, _: kendall.draw(kendall.facts(pool)),
    "tolerance": lambda pool, _: tolerance.draw(tolerance.facts(pool)),
    "learning-rate": lambda pool, _: learning_rate.draw(learning_rate.facts(pool)),
    "confident-errors": _of_one_run(
        lambda found: confident_errors.draw(confident_errors.facts(found))
    ),
    "shared-errors": _of_one_run(
        lambda found: shared_errors.draw(shared_errors.facts(*found.values()), RULES)
    ),
    "reliability": _of_one_run(lambda found: reliability.draw(reliability.facts(found))),
    "risk-coverage": _of_one_run(lambda found: risk_coverage.draw(risk_coverage.facts(found))),
}


def write_figures(
    cohorts: Cohort | Sequence[Cohort] | Pool,
    folder: Path,
    *,
    only: Sequence[str] = (),
    run: RunKey | None = None,
) -> Iterator[tuple[str, str | None]]:
    """Write figures one by one: each name, and why it could not be drawn if it could not.

    Args:
        cohorts: what to draw.
        folder: where PDF and PNG go.
        only: names from ``FIGURES``; all by default.
        run: the run that figures of a single run show; a typical one by default.
    """
    pool = Pool.of(cohorts)
    unknown = [name for name in only if name not in FIGURES]
    if unknown:
        raise InputError(f"Expected figures among {', '.join(FIGURES)}, but got {unknown[0]!r}.")
    for name in only or FIGURES:
        try:
            figure = FIGURES[name](pool, run)
        except (InputError, MissingMetricError) as error:
            if only:
                raise
            yield name, str(error)
            continue
        style.save(figure, folder, name)
        yield name, None
