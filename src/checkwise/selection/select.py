"""``select``: one run and a rule in, one checkpoint with reasons out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from checkwise.errors import CheckwiseError, InputError, MissingMetricError
from checkwise.metrics import METRICS
from checkwise.records import Trajectory
from checkwise.selection.columns import Columns
from checkwise.selection.constrained import choose
from checkwise.selection.constraint import ACCURACY
from checkwise.selection.default_rule import (
    DEFAULT_RULE,
    REMEDY,
    RuleWithReason,
    default_rule,
    unsplit,
    usable_rules,
)
from checkwise.selection.directions import Directions, check_directions
from checkwise.selection.measured import with_measured
from checkwise.selection.result import Selection, order_of
from checkwise.selection.rules import Rule, get_rule
from checkwise.selection.saturation import SAFER, WITHIN_PP, Guard, guards
from checkwise.selection.set_as import AS_SET, USUAL, in_words, not_usual
from checkwise.selection.standing import Weights
from checkwise.selection.tolerances import FIXED, ToleranceKind, check_tolerance, examples_for
from checkwise.text import listed

Key = TypeVar("Key", bound=Hashable)


def select(
    trajectory: Trajectory,
    rule: str | Rule | None = None,
    *,
    weights: Weights = "equal",
    worst_domain: bool = False,
    directions: Directions | None = None,
    guard: bool = True,
    tolerance: str | None = None,
    alpha: float | None = None,
    **params: Any,
) -> Selection:
    """Choose one checkpoint of a run.

    Args:
        trajectory: the run.
        rule: a name from :func:`rules`; without one ac-nc, or the best rule that the metrics of
            the run allow (``reason`` of the selection then says why).
        weights: how much each domain counts: "equal", "sample", or a weight per domain.
        worst_domain: judge every checkpoint by its worst domain instead of the mean; a minimum
            has no weights, so ``weights`` stays "equal".
        directions: whether "higher" or "lower" is better, for scores whose names do not say it.
        guard: where the best checkpoint has 5 validation errors or fewer, validation cannot rank
            probabilities: take the earliest checkpoint within 0.5 points of the best accuracy,
            whatever ``delta_pp`` is. Rules that look at accuracy and time alone, and those with
            another constraint, are left alone; so are runs whose number of errors is not known.
        tolerance: which checkpoints are near the best: "fixed", the default (at most δ below the
            best measured accuracy), or by what every validation example said: "paired" (not shown
            to be worse by more than δ).
        alpha: level of "paired"; 0.05 if not given.
        params: parameters of the rule, such as ``delta_pp`` and ``q``, and ``ties``: which of
            exactly tied checkpoints is taken, the "earliest", the "latest", or that of the higher
            "accuracy" (or of the better constraint), then the earlier.

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
    if rule is None and trajectory.chosen_by:
        asked_kind = {"tolerance": tolerance, "alpha": alpha}
        return _as_trained(trajectory, weights, worst_domain, directions, guard, asked_kind, params)
    known = check_directions(directions)
    kind = check_tolerance(FIXED.name if tolerance is None else tolerance, alpha)
    if rule is None:
        asked = default_rule(trajectory, params, weights=weights, worst_domain=worst_domain)
    else:
        asked = RuleWithReason(get_rule(rule))
    used = asked.rule
    complete = used.complete({**asked.params, **_set(params, asked)})
    trajectory = with_measured(trajectory, used.looks_at(complete))
    check_needs(trajectory, used, complete, weights, worst_domain, known)
    check_applies(kind, used, complete)
    table = Columns.of(
        trajectory, weights=weights, worst_domain=worst_domain, directions=known, tolerance=kind
    )
    ranking = used.ranking(table, complete)
    order = order_of(table, used.constraint(complete))
    index = choose(ranking, order, ties=used.ties(complete))
    chosen = Selection(
        trajectory,
        used,
        complete,
        weights,
        worst_domain,
        int(index),
        ranking,
        asked.reason,
        known,
        kind,
    )
    return guarded(chosen) if guard else chosen


def select_many(
    runs: Mapping[Key, Trajectory],
    rule: str | Rule | None = None,
    *,
    weights: Weights = "equal",
    worst_domain: bool = False,
    directions: Directions | None = None,
    guard: bool = True,
    tolerance: str | None = None,
    alpha: float | None = None,
    **params: Any,
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
    for run in runs.values():
        _check_trajectory(run)
    known = check_directions(directions)
    kind = check_tolerance(FIXED.name if tolerance is None else tolerance, alpha)
    domains: dict[str, Any] = {"weights": weights, "worst_domain": worst_domain}
    options = {**domains, "directions": known, "tolerance": kind}
    if rule is not None:
        return _select_all(runs, RuleWithReason(get_rule(rule)), params, options, guard=guard)
    groups: dict[tuple[str, str], tuple[RuleWithReason, dict[Key, Trajectory]]] = {}
    chosen: dict[Key, Selection] = {}
    for key, run in runs.items():
        if run.chosen_by:
            asked_kind = {"tolerance": tolerance, "alpha": alpha}
            own = {**domains, "directions": known, **asked_kind, **params}
            chosen[key] = _named(key, select, run, None, **own, guard=guard)
            continue
        asked = _named(key, default_rule, run, params, **domains)
        _, alike = groups.setdefault((asked.rule.name, asked.reason), (asked, {}))
        alike[key] = run
    for asked, alike in groups.values():
        chosen |= _select_all(alike, asked, params, options, guard=guard)
    return {key: chosen[key] for key in runs}


def _as_trained(
    run: Trajectory,
    weights: Weights,
    worst_domain: bool,
    directions: Directions | None,
    guard: bool,
    kind: Mapping[str, Any],
    params: Mapping[str, Any],
) -> Selection:
    """The choice under the rule and settings that the run was trained with.

    What the caller sets goes before them.
    """
    own = dict(run.chosen_by)
    rule = str(own.pop("rule", None) or DEFAULT_RULE)
    strange = [n for n in own if n not in USUAL and not get_rule(rule).accepts(n)]
    if strange or "trajectory" in own:
        raise InputError(
            f"Expected settings that {rule} takes with the run, but got "
            f"{(strange or ['trajectory'])[0]!r}: name the rule with --rule."
        )
    if kind["tolerance"] not in (None, own.get("tolerance")):
        own.pop("alpha", None)
    trained = {name: own.pop(name, default) for name, default in USUAL.items()}
    asked: dict[str, Any] = {
        "weights": weights,
        "worst_domain": worst_domain,
        "directions": directions or {},
        "guard": guard,
    }
    told = {name: value for name, value in asked.items() if value != USUAL[name]}
    told |= {name: value for name, value in kind.items() if value is not None}
    if "delta" in params:
        own.pop("delta_pp", None)
    if "delta_pp" in params:
        own.pop("delta", None)
    try:
        chosen = select(run, rule, **{**trained, **told, **own, **params})
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
    if chosen.guard is not None and chosen.guard.acted:
        return chosen
    asked = averaged or guards(chosen.rule_used, chosen.params)
    few = asked and chosen.saturation is not None and chosen.saturation.saturated
    if not few or chosen.constraint != ACCURACY:
        return replace(chosen, guard=Guard(acted=False, without=chosen.step))
    table = replace(chosen, tolerance=FIXED).columns
    ranking = get_rule(SAFER).ranking(table, {"delta_pp": WITHIN_PP})
    return replace(
        chosen,
        index=int(choose(ranking, order_of(table, ACCURACY), ties="earliest")),
        ranking=ranking,
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
    runs: Mapping[Key, Trajectory],
    asked: RuleWithReason,
    params: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    guard: bool,
) -> dict[Key, Selection]:
    """One rule on every run: runs that can be stacked are ranked together."""
    rule = asked.rule
    if not rule.stackable:
        kind = {"tolerance": "fixed", **options["tolerance"].as_dict()}
        own = {**options, **kind, "guard": guard, **params}
        return {key: _named(key, select, run, rule, **own) for key, run in runs.items()}
    complete = rule.complete({**asked.params, **_set(params, asked)})
    check_applies(options["tolerance"], rule, complete)
    needed = {name: value for name, value in options.items() if name != "tolerance"}
    runs = {key: with_measured(run, rule.looks_at(complete)) for key, run in runs.items()}
    chosen: dict[Key, Selection] = {}
    for keys in _alike(runs):
        group = [runs[key] for key in keys]
        for key, run in zip(keys, group, strict=True):
            _named(key, check_needs, run, rule, complete, **needed)
            if not options["tolerance"].fixed:
                _named(key, examples_for, run, options["tolerance"])
        table = Columns.stack(group, **options)
        ranking = rule.ranking(table, complete)
        order = order_of(table, rule.constraint(complete))
        indices = choose(ranking, order, ties=rule.ties(complete))
        for r, (key, run) in enumerate(zip(keys, group, strict=True)):
            chosen[key] = Selection(
                run,
                rule,
                complete,
                options["weights"],
                options["worst_domain"],
                int(indices[r]),
                ranking.row(r),
                asked.reason,
                options["directions"],
                options["tolerance"],
            )
    return {key: guarded(chosen[key]) if guard else chosen[key] for key in runs}


def check_applies(kind: ToleranceKind, rule: Rule, params: Mapping[str, Any]) -> None:
    """Refuse a tolerance where a rule has none, or keeps another score near its best."""
    if kind.fixed:
        return
    if not rule.takes_tolerance:
        raise InputError(
            f"Expected a rule with a tolerance for {kind.name!r}, but {rule.name} has none: leave "
            "the tolerance out, or name a rule such as ac-nc.",
            code="unsupported",
        )
    constraint = rule.constraint(params)
    if constraint != ACCURACY:
        raise InputError(
            f"Expected accuracy as the constraint of tolerance {kind.name!r}, but got "
            f"{constraint}: it compares correct answers example by example; use tolerance "
            '"fixed".',
            code="unsupported",
        )


def check_needs(
    trajectory: Trajectory,
    rule: Rule,
    params: Mapping[str, Any],
    weights: Weights,
    worst_domain: bool,
    directions: Directions | None = None,
) -> None:
    """Refuse a rule whose scores the run does not carry, and say which rules work."""
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
    for name in directions or ():
        if name not in trajectory.metrics:
            raise InputError(
                f"Expected the direction of a score of this run, but it carries "
                f"{', '.join(trajectory.metrics)} and no {name}: check the name.",
                code="unknown",
            )
    pooled = [name for name in needs if name in unsplit(trajectory, weights, worst_domain)]
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


def _set(params: Mapping[str, Any], asked: RuleWithReason) -> dict[str, Any]:
    """The parameters that the caller set; None leaves one to the default rule."""
    return {n: value for n, value in params.items() if value is not None or n not in asked.params}


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
