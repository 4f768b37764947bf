"""What was registered: one rule, or a set of contrasts, as the log of registrations keeps them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from checkwise.errors import InputError
from checkwise.selection import REFERENCE, Choice, Weights, decimal, plain, read_delta
from checkwise.statistics import LEVEL
from checkwise.store import COHORT_FILE, RUN_FILE, has_file, read_document, read_json
from checkwise.study.cohort import Cohort
from checkwise.study.contrast_set import ContrastSet, parse_contrasts
from checkwise.study.contrast_verdicts import check_contrasts
from checkwise.study.folder import (
    CONTRASTS,
    LOG,
    OPENED,
    REGISTRATION,
    Line,
    is_cohort,
    open_cohort,
    read_lines,
    register_contrasts,
    running_code,
    source_hashes,
)
from checkwise.study.inference import ALPHA
from checkwise.study.lodo import Scope, check_scope
from checkwise.study.method_table import Method, method
from checkwise.words import counted, listed

DECIMALS = ("delta_pp", "threshold_pp")
SCOPE: Scope = "run"
# What makes two choices the same, with what an older log means where it has no entry.
PARTS: Mapping[str, Any] = {
    "rule": None,
    "params": None,
    "weights": "equal",
    "worst_domain": False,
    "reference": REFERENCE,
    "reference_params": {},
    "scope": SCOPE,
}


def choice_of(
    row: str | Method,
    *,
    reference: str | Method = REFERENCE,
    scope: str = SCOPE,
    weights: Weights = "equal",
    worst_domain: bool = False,
) -> dict[str, Any]:
    """A choice as the log keeps it: every parameter, decimals as the fractions they are.

    Of the reference's parameters, those are kept that the rule does not have or has otherwise.
    """
    Choice(weights=weights, worst_domain=worst_domain)  # refuses what goes with no choice
    chosen, against = method(row), method(reference)
    params = params_of(chosen)
    differing = {k: v for k, v in params_of(against).items() if k not in params or params[k] != v}
    return {
        "rule": chosen.name,
        "params": params,
        "weights": dict(weights) if isinstance(weights, Mapping) else str(weights),
        "worst_domain": worst_domain,
        "reference": against.name,
        "reference_params": differing,
        "scope": check_scope(scope),
    }


def same_choice(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two choices are one: the same rule and parameters, compared in the same way."""
    return all(
        _comparable(part, one.get(part, usual)) == _comparable(part, other.get(part, usual))
        for part, usual in PARTS.items()
    )


def _comparable(part: str, value: Any) -> Any:
    """The same for settings that give the same choice: 2 and 2.0, objectives in any order."""
    if part == "weights" and isinstance(value, Mapping):
        return {name: decimal(weight, "weights") for name, weight in value.items()}
    if isinstance(value, Mapping) and isinstance(value.get("objectives"), list | tuple):
        return {**value, "objectives": sorted(value["objectives"])}
    return value


def params_of(row: Method) -> dict[str, Any]:
    """Every parameter of a row as the log keeps it."""
    if row.rule is None:
        return {name: _as_logged(name, value) for name, value in sorted(row.params.items())}
    choice = row.choice()
    every = {**choice.completed, **choice.kind.as_dict()}
    logged = {name: _as_logged(name, value) for name, value in sorted(every.items())}
    if row.rule.optional and "delta" in every:
        delta = read_delta(every["delta"])
        logged["delta"] = f"{100 * delta.amount}%" if delta.relative else str(delta.amount)
    return logged


def _as_logged(name: str, value: Any) -> Any:
    if name in DECIMALS and value is not None:
        exact: Fraction = decimal(value, name)
        return str(exact)
    return plain(value)


State = Literal["before", "late", "none", "unknown"]


@dataclass(frozen=True)
class Registered:
    """What the cohort's log says about one choice."""

    # "before" or "late" relative to the first opening of held-out results, "none" where the choice
    # was never registered, "unknown" where the log was tampered with
    state: State
    at: str = ""  # when it was registered; empty if it was not
    opened: str = ""  # when held-out results were first opened; empty if they were not
    changed: int = 0  # source journals that differ from those that were registered, or are gone
    added: int = 0  # source journals that were not there then
    others: int = 0  # how many different further choices were registered before the opening
    tables: tuple[str, ...] = ()  # what was to be shown
    earlier: str = ""  # when the same choice had been registered before; empty if it had not
    # metrics that are shown, but were not part of the registration
    unregistered: tuple[str, ...] = ()
    fault: str = ""  # what is wrong with the log, where the state is "unknown"

    def __str__(self) -> str:
        if self.state == "unknown":
            return f"whether this was registered is unknown. {self.fault}"
        if self.state == "none":
            return "not registered before held-out results were opened: treat it as exploration."
        when = (
            f"registered {_day(self.at)}, before held-out results were opened"
            if self.state == "before"
            else f"registered late: {_day(self.at)}, after held-out results were opened "
            f"({_day(self.opened)})"
        )
        were = {0: "", 1: "was"}.get(len(self.unregistered), "were")
        parts = [
            when,
            f"the same choice was registered before, {_day(self.earlier)}" if self.earlier else "",
            f"{counted(self.others, 'other choice')} registered too" if self.others else "",
            _journals(self.changed, self.added),
            f"{listed(self.unregistered)} {were} not registered with it" if were else "",
        ]
        return f"{'; '.join(part for part in parts if part)}."


def registrations(
    path: Path,
    rules: Sequence[str | Method],
    params: Mapping[str, Any],
    *,
    reference: str | Method = REFERENCE,
    metrics: Sequence[str] = (),
    **options: Any,
) -> dict[str, Registered]:
    against = method(reference).taking(params)
    rows = [method(rule).taking(params) for rule in rules]
    return {
        row.label: registered_first(
            path, choice_of(row, reference=against, **options), metrics=metrics
        )
        for row in rows
    }


def registered_first(
    path: Path, choice: Mapping[str, Any], *, metrics: Sequence[str] = ()
) -> Registered:
    """The earliest registration of a choice, and which ``metrics`` that are shown it lacks."""
    return _look_up(path, choice, metrics, which=0)


def registered_last(path: Path, choice: Mapping[str, Any]) -> Registered:
    """The latest registration of a choice, and when it was registered first."""
    return _look_up(path, choice, (), which=-1)


def registered_as(path: Path, digest: str) -> tuple[str, Registered]:
    """The rule that was registered under a digest, "" for none, and what the log says of it."""
    wanted = digest.strip().lower()
    if not re.fullmatch(r"[0-9a-f]{64}", wanted):
        raise InputError(
            f"Expected a digest of 64 hexadecimal digits, but got {digest!r}: use the one that "
            "`checkwise study register` printed."
        )
    if not is_cohort(path):
        raise InputError(
            f"Expected a study, which keeps a log of registrations, but got {path}.",
            code="unsupported",
        )
    try:
        lines = read_lines(path)
    except InputError as error:
        return "", _unknown(path, error)
    log = _Log(path, [line.content for line in lines])
    for place, line in enumerate(lines):
        if line.digest == wanted and line.content["kind"] == CONTRASTS:
            title = str(line.content["contrasts"].get("title", "")) or "a set of contrasts"
            return title, log.set_at(place)
        if line.digest == wanted and line.content["kind"] == REGISTRATION:
            choice = line.content["choice"]
            return str(choice["rule"]), log.choice_at(place, log.places_of(choice))
    return "", Registered("none", opened=log.opened)


def _look_up(
    path: Path, choice: Mapping[str, Any], metrics: Sequence[str], *, which: int
) -> Registered:
    try:
        log = _Log(path, _with_contrasts([line.content for line in read_lines(path)]))
    except InputError as error:
        return _unknown(path, error)
    alike = log.places_of(choice)
    if not alike:
        return Registered("none", opened=log.opened)
    return log.choice_at(alike[which], alike, metrics)


class _Log:
    """The entries of a cohort's log, and what they say about one of them."""

    def __init__(self, path: Path, entries: Sequence[Mapping[str, Any]]):
        self._path, self._entries = path, entries
        marks = [place for place, entry in enumerate(entries) if entry["kind"] == OPENED]
        self._first = marks[0] if marks else len(entries)
        self.opened = str(entries[self._first]["at"]) if marks else ""

    def places_of(self, choice: Mapping[str, Any]) -> list[int]:
        return [
            place
            for place, entry in enumerate(self._entries)
            if entry["kind"] == REGISTRATION and same_choice(entry["choice"], choice)
        ]

    def choice_at(
        self, place: int, alike: Sequence[int], metrics: Sequence[str] = ()
    ) -> Registered:
        """The registration at ``place``, one of those of its choice."""
        choice = self._entries[place]["choice"]
        late = place >= self._first
        same_side = [self._entries[i]["choice"] for i in alike if (i >= self._first) == late]
        before = [e["choice"] for e in self._entries[: self._first] if e["kind"] == REGISTRATION]
        different: list[Mapping[str, Any]] = [choice]
        for other in before:
            if not any(same_choice(other, known) for known in different):
                different.append(other)
        return replace(
            self._dated(place, alike),
            others=len(different) - 1,
            tables=tuple(choice.get("tables", ())),
            unregistered=_without(metrics, same_side),
        )

    def set_at(self, place: int) -> Registered:
        contrasts = self._entries[place]["contrasts"]
        alike = [i for i, entry in enumerate(self._entries) if entry.get("contrasts") == contrasts]
        before = self._entries[: self._first]
        others = [entry for entry in before if entry["kind"] in (REGISTRATION, CONTRASTS)]
        different = sum(entry.get("contrasts") != contrasts for entry in others)
        return replace(self._dated(place, alike), others=different)

    def _dated(self, place: int, alike: Sequence[int]) -> Registered:
        now, then = source_hashes(self._path), self._entries[place]["journals"]
        changed = sum(now.get(run) != digest for run, digest in then.items())
        return Registered(
            "before" if place < self._first else "late",
            self._entries[place]["at"],
            self.opened,
            changed,
            added=sum(run not in then for run in now),
            earlier=self._entries[alike[0]]["at"] if place > alike[0] else "",
        )


def _with_contrasts(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The log with every contrast of a set as a registration of its own."""
    every: list[Mapping[str, Any]] = []
    for entry in entries:
        if entry["kind"] != CONTRASTS:
            every.append(entry)
            continue
        for one in parse_contrasts(entry["contrasts"], "the log").contrasts:
            choice = {**choice_of(one.row, reference=one.against), "metrics": list(one.metrics)}
            every.append({**entry, "kind": REGISTRATION, "choice": choice})
    return every


def _unknown(path: Path, error: InputError) -> Registered:
    """No statement, for a reason in which the log has its name, but not where it lies."""
    return Registered("unknown", fault=str(error).replace(f"{path}{os.sep}", ""))


def _without(metrics: Sequence[str], choices: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Metrics that none of the registrations names; one without metrics says nothing of them."""
    if any("metrics" not in choice for choice in choices):
        return ()
    return tuple(m for m in metrics if not any(m in choice["metrics"] for choice in choices))


def _journals(changed: int, added: int) -> str:
    if not changed and not added:
        return "source journals unchanged since"
    parts = [
        f"{counted(changed, 'source journal')} changed or missing since" if changed else "",
        f"{counted(added, 'source journal')} added since" if added else "",
    ]
    return " and ".join(part for part in parts if part)


def _day(at: str) -> str:
    return at.replace("T", " ").replace("+00:00", " UTC")


TEST = "means by held-out place, two-sided t over places, Holm within a family"


@dataclass(frozen=True)
class RegisteredSet:
    """A set of contrasts in the log of a cohort."""

    fixed: ContrastSet  # the contrasts
    digest: str  # SHA-256 of its line, which covers everything here and every earlier line
    standing: Registered  # whether it came before the first opening, and what changed since
    runs: int  # runs that were finished when it was registered, and planned ones
    planned: int
    places: Mapping[
        str, Any
    ]  # the held-out places that were planned, with their groups where known
    code: Mapping[str, Any]  # the code that it was registered with
    same_plan: bool  # whether the cohort's plan is still the one that it was registered with
    # methods that `checkwise study derive` has to make before they can be shown
    to_make: tuple[str, ...] = ()

    @property
    def same_code(self) -> bool:
        return bool(self.code.get("sha256") == running_code()["sha256"])


def register_set(cohort: Cohort, fixed: ContrastSet) -> RegisteredSet:
    """Add a set to the log, after everything that the finished runs cannot give was refused."""
    cohort.check_one_role()
    to_make = check_contrasts(cohort, fixed)
    record = open_cohort(cohort.path)
    facts = {
        "test": {"what": TEST, "alpha": ALPHA, "level": LEVEL},
        "recipes": {row.label: _recipe(row) for row in fixed.rows},
        "plan": _plan(cohort.path),
        "planned": len(record.runs),
        "places": _places(record.runs.values(), [key.held_out for key in record.runs]),
        "code": running_code(),
    }
    line = register_contrasts(cohort.path, fixed.as_dict(), facts)
    found = next(one for one in registered_sets(cohort.path) if one.digest == line.digest)
    return replace(found, to_make=to_make)


def registered_sets(path: Path) -> tuple[RegisteredSet, ...]:
    """Every set in a cohort's log, in order."""
    lines = read_lines(path)
    log = _Log(path, [line.content for line in lines])
    return tuple(
        _read(path, line, log.set_at(place))
        for place, line in enumerate(lines)
        if line.content["kind"] == CONTRASTS
    )


def _read(path: Path, line: Line, standing: Registered) -> RegisteredSet:
    content = line.content
    kinds = {"journals": dict, "planned": int, "places": dict, "code": dict, "plan": str}
    for name, kind in kinds.items():
        if not isinstance(content.get(name), kind):
            raise InputError(
                f"Expected {name} of a registered set, but got {content.get(name)!r:.80} in "
                f"{path / LOG}: restore the log from a copy.",
                code="damaged",
            )
    return RegisteredSet(
        fixed=parse_contrasts(content["contrasts"], str(path / LOG)),
        digest=line.digest,
        standing=standing,
        runs=len(content["journals"]),
        planned=content["planned"],
        places=content["places"],
        code=content["code"],
        same_plan=content["plan"] == _plan(path),
    )


def _plan(path: Path) -> str:
    return read_document(path / COHORT_FILE).sha256


def _recipe(row: Method) -> dict[str, Any]:
    """All that a row is, so that its name cannot come to mean something else unnoticed."""
    params = params_of(row) if row.recipe is None else dict(row.recipe.params)
    return {
        "summary": row.summary,
        "params": params,
        "validation": row.validation,
        "split": row.split,
        "calibrator": row.calibrator,
        "guard": row.guard,
    }


def _places(folders: Any, held_out: list[tuple[str, ...]]) -> dict[str, Any]:
    """Every planned place, with the groups in it where a run that has begun names them."""
    places: dict[str, Any] = {name: None for targets in held_out for name in targets}
    for folder in folders:
        if not has_file(folder, RUN_FILE):
            continue
        split = read_json(folder / RUN_FILE).get("split")
        found = split.get("places") if isinstance(split, Mapping) else None
        places |= found if isinstance(found, Mapping) else {}
    return places
