"""Every figure of a study as PDF and PNG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkwise.errors import InputError, MissingMetricError
from checkwise.records import RunKey
from checkwise.store import read_run
from checkwise.study import Cohort, Method, Pool, Predictions, Rehearsal, read_heldout
from checkwise.study.figures import (
    by_algorithm,
    by_setting,
    distance,
    occlusion,
    one_run,
    style,
    trajectory,
)
from checkwise.study.folder import has_sealed_logits, open_cohort

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Shown:
    """What is drawn: runs with the rule and reference they are about, and one run and example."""

    pool: Pool  # the runs
    run: RunKey | None = None  # the run that figures of a single run show; a typical one by default
    example: int | None = None  # the image of its held-out domain that occlusion covers, by number
    # where data sets lie, for figures that compute from weights
    roots: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Method, Method]:
        return self.pool.reference, self.pool.rule


Draw = Callable[[Shown], "Figure"]


def chosen_steps(shown: Shown) -> dict[RunKey, dict[str, int]]:
    """The steps that reference and rule choose; runs in which these differ come first."""
    pool = shown.pool
    chosen = {row.label: pool.selections(row) for row in shown.rows}
    keys = [shown.run] if shown.run is not None else list(pool.keys)
    steps = {key: {name: by_run[key].step for name, by_run in chosen.items()} for key in keys}
    return dict(sorted(steps.items(), key=lambda item: len(set(item[1].values())) == 1))


def example_predictions(shown: Shown) -> tuple[RunKey, dict[str, Predictions]]:
    """A run and the held-out logits of both choices: the run that was named, or the first."""
    for key, steps in chosen_steps(shown).items():
        folder, domain = shown.pool.folder(key), key.held_out[0]
        if all(has_sealed_logits(folder, domain, step) for step in steps.values()):
            return key, {name: read_heldout(folder, domain, step) for name, step in steps.items()}
    raise InputError(
        "Expected saved held-out logits at both choices of a run, but there are none: "
        f"{read_run(shown.pool.folder(shown.pool.keys[0])).remedy(heldout=True)}.",
        code="missing",
    )


def _of_one_run(draw: Callable[[dict[str, Predictions]], Figure]) -> Draw:
    def drawn(shown: Shown) -> Figure:
        run, predictions = example_predictions(shown)
        figure = draw(predictions)
        n = len(next(iter(predictions.values())).labels)
        figure.suptitle(f"{run}\none run, {n} examples of {run.held_out[0]}", fontsize=8)
        return figure

    return drawn


def _occlusion(shown: Shown) -> Figure:
    run, steps = next(iter(chosen_steps(shown).items()))
    cohort = open_cohort(shown.pool.folder(run).absolute().parents[1])
    case = occlusion.image_case(cohort, run, steps, shown.roots, row=shown.example)
    figure = occlusion.draw_case(case, occlusion.case_facts(case))
    how = "the example that they differ most about" if shown.example is None else "one example"
    figure.suptitle(f"{run}\n{how}: image {case.row} of {case.domain}", fontsize=8)
    return figure


def _over_runs(facts: Callable[[Pool], Any], draw: Callable[[Any], Figure]) -> Draw:
    return lambda shown: draw(facts(shown.pool))


FIGURES: dict[str, Draw] = {
    "trajectory": lambda shown: trajectory.draw(trajectory.facts(shown.pool, shown.run)),
    "distance": _over_runs(distance.distance_points, distance.draw),
    "algorithms": _over_runs(by_algorithm.algorithm_changes, by_algorithm.draw_changes),
    "kendall": _over_runs(by_algorithm.rank_agreements, by_algorithm.draw_rank_agreements),
    "tolerance": _over_runs(by_setting.tolerance_facts, by_setting.draw_tolerance),
    "learning-rate": _over_runs(by_setting.learning_rate_facts, by_setting.draw_learning_rate),
    "confident-errors": _of_one_run(
        lambda both: one_run.draw_confident_errors(one_run.count_confident_errors(both))
    ),
    "shared-errors": _of_one_run(
        lambda both: one_run.draw_shared_errors(
            one_run.count_shared_errors(*both.values()), list(both)
        )
    ),
    "reliability": _of_one_run(
        lambda both: one_run.draw_reliability(one_run.reliability_diagrams(both))
    ),
    "risk-coverage": _of_one_run(
        lambda both: one_run.draw_risk_coverage(one_run.risk_curves(both))
    ),
    "occlusion": _occlusion,
}
"""What draws each figure, by its name."""


# They look for what they need before they open it.
OF_ONE_RUN = ("confident-errors", "shared-errors", "reliability", "risk-coverage", "occlusion")


def write_figures(
    cohorts: Cohort | Sequence[Cohort] | Pool,
    folder: Path,
    *,
    only: Sequence[str] = (),
    run: RunKey | None = None,
    example: int | None = None,
    roots: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, str | None]]:
    """Write figures one by one: each name, and why it could not be drawn if it could not."""
    shown = Shown(Pool.of(cohorts), run, example, dict(roots or {}))
    unknown = [name for name in only if name not in FIGURES]
    if unknown:
        raise InputError(
            f"Expected figures among {', '.join(FIGURES)}, but got {unknown[0]!r}.", code="unknown"
        )
    if only:
        rehearsal = replace(shown, pool=Rehearsal.of_pool(shown.pool))
        for name in only:
            if name not in OF_ONE_RUN:
                FIGURES[name](rehearsal)  # refuses before held-out results are opened
    for name in only or FIGURES:
        try:
            figure = FIGURES[name](shown)
        except (InputError, MissingMetricError) as error:
            if only:
                raise
            yield name, str(error)
            continue
        style.save(figure, folder, name)
        yield name, None
