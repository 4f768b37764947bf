"""What some tests need and a fresh clone lacks: they skip with a reason, or fail where promised.

`CHECKWISE_REQUIRE` lists, comma separated, what must be there (`shared`, `chromium`, `node`,
`slurm`, `ray`): a test that lacks a listed thing fails instead of skipping.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NAMES = ("shared", "chromium", "node", "slurm", "ray")

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
    if not present and name in os.environ.get("CHECKWISE_REQUIRE", "").split(","):
        # pytest has no mark that fails a test; a fixture nobody defines does, with its name shown.
        return pytest.mark.usefixtures(f"{why} (CHECKWISE_REQUIRE lists {name})")
    return pytest.mark.skipif(not present, reason=why)
