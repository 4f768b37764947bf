"""Metrics that a run does not carry but whose logits it has: computed when a rule asks for them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, TypeVar

import numpy as np

from checkwise.errors import CheckwiseError, InputError, MissingMetricError
from checkwise.metrics import METRICS, get_metric, is_metric
from checkwise.records import Trajectory
from checkwise.selection.choice import SETTINGS, Choice, in_words, not_usual
from checkwise.selection.columns import Columns
from checkwise.selection.constrained import Ranking, choose
from checkwise.selection.constraint import ACCURACY, direction_of
from checkwise.selection.defaults import (
    DEFAULT_RULE,
    REFERENCE,
    REMEDY,
    RuleWithReason,
    rule_of,
    unsplit,
    usable_rules,
)
from checkwise.selection.guard import WITHIN_PP, Guard, guards, order_of, saturated
from checkwise.selection.result import Selection
from checkwise.selection.rulebook import Rule, get_rule
from checkwise.selection.wording import AS_SET, called, relative
from checkwise.words import listed


def with_measured(run: Trajectory, names: Iterable[str]) -> Trajectory:
    """The run with those of the metrics that it lacks, where it has logits; else the run itself."""
    absent = [name for name in names if name not in run.metrics and is_metric(name)]
    if not absent or run.examples is None or not run.examples.has_logits:
        return run
    found = {name: np.full((len(run), len(run.domains)), np.nan) for name in absent}
    for t in np.flatnonzero(~run.diverged).tolist():
        saved = run.examples.logits(int(run.steps[t]))
        for e, domain in enumerate(run.domains):
            logits, labels = saved[domain]
            for name in absent:
                found[name][t, e] = get_metric(name)(logits=logits, labels=labels)
    return replace(run, values={**run.values, **found})


Key = TypeVar("Key", bound=Hashable)


def select(
    trajectory: Trajectory, rule: str | Rule | Choice | None = None, **settings: Any
) -> Selection:
    """Choose one checkpoint of a run.

    Args:
        trajectory: the run.
        rule: a name from :func:`rules`, or a whole :class:`Choice`; without one ac-nc, or the best
            rule that the metrics of the run allow (``reason`` of the selection then says why).
        settings: parameters of the rule, as ``delta_pp``, and what a :class:`Choice` holds beside
            them: ``weights``, ``worst_domain``, ``directions``, ``guard``, ``tolerance``,
            ``alpha``.

    Example:
        >>> run = Trajectory(steps=[100, 200, 300], domains=["val"],
        ...                  values={"accuracy": [[0.900], [0.895], [0.80]],
        ...                          "nll": [[0.7], [0.4], [0.3]],
        ...                          "cwece": [[0.02], [0.01], [0.01]]})
        >>> select(run).step, select(run, "source-acc").step, select(run, "pure-nll").step
        (200, 100, 300)
        >>> select(run, "ac", constraint="nll", delta="50%", objectives=["accuracy"]).step
        200
    """
    _check_trajectory(trajectory)
    choice = Choice.of(rule, **settings)
    if choice.rule is None and trajectory.chosen_by:
        return _as_trained(trajectory, choice)
    asked = rule_of(trajectory, choice)
    trajectory = with_measured(trajectory, asked.rule.looks_at(asked.params))
    check_needs(trajectory, asked, choice)
    return _chosen([trajectory], Columns.of(trajectory, choice), asked, choice)[0]


def select_many(
    runs: Mapping[Key, Trajectory], rule: str | Rule | Choice | None = None, **settings: Any
) -> dict[Key, Selection]:
    """Choose one checkpoint of every run: :func:`select` for each, computed together.

    Example:
        >>> run = Trajectory(steps=[1, 2], domains=["val"], values={"accuracy": [[0.5], [0.6]]})
        >>> {key: chosen.step for key, chosen in select_many({"a": run}, "source-acc").items()}
        {'a': 2}
    """
    if not isinstance(runs, Mapping):
        raise InputError(
            f"Expected runs by name, but got {type(runs).__name__}: pass a dict of trajectories "
            "(`load_runs` returns one), or use `select` for a single run."
        )
    choice = Choice.of(rule, **settings)
    groups: dict[tuple[str, ...], tuple[RuleWithReason, dict[Key, Trajectory]]] = {}
    chosen: dict[Key, Selection] = {}
    for key, run in runs.items():
        _check_trajectory(run)
        if choice.rule is None and run.chosen_by:
            chosen[key] = _named(key, select, run, choice)
            continue
        asked = _named(key, rule_of, run, choice)
        alike_by = (asked.rule.name, asked.reason, repr(asked.params))
        _, alike = groups.setdefault(alike_by, (asked, {}))
        alike[key] = run
    for asked, alike in groups.values():
        chosen |= _select_all(alike, asked, choice)
    return {key: chosen[key] for key in runs}


def _as_trained(run: Trajectory, choice: Choice) -> Selection:
    """The choice under the rule and settings that the run was trained with.

    What the caller sets goes before them.
    """
    own, told = dict(run.chosen_by), choice.told
    rule = str(own.pop("rule", None) or DEFAULT_RULE)
    strange = [n for n in own if n not in SETTINGS and not get_rule(rule).accepts(n)]
    if strange:
        raise InputError(
            f"Expected settings that {rule} takes with the run, but got {strange[0]!r}: name the "
            "rule with --rule."
        )
    if told.get("tolerance") not in (None, own.get("tolerance")):
        own.pop("alpha", None)
    for one, other in (("delta", "delta_pp"), ("delta_pp", "delta")):
        if one in told:
            own.pop(other, None)
    try:
        chosen = select(run, Choice.of(rule, **{**own, **told}))
    except CheckwiseError as error:
        named = f"Rule {rule}, {AS_SET}: {in_words(run.chosen_by)}; name another with --rule."
        error.args = (f"{error} ({named})",)
        raise
    return replace(chosen, reason=chosen.reason or _as_set(run, chosen))


def _as_set(run: Trajectory, chosen: Selection) -> str:
    """``as the callback was set: delta_pp 1``, and what the caller set otherwise."""
    before, now = not_usual(run.chosen_by), not_usual(chosen.settings)
    changed = {
        name: now.get(name) for name in {**before, **now} if before.get(name) != now.get(name)
    }
    kept = {name: value for name, value in before.items() if name not in changed}
    words = in_words({"rule": chosen.rule, **kept})
    said = f"{AS_SET}: {words}" if words else AS_SET
    return f"{said}, but for {listed(sorted(changed))}" if changed else said


def guarded(chosen: Selection, *, averaged: bool = False) -> Selection:
    """The choice, or the earliest near-best checkpoint where validation is saturated.

    ``averaged``: for an average, which takes every checkpoint near the best whatever the rule.
    """
    if chosen.guard_acted:
        return chosen
    table = chosen.columns
    asked = averaged or guards(chosen.rule_used, chosen.params)
    if not asked or ACCURACY not in table or chosen.constraint != ACCURACY or not saturated(table):
        return replace(chosen, guard=Guard(acted=False, without=chosen.step))
    near = table.within_points(WITHIN_PP)
    return replace(
        chosen,
        index=int(np.argmax(near)),
        ranking=Ranking(table["step"].astype(np.float64), near),
        guard=Guard(acted=True, without=None if averaged else chosen.step),
    )


def _check_trajectory(run: object) -> None:
    if isinstance(run, Trajectory):
        return
    several = "; for several runs use `select_many`" if isinstance(run, dict) else ""
    raise InputError(
        f"Expected a Trajectory, but got {type(run).__name__}: read a file or folder with "
        f"`checkwise.load`, and a table with `Trajectory.from_frame`{several}."
    )


def _select_all(
    runs: Mapping[Key, Trajectory], asked: RuleWithReason, choice: Choice
) -> dict[Key, Selection]:
    """One rule on every run: runs that can be stacked are ranked together."""
    if not asked.rule.stackable:
        return {key: _named(key, select, run, choice) for key, run in runs.items()}
    needs = asked.rule.looks_at(asked.params)
    runs = {key: with_measured(run, needs) for key, run in runs.items()}
    chosen: dict[Key, Selection] = {}
    for keys in _alike(runs):
        group = [runs[key] for key in keys]
        for key, run in zip(keys, group, strict=True):
            _named(key, check_needs, run, asked, choice)
            if not choice.kind.fixed:
                from checkwise.selection.paired import examples_for

                _named(key, examples_for, run, choice.kind)
        table = Columns.stack(group, choice)
        chosen |= zip(keys, _chosen(group, table, asked, choice), strict=True)
    return chosen


def _chosen(
    runs: Sequence[Trajectory], table: Columns, asked: RuleWithReason, choice: Choice
) -> list[Selection]:
    """The choice in every run of a table, which has one run or a stack of them."""
    rule, params = asked.rule, asked.params
    ranking = rule.ranking(table, params)
    indices = choose(ranking, order_of(table, rule.constraint(params)), ties=rule.ties(params))
    rows = [ranking] if table["step"].ndim == 1 else [ranking.row(r) for r in range(len(runs))]
    found = [
        Selection(run, choice, rule, params, int(index), row, asked.reason)
        for run, index, row in zip(runs, np.atleast_1d(indices), rows, strict=True)
    ]
    return [guarded(one) for one in found] if choice.guard else found


def check_needs(trajectory: Trajectory, asked: RuleWithReason, choice: Choice) -> None:
    """Refuse a rule whose scores the run does not carry, and say which rules work."""
    rule, params = asked.rule, asked.params
    objectives = params.get("objectives", ())
    if isinstance(objectives, str):
        raise InputError(f"Expected objectives as a list of metrics, but got {objectives!r}.")
    needs = rule.looks_at(params)
    absent = [name for name in needs if name not in trajectory.metrics]
    if absent == [ACCURACY] and not rule.needs_accuracy:
        raise MissingMetricError(
            "Expected accuracy to break ties by, but this run carries only "
            f"{', '.join(trajectory.metrics)}: break them by the earliest or latest step."
        )
    if absent:
        working = ", ".join(usable_rules(trajectory.metrics))
        raise MissingMetricError(
            f"Rule {rule.name} needs {', '.join(absent)}, but this run carries only "
            f"{', '.join(trajectory.metrics)}. {_what_works(working, absent, trajectory)}"
        )
    for name in choice.directions:
        if name not in trajectory.metrics:
            raise InputError(
                f"Expected the direction of a score of this run, but it carries "
                f"{', '.join(trajectory.metrics)} and no {name}: check the name.",
                code="unknown",
            )
    pooled = [name for name in needs if name in unsplit(trajectory, choice)]
    if pooled:
        raise MissingMetricError(
            f"This run carries {', '.join(pooled)} only as an equal mean over domains: other "
            "weights or the worst domain need it per domain."
        )


def _what_works(working: str, absent: list[str], run: Trajectory) -> str:
    rules = f"Rules that work: {working}. " if working else ""
    if run.columns and not any(name in METRICS for name in absent):
        return f"{rules}If the log has the rest, read it with metrics={absent!r}."
    if absent == [ACCURACY]:
        return (
            f"{rules}For another score in its place, name it, as in --constraint f1 --delta 0.5%."
        )
    return f"{rules}To get the rest, {REMEDY}."


def _alike(runs: Mapping[Key, Trajectory]) -> list[list[Key]]:
    """Keys grouped by what can be stacked: equally many checkpoints, the same metrics."""
    groups: dict[tuple[int, tuple[str, ...]], list[Key]] = {}
    for key, run in runs.items():
        groups.setdefault((len(run), tuple(sorted(run.metrics))), []).append(key)
    return list(groups.values())


def _named(key: object, call: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a check for one run of many; a refusal says which run."""
    try:
        return call(*args, **kwargs)
    except MissingMetricError as error:
        raise MissingMetricError(f"Run {key}: {error}") from None
    except CheckwiseError as error:
        raise InputError(f"Run {key}: {error}", code=error.code) from None


def best_run(chosen: Sequence[Selection]) -> int | None:
    """The run whose choice the same rule chooses among all choices; None where none can be.

    Runs are compared where one rule chose in them on the same validation sets. Where the guard
    chose, or the rule looks at accuracy and time alone, the most accurate run is the best; of
    equals the first.
    """
    first = chosen[0]
    alike = {(one.rule, repr(one.params), one.trajectory.domains) for one in chosen}
    candidates = _candidates(chosen) if len(alike) == 1 else None
    if candidates is None or (first.choice.weights == "sample" and candidates.counts is None):
        return None
    rule, params = first.rule_used, dict(first.params)
    if not first.looked_at or any(one.guard_acted for one in chosen):
        rule, params = get_rule(REFERENCE), {}
    if not set(rule.looks_at(params)) <= set(candidates.metrics):
        return None
    asked = replace(first.choice, rule=rule, params=params, guard=False, tolerance=None, alpha=None)
    return select(candidates, asked).index


def _candidates(chosen: Sequence[Selection]) -> Trajectory:
    """The chosen checkpoints as one run."""
    runs = [one.trajectory for one in chosen]
    sizes = {None if run.counts is None else tuple(run.counts) for run in runs}
    return Trajectory(
        steps=range(len(chosen)),
        domains=runs[0].domains,
        values=_rows(chosen, "values"),
        pooled=_rows(chosen, "pooled"),
        counts=sizes.pop() if len(sizes) == 1 else None,
    )


def _rows(chosen: Sequence[Selection], kind: str) -> dict[str, list[Any]]:
    """The metrics that all have, at what was chosen."""
    tables = [getattr(one.trajectory, kind) for one in chosen]
    return {
        name: [table[name][one.index] for table, one in zip(tables, chosen, strict=True)]
        for name in tables[0]
        if all(name in table for table in tables)
    }


WIDER: Final = Fraction(6, 5)
NOTABLE: Final = 0.1  # of an objective


@dataclass(frozen=True)
class NearMiss:
    """The choice under a wider tolerance, and how much better its objectives are."""

    step: int
    gap_pp: float
    delta_pp: str
    gains: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"Step {self.step} is {self.gap_pp:.2f} points below the best, just outside, with "
            f"{listed(self.gains)}: --delta-pp {self.delta_pp} takes it."
        )


def near_miss(s: Selection) -> NearMiss | None:
    """What a fifth more tolerance would choose, if it lies outside the tolerance as it is.

    It has to be a tenth better in one objective at least, and worse in none.
    """
    by_points = "delta_pp" in s.params and s.constraint == ACCURACY and s.choice.kind.fixed
    if s.guard_acted or not by_points or not s.tolerance_pp or not s.looked_at:
        return None
    delta_pp = f"{float(WIDER * s.tolerance_pp):g}"
    params = {**s.params, "delta_pp": delta_pp}
    other = select(s.trajectory, replace(s.choice, rule=s.rule_used, params=params, guard=False))
    if s.feasible[other.index] or other.gap_pp is None:
        return None
    gains = {name: _gain(s, name, other.index) for name in s.looked_at}
    if not all(gain >= 0 for gain in gains.values()) or max(gains.values()) < NOTABLE:
        return None
    words = tuple(
        f"{100 * gain:.0f}% {_less(s, name)} {called(s.trajectory, name)}"
        for name, gain in gains.items()
        if gain >= NOTABLE
    )
    return NearMiss(other.step, other.gap_pp, delta_pp, words)


def _gain(s: Selection, name: str, index: int) -> float:
    """By what share of the choice's value another is better."""
    values = s.columns[name]
    change = relative(float(values[index]), float(values[s.index]))
    return change if direction_of(name, s.choice.directions) == "higher" else -change


def _less(s: Selection, name: str) -> str:
    return "more" if direction_of(name, s.choice.directions) == "higher" else "less"
