"""Rules and metrics from installed packages, looked up when a name is unknown.

A package offers one as an entry point of the group ``checkwise.rules`` or ``checkwise.metrics``.
The entry point has the name of the rule or metric, and importing what it refers to registers it.
Nothing is imported before somebody uses the name, and a name that exists cannot be replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from checkwise.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Group: TypeAlias = Literal["rules", "metrics"]
_WHAT: Final = {"rules": "rule", "metrics": "metric"}


@dataclass(frozen=True)
class Origin:
    """The installed package that a rule or metric came from."""

    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


def offered(group: Group) -> dict[str, Origin]:
    """Names that installed packages offer; none is imported."""
    return {entry.name: _origin(entry) for entry in _entries(group)}


def register_offered(group: Group, name: str, registry: dict[str, Any]) -> bool:
    """Import the package that offers ``name``, which registers it; False where none does.

    Everything that it adds to ``registry`` gets its ``origin``. After an error the registry is as
    it was before.
    """
    entries = [entry for entry in _entries(group) if entry.name == name]
    if not entries:
        return False
    origins = [_origin(entry) for entry in entries]
    if len(entries) > 1:
        raise InputError(
            f"Expected one package that offers the {_WHAT[group]} {name!r}, but "
            f"{' and '.join(map(str, origins))} do: uninstall all but one.",
            code="ambiguous",
        )
    before = dict(registry)
    try:
        _import(entries[0], origins[0], group, registry)
    except InputError:
        registry.clear()
        registry.update(before)
        raise
    for added in registry.keys() - before.keys():
        registry[added] = replace(registry[added], origin=origins[0])
    return True


def _import(entry: EntryPoint, origin: Origin, group: Group, registry: dict[str, Any]) -> None:
    what = _WHAT[group]
    try:
        entry.load()
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"Expected {origin} to register the {what} {entry.name!r}, but its entry point "
            f"{entry.value} cannot be loaded: {reason}. Repair or uninstall {origin.distribution}.",
            code="format",
        ) from None
    if entry.name not in registry:
        raise InputError(
            f"Expected {origin} to register the {what} {entry.name!r}, but importing its entry "
            f"point {entry.value} registers no {what} of that name: decorate it with "
            f"@cw.{what}({entry.name!r}).",
            code="format",
        )


def _entries(group: Group) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return list(entry_points(group=f"checkwise.{group}"))


def _origin(entry: EntryPoint) -> Origin:
    if entry.dist is None:
        return Origin("an unnamed distribution", "0")
    return Origin(str(entry.dist.name), str(entry.dist.version))
