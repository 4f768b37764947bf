"""``select``: the rule, what it needs of a run, and the guard behind it; for one run or many."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from checkwise.errors import CheckwiseError, InputError, MissingMetricError
from checkwise.metrics import METRICS, get_metric, is_metric
from checkwise.records import Trajectory
from checkwise.selection.choice import SETTINGS, Choice, in_words, not_usual
from checkwise.selection.columns import Columns
from checkwise.selection.constrained import choose
from checkwise.selection.constraint import ACCURACY
from checkwise.selection.defaults import (
    DEFAULT_RULE,
    REFERENCE,
    RuleWithReason,
    rule_of,
    unsplit,
    usable_rules,
)
from checkwise.selection.guard import WITHIN_PP, Guard, guards, saturated
from checkwise.selection.ranking import Ranking
from checkwise.selection.result import Selection
from checkwise.selection.rulebook import Rule, get_rule
from checkwise.words import listed

Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")

AS_SET = "as the callback was set"


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
    trajectory = _measured(trajectory, asked.rule.looks_at(asked.params))
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
    groups: dict[tuple[Any, ...], tuple[RuleWithReason, dict[Key, Trajectory]]] = {}
    chosen: dict[Key, Selection] = {}
    for key, run in runs.items():
        _check_trajectory(run)
        asked = None
        if choice.rule is not None or not run.chosen_by:
            asked = _named(key, rule_of, run, choice)
        if asked is None or not asked.rule.stackable:
            chosen[key] = _named(key, select, run, choice)
            continue
        run = _measured(run, asked.rule.looks_at(asked.params))
        _named(key, check_needs, run, asked, choice)
        # Runs that have equally many checkpoints and the same metrics are ranked as one stack.
        shape = (len(run), *sorted(run.metrics))
        alike_by = (asked.rule.name, asked.reason, repr(asked.params), shape)
        groups.setdefault(alike_by, (asked, {}))[1][key] = run
    for asked, alike in groups.values():
        table = Columns.stack(list(alike.values()), choice)
        chosen |= zip(alike, _chosen(list(alike.values()), table, asked, choice), strict=True)
    return {key: chosen[key] for key in runs}


def _chosen(
    runs: Sequence[Trajectory], table: Columns, asked: RuleWithReason, choice: Choice
) -> list[Selection]:
    """The choice in every run of a table, which has one run or a stack of them."""
    rule, params = asked.rule, asked.params
    ranking = rule.ranking(table, params)
    indices = choose(ranking, table.order_by(rule.constraint(params)), ties=rule.ties(params))
    rows = [ranking] if table["step"].ndim == 1 else [ranking.row(r) for r in range(len(runs))]
    found = [
        Selection(run, choice, rule, params, int(index), row, asked.reason)
        for run, index, row in zip(runs, np.atleast_1d(indices), rows, strict=True)
    ]
    return [guarded(one) for one in found] if choice.guard else found


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


def _measured(run: Trajectory, names: Iterable[str]) -> Trajectory:
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
    before, now = not_usual(run.chosen_by), not_usual(chosen.settings)
    changed = [name for name in sorted({**before, **now}) if before.get(name) != now.get(name)]
    kept = in_words({"rule": chosen.rule, **{n: v for n, v in before.items() if n not in changed}})
    but = f", but for {listed(changed)}" if changed else ""
    return replace(chosen, reason=chosen.reason or f"{AS_SET}{kept and f': {kept}'}{but}")


def check_needs(trajectory: Trajectory, asked: RuleWithReason, choice: Choice) -> None:
    """Refuse a rule whose scores the run does not carry, and say which rules work."""
    rule, there = asked.rule, trajectory.metrics
    needs = rule.looks_at(asked.params)
    carries = f"this run carries only {', '.join(there)}"
    absent = [name for name in needs if name not in there]
    if absent == [ACCURACY] and not rule.needs_accuracy:
        raise MissingMetricError(
            f"Expected accuracy to break ties by, but {carries}: break them by the earliest or "
            "latest step."
        )
    if absent:
        raise MissingMetricError(
            f"Rule {rule.name} needs {', '.join(absent)}, but {carries}. "
            f"{_what_works(absent, trajectory)}"
        )
    unknown = [name for name in choice.directions if name not in there]
    if unknown:
        raise InputError(
            f"Expected the direction of a score of this run, but got that of {unknown[0]}, and "
            f"{carries}: check the name.",
            code="unknown",
        )
    pooled = [name for name in needs if name in unsplit(trajectory, choice)]
    if pooled:
        raise MissingMetricError(
            f"This run carries {', '.join(pooled)} only as an equal mean over domains: other "
            "weights or the worst domain need it per domain."
        )
    if not choice.kind.fixed and trajectory.examples is None:
        raise InputError(
            f"Expected what every validation example said for tolerance {choice.kind.name!r}, but "
            "this run carries metrics alone: select from saved predictions (`checkwise predict` "
            'makes them), train with `logits = "source"` in the study, or use tolerance "fixed".',
            code="missing",
        )


def _what_works(absent: list[str], run: Trajectory) -> str:
    working = ", ".join(usable_rules(run.metrics))
    rules = f"Rules that work: {working}. " if working else ""
    if run.columns and not any(name in METRICS for name in absent):
        return f"{rules}If the log has the rest, read it with metrics={absent!r}."
    if absent == [ACCURACY]:
        return (
            f"{rules}For another score in its place, name it, as in --constraint f1 --delta 0.5%."
        )
    return (
        f"{rules}To get the rest, save the logits of every checkpoint as step-000100/<domain>.npz "
        "(`checkwise predict` does) and select from that folder."
    )


def _check_trajectory(run: object) -> None:
    if isinstance(run, Trajectory):
        return
    several = "; for several runs use `select_many`" if isinstance(run, dict) else ""
    raise InputError(
        f"Expected a Trajectory, but got {type(run).__name__}: read a file or folder with "
        f"`checkwise.load`, and a table with `Trajectory.from_frame`{several}."
    )


def _named(key: object, call: Callable[..., T], *args: Any) -> T:
    """What concerns one run of many; a refusal says which run."""
    try:
        return call(*args)
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
    first, runs = chosen[0], [one.trajectory for one in chosen]
    alike = {(one.rule, repr(one.params), one.trajectory.domains) for one in chosen}
    sizes = {None if run.counts is None else tuple(run.counts) for run in runs}
    if len(alike) > 1 or (first.choice.weights == "sample" and len(sizes) > 1):
        return None

    def rows(kind: str) -> dict[str, list[Any]]:
        """The metrics that all have, at what was chosen."""
        tables = [getattr(run, kind) for run in runs]
        return {
            name: [table[name][one.index] for table, one in zip(tables, chosen, strict=True)]
            for name in tables[0]
            if all(name in table for table in tables)
        }

    candidates = Trajectory(
        steps=range(len(chosen)),
        domains=runs[0].domains,
        values=rows("values"),
        pooled=rows("pooled"),
        counts=sizes.pop() if len(sizes) == 1 else None,
    )
    rule, params = first.rule_used, dict(first.params)
    if not first.looked_at or any(one.guard_acted for one in chosen):
        rule, params = get_rule(REFERENCE), {}
    if not set(rule.looks_at(params)) <= set(candidates.metrics):
        return None
    asked = replace(first.choice, rule=rule, params=params, guard=False, tolerance=None, alpha=None)
    return select(candidates, asked).index
