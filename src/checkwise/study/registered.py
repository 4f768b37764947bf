"""Whether a choice was registered before held-out results were opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from checkwise.errors import InputError
from checkwise.selection.result import plain
from checkwise.selection.weights import Weights, check_weighting, decimal
from checkwise.store.registration import OPENED, REGISTRATION, read_log, source_hashes
from checkwise.study.setting import Setting

State = Literal["before", "late", "none", "unknown"]
DECIMALS = ("delta_pp", "threshold_pp")


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
        others: further choices that were registered before the opening.
        tables: what was to be shown.
    """

    state: State
    at: str = ""
    opened: str = ""
    changed: int = 0
    added: int = 0
    others: int = 0
    tables: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One sentence or two, without the name of the rule."""
        if self.state == "unknown":
            return "it cannot be said whether this was registered: the log was changed by hand."
        if self.state == "none":
            return "not registered before held-out results were opened: treat it as exploration."
        when = (
            f"registered {_day(self.at)}, before held-out results were opened"
            if self.state == "before"
            else f"registered late: {_day(self.at)}, after held-out results were opened "
            f"({_day(self.opened)})"
        )
        more = f"; {self.others} other choice(s) were registered too" if self.others else ""
        return f"{when}{more}; {_journals(self.changed, self.added)}."


def choice_of(
    setting: Setting, *, weights: Weights = "equal", worst_domain: bool = False
) -> dict[str, Any]:
    """A choice as the log keeps it: every parameter, decimals as the fractions they are."""
    check_weighting(weights, worst_domain)
    rule = setting.row.rule
    complete = dict(setting.params) if rule is None else rule.complete(setting.params)
    return {
        "rule": setting.rule,
        "params": {name: _kept(name, value) for name, value in sorted(complete.items())},
        "weights": dict(weights) if isinstance(weights, Mapping) else str(weights),
        "worst_domain": worst_domain,
    }


def registrations(
    path: Path, rules: Sequence[str | Setting], params: Mapping[str, Any], **options: Any
) -> dict[str, Registered]:
    """What the log says about each row of a comparison, by its label."""
    found = {}
    for rule in rules:
        given = rule if isinstance(rule, Setting) else Setting(rule)
        shared = {name: value for name, value in params.items() if name in given.takes}
        setting = Setting(given.rule, {**shared, **given.params}, given.label)
        found[setting.label] = registered(path, choice_of(setting, **options))
    return found


def registered(path: Path, choice: Mapping[str, Any]) -> Registered:
    """Look a choice up in a cohort's log; the earliest registration of it counts."""
    try:
        entries = read_log(path)
    except InputError:
        return Registered("unknown")
    first = next((i for i, e in enumerate(entries) if e["kind"] == OPENED), len(entries))
    opened = entries[first]["at"] if first < len(entries) else ""
    mine = [
        i
        for i, entry in enumerate(entries)
        if entry["kind"] == REGISTRATION and _same(entry["choice"], choice)
    ]
    if not mine:
        return Registered("none", opened=opened)
    entry = entries[mine[0]]
    before = [e["choice"] for e in entries[:first] if e["kind"] == REGISTRATION]
    now, then = source_hashes(path), entry["journals"]
    return Registered(
        state="before" if mine[0] < first else "late",
        at=entry["at"],
        opened=opened,
        changed=sum(now.get(run) != digest for run, digest in then.items()),
        added=sum(run not in then for run in now),
        others=sum(not _same(other, choice) for other in before),
        tables=tuple(entry["choice"].get("tables", ())),
    )


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(
        one.get(part) == other.get(part) for part in ("rule", "params", "weights", "worst_domain")
    )


def _kept(name: str, value: Any) -> Any:
    if name in DECIMALS and value is not None:
        exact: Fraction = decimal(value, name)
        return str(exact)
    return plain(value)


def _journals(changed: int, added: int) -> str:
    if not changed and not added:
        return "source journals unchanged since"
    parts = [
        f"{changed} source journal(s) CHANGED since" if changed else "",
        f"{added} source journal(s) added since" if added else "",
    ]
    return " and ".join(part for part in parts if part)


def _day(at: str) -> str:
    return at.replace("T", " ").replace("+00:00", " UTC")
