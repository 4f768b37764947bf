"""The trackers' stores in ``tests/material/trackers``, and what their own readers say of them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from checkwise.readers import Request
from checkwise.readers.log import Log
from checkwise.readers.registry import Reader

MATERIAL = Path(__file__).parents[2] / "material" / "trackers"
ELSEWHERE = "/home/user/project"


def build(name: str, path: Path, *, here: bool = False, changes: str = "") -> Path:
    """A database from its dump; ``here`` says that it was written where it is built."""
    text = (MATERIAL / f"{name}.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(text.replace(ELSEWHERE, str(path.parent)) if here else text)
        connection.executescript(changes)
        connection.commit()
    return path


def own_reading(name: str) -> Any:
    """What the tracker's own reader returned when the store was written."""
    return json.loads((MATERIAL / f"{name}.json").read_text(encoding="utf-8"))


def logs_in(reader: Reader, path: Path) -> list[Log]:
    """What a reader of logs makes of a path."""
    return [log for log in reader.read(path, Request()) if isinstance(log, Log)]


def cells(log: Log, name: str) -> list[tuple[float, float]]:
    """Step and number of every cell of a column."""
    points = log.points(name)
    return [
        (step, float(cell)) for step, cell in zip(points.steps.tolist(), points.cells, strict=True)
    ]


def listing(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
