"""What ``select -o choice.json`` writes, without the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import checkwise as cw
from checkwise.cli.handover import write_choice
from checkwise.cli.options import Choosing, Reading


def choose(path: Path, out: Path, reading: Any = None, **settings: Any) -> int:
    """Write the choice in the runs of a path; the step in the first."""
    read, choosing = Reading(**(reading or {})), Choosing(**settings)
    runs = read.load_runs(path, choosing.choice)
    chosen = {key: cw.select(run, choosing.choice) for key, run in runs.items()}
    entries = [{"run": k.as_dict(), "selection": s.as_dict()} for k, s in chosen.items()]
    write_choice(out, path, read, choosing, entries, chosen)
    return next(iter(chosen.values())).step
