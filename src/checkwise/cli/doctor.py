"""``checkwise doctor``: what is installed, what is missing, and what would be used."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import checkwise
from checkwise.cli import printing
from checkwise.cli.command import command
from checkwise.cli.options import json_option
from checkwise.cli.printing import print_json
from checkwise.errors import InputError
from checkwise.plugins import offered
from checkwise.study.data import cache_place
from checkwise.study.sweep import ExecutorSettings, worker_count
from checkwise.words import bytes_shown

REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?P<bounds>[^;]*)(?:;.*extra == ['\"](?P<extra>[^'\"]+))?"
)
AT_LEAST = re.compile(r">=\s*([0-9.]+)")
KERAS_BACKENDS = ("torch", "tensorflow", "jax")  # those that train


@dataclass(frozen=True)
class Package:
    """One requirement: the version that is there, if any, and the oldest that will do."""

    name: str
    extra: str
    installed: str | None
    least: str

    @property
    def too_old(self) -> bool:
        """Whether it is there, but older than what is asked for."""
        return self.installed is not None and _numbers(self.installed) < _numbers(self.least)

    @property
    def lacks(self) -> str:
        """What it cannot do without and pip does not bring: a backend of Keras."""
        if self.name != "keras" or self.installed is None:
            return ""
        there = [name for name in KERAS_BACKENDS if _is_there(name)]
        named = os.environ.get("KERAS_BACKEND")
        if named and not _is_there(named):
            return f"KERAS_BACKEND is {named}, which is not installed"
        if not there:
            return f"no backend: install one of {', '.join(KERAS_BACKENDS)}"
        usual = named or _keras_setting()
        return "" if _is_there(usual) else f"set KERAS_BACKEND={there[0]} before it is imported"

    @property
    def fine(self) -> bool:
        """Whether it can be used."""
        return self.installed is not None and not self.too_old and not self.lacks

    def __str__(self) -> str:
        if self.installed is None:
            return f"{self.name} missing"
        needs = f"needs {self.least}" if self.too_old else self.lacks
        return f"{self.name} {self.installed}" + (f" ({needs})" if needs else "")


@command("doctor")
@json_option
def doctor_command(as_json: bool) -> int:
    """Show versions, extras, caches and cores. Exit code 1 if something that is needed is wrong."""
    packages = list(_packages())
    facts = _machine()
    wrong = [
        f"{package}: pip install --upgrade checkwise"
        for package in packages
        if not package.extra and not package.fine
    ]
    if fault := facts["cache"].get("fault"):
        wrong.append(f"cache: {fault}")
    if as_json:
        extras = [asdict(package) | {"fine": package.fine} for package in packages]
        print_json("doctor", {**facts, "packages": extras, "fine": not wrong})
    else:
        _show(facts, packages, wrong)
    return 1 if wrong else 0


def _packages() -> Iterator[Package]:
    """What the installed distribution asks for."""
    try:
        asked = requires("checkwise") or []
    except PackageNotFoundError as error:
        raise InputError(
            "Expected an installed checkwise, but it runs from its source code alone: "
            "pip install -e . in that folder.",
            code="system",
        ) from error
    for text in asked:
        found = REQUIREMENT.match(text)
        if found is None or found["name"] == "checkwise":
            continue
        least = AT_LEAST.search(found["bounds"])
        yield Package(
            found["name"],
            found["extra"] or "",
            _installed(found["name"]),
            least[1] if least else "",
        )


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # half installed, or hidden
        return False


def _keras_setting() -> str:
    """The backend that Keras takes where the environment names none."""
    folder = Path(os.environ.get("KERAS_HOME") or "~/.keras").expanduser()
    with suppress(OSError, ValueError, LookupError, TypeError):
        return str(json.loads((folder / "keras.json").read_bytes())["backend"])
    return "tensorflow"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


def _machine() -> dict[str, Any]:
    return {
        "checkwise": checkwise.__version__,
        "from": str(Path(checkwise.__file__).parent),
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "workers": worker_count(ExecutorSettings()),
        "cache": _cache(),
        "settings": {n: v for n, v in sorted(os.environ.items()) if n.startswith("CHECKWISE_")},
        "offered": {"rules": sorted(offered("rules")), "metrics": sorted(offered("metrics"))},
    }


def _cache() -> dict[str, Any]:
    """Where the cache is and how large, only by looking: it need not be there yet."""
    folder = cache_place()
    there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return {
            "folder": None,
            "fault": f"Expected a cache folder that can be written, but {there} cannot: make it "
            "writable, or set CHECKWISE_CACHE to another folder.",
        }
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return {"folder": str(folder), "files": len(sizes), "bytes": sum(sizes)}


def _show(facts: dict[str, Any], packages: list[Package], wrong: list[str]) -> None:
    core = [package for package in packages if not package.extra]
    header = ("extra", "state", "packages")
    cache = facts["cache"]
    size = f"{bytes_shown(cache.get('bytes', 0))} in {cache.get('files')} files"
    kinds = {kind: ", ".join(names) for kind, names in facts["offered"].items() if names}
    printing.say(
        f"checkwise {facts['checkwise']} in {facts['from']}",
        f"Python {facts['python']} ({facts['executable']}), {facts['system']}",
        f"needs: {', '.join(map(str, core))}",
        "",
        printing.table(header, list(_extras(packages)), left=header),
        "",
        *([f"cache: {cache['folder']}, {size}"] if cache["folder"] else []),
        f"study run would use {facts['workers']} workers, one per core",
        *(f"set: {name}={value}" for name, value in facts["settings"].items()),
        *(f"{kind} of installed packages: {names}" for kind, names in kinds.items()),
        *(f"wrong: {what}" for what in wrong),
        *([] if wrong else ["Everything that checkwise needs is there."]),
    )


def _extras(packages: list[Package]) -> Iterator[tuple[str, str, str]]:
    for extra in dict.fromkeys(package.extra for package in packages if package.extra):
        own = [package for package in packages if package.extra == extra]
        state = f"pip install 'checkwise[{extra}]'"
        if all(package.fine or package.lacks for package in own):
            state = "ready" if all(package.fine for package in own) else "not ready"
        yield extra, state, ", ".join(map(str, own))
