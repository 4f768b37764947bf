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
    return {entry.name: origin for entry, origin in _entries(group)}


def register_offered(group: Group, name: str, registry: dict[str, Any]) -> bool:
    """Import the package that offers ``name``, which registers it; False where none does.

    Everything that it adds to ``registry`` gets its ``origin``. After an error the registry is as
    it was before.
    """
    found = [(entry, origin) for entry, origin in _entries(group) if entry.name == name]
    if not found:
        return False
    what = _WHAT[group]
    if len(found) > 1:
        raise InputError(
            f"Expected one package that offers the {what} {name!r}, but "
            f"{' and '.join(str(origin) for _, origin in found)} do: uninstall all but one.",
            code="ambiguous",
        )
    (entry, origin), before = found[0], dict(registry)
    wrong = ""
    try:
        entry.load()
        if name not in registry:
            wrong = f"registers no {what} of that name: decorate it with @cw.{what}({name!r})"
    except (Exception, SystemExit) as error:
        wrong = f"cannot be loaded: {_reason(error)}. Repair or uninstall {origin.distribution}"
    if wrong:
        registry.clear()
        registry.update(before)
        raise InputError(
            f"Expected {origin} to register the {what} {name!r}, but its entry point {entry.value} "
            f"{wrong}.",
            code="format",
        )
    for added in registry.keys() - before.keys():
        registry[added] = replace(registry[added], origin=origin)
    return True


def _entries(group: Group) -> list[tuple[EntryPoint, Origin]]:
    from importlib.metadata import entry_points

    return [
        (
            one,
            Origin(one.dist.name, one.dist.version) if one.dist else Origin("an unnamed one", "0"),
        )
        for one in entry_points(group=f"checkwise.{group}")
    ]


@dataclass(frozen=True)
class Plugin:
    """A plugin that was named."""

    source: str  # an absolute path or a module's name, from which any process can load it
    name: str  # in records: that of the file or of the module
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
    if plugin.source in _LOADED:
        return plugin
    if plugin.name in loaded():
        raise InputError(
            f"Expected plugins with different names, but got two called {plugin.name}: rename "
            "one of the files.",
            code="ambiguous",
        )
    try:
        if plugin.source.endswith(".py"):
            # Its own name among modules, and what was hashed: neither another module nor a stale
            # cache.
            module = ModuleType(f"checkwise_plugin_{Path(plugin.source).stem}")
            module.__file__ = plugin.source
            sys.modules[module.__name__] = module
            exec(compile(content, plugin.source, "exec"), module.__dict__)
        else:
            importlib.import_module(plugin.source)
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


def _unloadable(source: str, error: BaseException) -> InputError:
    return InputError(
        f"Expected --plugin to name a Python file or module, but {source!r} cannot be loaded: "
        f"{_reason(error)}.",
        code="format",
    )


def _reason(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
