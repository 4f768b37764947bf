"""Rules and metrics from installed packages, looked up when a name is unknown.

A package offers one as an entry point of the group ``checkwise.rules`` or ``checkwise.metrics``.
The entry point has the name of the rule or metric, and importing what it refers to registers it.
Nothing is imported before somebody uses the name, and a name that exists cannot be replaced.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from checkwise.errors import CheckwiseError, InputError

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
        _import_entry(entries[0], origins[0], group, registry)
    except InputError:
        registry.clear()
        registry.update(before)
        raise
    for added in registry.keys() - before.keys():
        registry[added] = replace(registry[added], origin=origins[0])
    return True


def _import_entry(
    entry: EntryPoint, origin: Origin, group: Group, registry: dict[str, Any]
) -> None:
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


@dataclass(frozen=True)
class Plugin:
    """A plugin that was named.

    ``source`` is an absolute path or a module's name, from which any process can load it. ``name``
    is the name in records: that of the file or of the module.
    """

    source: str
    name: str
    sha256: str


_LOADED: dict[str, Plugin] = {}


def find_plugin(source: str) -> Plugin:
    """What would be loaded, without importing it."""
    return _read(source)[0]


def load_plugin(source: str, *, sha256: str | None = None) -> Plugin:
    """Import a Python file or module, whose decorators register what is in it, once per process.

    With ``sha256`` a file with another content is refused.
    """
    plugin, content = _read(source)
    wanted = _LOADED[plugin.source].sha256 if plugin.source in _LOADED else sha256
    if wanted is not None and wanted != plugin.sha256:
        raise InputError(
            f"Expected the plugin {plugin.name} as it was when this began (SHA-256 {wanted:.12}…), "
            f"but it changed (now {plugin.sha256:.12}…): restore it, or start again.",
            code="differs",
        )
    if plugin.source not in _LOADED:
        if plugin.name in loaded():
            raise InputError(
                f"Expected plugins with different names, but got two called {plugin.name}: rename "
                "one of the files.",
                code="ambiguous",
            )
        try:
            _import(plugin, content)
        except CheckwiseError:
            raise
        except (Exception, SystemExit) as error:
            raise _unloadable(source, error) from None
        _LOADED[plugin.source] = plugin
    return plugin


def loaded() -> dict[str, str]:
    """SHA-256 of every plugin that this process loaded, by name."""
    return {plugin.name: plugin.sha256 for plugin in _LOADED.values()}


def check_loaded(recorded: Mapping[str, str], where: object) -> None:
    """Refuse to continue without a plugin that a record names, or with a changed one."""
    here = loaded()
    for name, sha256 in recorded.items():
        if name not in here:
            raise InputError(
                f"Expected the plugin {name}, which {where} was made with, but it was not given: "
                f"run the same command again with --plugin {name} (its path, if it is a file).",
                code="missing",
            )
        if here[name] != sha256:
            raise InputError(
                f"Expected the plugin {name} that {where} was made with (SHA-256 {sha256:.12}…), "
                f"but got one with another content ({here[name]:.12}…): restore it, or start again "
                "in another folder.",
                code="differs",
            )


def _read(source: str) -> tuple[Plugin, bytes]:
    """The plugin and the content of its file."""
    try:
        if source.endswith(".py"):
            path, name = Path(source).absolute(), Path(source).name
            source = str(path)
        else:
            spec = importlib.util.find_spec(source)
            if spec is None or spec.origin is None:
                raise ModuleNotFoundError(f"No module named {source!r}")
            path, name = Path(spec.origin), source
        content = path.read_bytes()
    except (ImportError, OSError, ValueError) as error:
        raise _unloadable(source, error) from None
    import hashlib  # slow to import

    return Plugin(source, name, hashlib.sha256(content).hexdigest()), content


def _import(plugin: Plugin, content: bytes) -> None:
    if not plugin.source.endswith(".py"):
        importlib.import_module(plugin.source)
        return
    # Its own name among modules, and what was hashed: neither another module nor a stale cache.
    module = ModuleType(f"checkwise_plugin_{Path(plugin.source).stem}")
    module.__file__ = plugin.source
    sys.modules[module.__name__] = module
    exec(compile(content, plugin.source, "exec"), module.__dict__)


def _unloadable(source: str, error: BaseException) -> InputError:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return InputError(
        f"Expected --plugin to name a Python file or module, but {source!r} cannot be loaded: "
        f"{reason}.",
        code="format",
    )
