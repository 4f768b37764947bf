"""What some tests need and a fresh clone lacks: they skip with a reason, or fail where promised.

`CHECKWISE_REQUIRE` lists, comma separated, what must be there: `shared`, `chromium`, `node`,
`slurm`, `ray`, or `packages` for all that the group `dev` installs; also the name of one package. A
test that lacks a listed thing fails instead of skipping.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

NAMES = ("shared", "chromium", "node", "slurm", "ray", "packages")

_ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("CHECKWISE_SHARED", _ROOT.parent / "shared"))


def requires(
    name: str, present: bool | None = None, reason: str | None = None
) -> pytest.MarkDecorator:
    """A mark for tests, or a `pytestmark`, that need `name`; `present` says if it is there.

    For `shared` both may be left out: the folder beside the repository, or `CHECKWISE_SHARED`.
    """
    if name not in NAMES:
        raise ValueError(f"Expected one of {', '.join(NAMES)}, but got {name!r}.")
    if present is None:
        if name != "shared":
            raise ValueError(f"Expected `present` to be given for {name!r}, but got None.")
        present = SHARED.is_dir()
    why = reason or f"{name} is not available here"
    if not present and _promised(name):
        # pytest has no mark that fails a test; a fixture nobody defines does, with its name shown.
        return pytest.mark.usefixtures(f"{why} (CHECKWISE_REQUIRE lists {name})")
    return pytest.mark.skipif(not present, reason=why)


def package(name: str) -> Any:
    """Import a package of the group `dev`, or a module of one, if it is `available`."""
    available(name.partition(".")[0])
    return import_module(name)


def available(*names: str) -> None:
    """Go on, in a test or above a file's other imports, only if packages of `dev` are installed.

    Otherwise the test, or the whole file, skips, or fails if the package was promised.
    """
    for name in names:
        if find_spec(name) is not None:
            continue
        for promise in ("packages", name):
            if _promised(promise):
                pytest.fail(f"{name} is not installed (CHECKWISE_REQUIRE lists {promise})")
        pytest.skip(f"{name} is not installed", allow_module_level=True)


def _promised(name: str) -> bool:
    return name in os.environ.get("CHECKWISE_REQUIRE", "").split(",")
