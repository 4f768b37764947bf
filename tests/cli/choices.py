"""What ``select -o choice.json`` writes, without the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import checkwise as cw
from checkwise.cli.handover import write_choice
from checkwise.cli.options import Choosing, Reading


def choose(path: Path, out: Path, reading: Any = None, **settings: Any) -> int:
    """Write the choice in the first run of a path; its step."""
    read, choosing = Reading(**(reading or {})), Choosing(**settings)
    runs = read.load_runs(path, choosing.choice)
    key, chosen = next((key, cw.select(run, choosing.choice)) for key, run in runs.items())
    answer = {"run": key.as_dict(), "selection": chosen.as_dict()}
    write_choice(out, path, read, choosing, answer, chosen)
    return chosen.step
