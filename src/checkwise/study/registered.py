"""Whether a choice was registered before held-out results were opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from checkwise.errors import InputError
from checkwise.selection.default_rule import REFERENCE
from checkwise.store.cohort import is_cohort
from checkwise.store.registration import (
    CONTRASTS,
    OPENED,
    REGISTRATION,
    read_lines,
    source_hashes,
)
from checkwise.study.compared_method import Method
from checkwise.study.contrast_set import PlannedContrast, parse_contrasts
from checkwise.study.methods import method
from checkwise.study.registered_choice import choice_of, same_choice
from checkwise.text import counted, listed

State = Literal["before", "late", "none", "unknown"]


@dataclass(frozen=True)
class Registered:
    """What the cohort's log says about one choice.

    Args:
        state: "before" or "late" relative to the first opening of held-out results, "none" where
            the choice was never registered, "unknown" where the log was tampered with.
        at: when it was registered; empty if it was not.
        opened: when held-out results were first opened; empty if they were not.
        changed: source journals that differ from those that were registered, or are gone.
        added: source journals that were not there then.
        others: how many different further choices were registered before the opening.
        tables: what was to be shown.
        earlier: when the same choice had been registered before; empty if it had not.
        unregistered: metrics that are shown, but were not part of the registration.
        fault: what is wrong with the log, where the state is "unknown".
    """

    state: State
    at: str = ""
    opened: str = ""
    changed: int = 0
    added: int = 0
    others: int = 0
    tables: tuple[str, ...] = ()
    earlier: str = ""
    unregistered: tuple[str, ...] = ()
    fault: str = ""

    def __str__(self) -> str:
        """One sentence or two, without the name of the rule."""
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
        parts = [
            when,
            f"the same choice was registered before, {_day(self.earlier)}" if self.earlier else "",
            f"{counted(self.others, 'other choice')} registered too" if self.others else "",
            _journals(self.changed, self.added),
            _not_with_it(self.unregistered),
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
    """What the log says about each row of a comparison, by its label."""
    against = method(reference).taking(params)
    rows = [method(rule).taking(params) for rule in rules]
    return {
        row.label: registered(path, choice_of(row, reference=against, **options), metrics=metrics)
        for row in rows
    }


def registered(path: Path, choice: Mapping[str, Any], *, metrics: Sequence[str] = ()) -> Registered:
    """Look a choice up in a cohort's log; the earliest registration of it counts.

    ``metrics`` are those that are shown; the answer names the ones that were not registered.
    """
    return _look_up(path, choice, metrics, which=0)


def registered_last(path: Path, choice: Mapping[str, Any]) -> Registered:
    """The latest registration of a choice, and when it was registered first."""
    return _look_up(path, choice, (), which=-1)


def registered_as(path: Path, digest: str) -> tuple[str, Registered]:
    """The rule that was registered under a digest, and what the log says about that registration.

    Without such a registration the rule is empty and the state "none".

    Raises:
        InputError: this is no digest, or the folder is no cohort.
    """
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
    entries = [line.content for line in lines]
    for place, line in enumerate(lines):
        if line.digest == wanted and line.content["kind"] == CONTRASTS:
            title = str(line.content["contrasts"].get("title", "")) or "a set of contrasts"
            return title, standing_at(path, entries, place)
        if line.digest == wanted and line.content["kind"] == REGISTRATION:
            alike = _same_choices(entries, line.content["choice"])
            return str(line.content["choice"]["rule"]), _standing(path, entries, alike, place)
    return "", Registered("none", opened=_opening(entries)[1])


def _look_up(
    path: Path, choice: Mapping[str, Any], metrics: Sequence[str], *, which: int
) -> Registered:
    try:
        entries = _with_contrasts([line.content for line in read_lines(path)])
    except InputError as error:
        return _unknown(path, error)
    alike = _same_choices(entries, choice)
    if not alike:
        return Registered("none", opened=_opening(entries)[1])
    return _standing(path, entries, alike, alike[which], metrics=metrics)


def standing_at(path: Path, entries: Sequence[Mapping[str, Any]], place: int) -> Registered:
    """What the log says about the set of contrasts at ``place``: when, and what changed since."""
    first, _ = _opening(entries)
    entry = entries[place]
    same = [
        i
        for i, other in enumerate(entries)
        if other["kind"] == CONTRASTS and other["contrasts"] == entry["contrasts"]
    ]
    others = [e for e in entries[:first] if e["kind"] in (REGISTRATION, CONTRASTS)]
    return replace(
        _dated(path, entries, place),
        others=sum(e.get("contrasts") != entry["contrasts"] for e in others),
        earlier=entries[same[0]]["at"] if place > same[0] else "",
    )


def _dated(path: Path, entries: Sequence[Mapping[str, Any]], place: int) -> Registered:
    """When the entry at ``place`` was registered, and what changed since."""
    first, opened = _opening(entries)
    changed, added = _since(path, entries[place])
    state: State = "before" if place < first else "late"
    return Registered(state, entries[place]["at"], opened, changed, added)


def _since(path: Path, entry: Mapping[str, Any]) -> tuple[int, int]:
    """Source journals that changed or are gone since a registration, and those added."""
    now, then = source_hashes(path), entry["journals"]
    changed = sum(now.get(run) != digest for run, digest in then.items())
    return changed, sum(run not in then for run in now)


def _with_contrasts(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The log with every contrast of a set as a registration of its own."""
    every: list[Mapping[str, Any]] = []
    for entry in entries:
        if entry["kind"] != CONTRASTS:
            every.append(entry)
            continue
        fixed = parse_contrasts(entry["contrasts"], "the log")
        every += [
            {**entry, "kind": REGISTRATION, "choice": _choice(one)} for one in fixed.contrasts
        ]
    return every


def _choice(one: PlannedContrast) -> dict[str, Any]:
    return {**choice_of(one.row, reference=one.against), "metrics": list(one.metrics)}


def _unknown(path: Path, error: InputError) -> Registered:
    """No statement, for a reason in which the log has its name, but not where it lies."""
    return Registered("unknown", fault=str(error).replace(f"{path}{os.sep}", ""))


def _opening(entries: Sequence[Mapping[str, Any]]) -> tuple[int, str]:
    """Where the first mark of an opening stands, and its date; the end where there is none."""
    marks = ((i, str(entry["at"])) for i, entry in enumerate(entries) if entry["kind"] == OPENED)
    return next(marks, (len(entries), ""))


def _same_choices(entries: Sequence[Mapping[str, Any]], choice: Mapping[str, Any]) -> list[int]:
    return [
        i
        for i, entry in enumerate(entries)
        if entry["kind"] == REGISTRATION and same_choice(entry["choice"], choice)
    ]


def _standing(
    path: Path,
    entries: Sequence[Mapping[str, Any]],
    alike: Sequence[int],
    place: int,
    *,
    metrics: Sequence[str] = (),
) -> Registered:
    """What the log says about the registration at ``place``, one of those of its choice."""
    first, _ = _opening(entries)
    entry = entries[place]
    choice = entry["choice"]
    same_side = [entries[i]["choice"] for i in alike if (i < first) == (place < first)]
    before = [e["choice"] for e in entries[:first] if e["kind"] == REGISTRATION]
    return replace(
        _dated(path, entries, place),
        others=len(_distinct(other for other in before if not same_choice(other, choice))),
        tables=tuple(entry["choice"].get("tables", ())),
        earlier=entries[alike[0]]["at"] if place > alike[0] else "",
        unregistered=_without(metrics, same_side),
    )


def _distinct(choices: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    distinct: list[Mapping[str, Any]] = []
    for choice in choices:
        if not any(same_choice(choice, other) for other in distinct):
            distinct.append(choice)
    return distinct


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


def _not_with_it(metrics: Sequence[str]) -> str:
    if not metrics:
        return ""
    were = "was" if len(metrics) == 1 else "were"
    return f"{listed(metrics)} {were} not registered with it"


def _day(at: str) -> str:
    return at.replace("T", " ").replace("+00:00", " UTC")
