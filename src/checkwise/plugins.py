"""Your own files and modules of rules, metrics and algorithms, loaded with ``--plugin``.

Records keep a plugin's name and the SHA-256 of its file. A plugin is imported only when a person
names it, never because a record does.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from checkwise.errors import CheckwiseError, InputError


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
