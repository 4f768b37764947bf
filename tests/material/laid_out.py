"""Put material where a page or a test wants it, as its trainer or tracker left it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.material.trainers.cases import Case

ROOT = Path(__file__).parents[2]


def lay_out(source: str, target: Path) -> None:
    """Copy a file or folder of this repository; a case of a trainer and a dump become whole.

    Args:
        source: the path of the material below the repository.
        target: what it is called there.
    """
    path = ROOT / source
    target.parent.mkdir(parents=True, exist_ok=True)
    if (path / "tree.txt").is_file():
        Case(path.parent.name, path.name).lay_out(target)
    elif path.suffix == ".sql":
        with closing(sqlite3.connect(target)) as database:
            database.executescript(path.read_text(encoding="utf-8"))
    elif path.is_dir():
        shutil.copytree(path, target)
    else:
        shutil.copy(path, target)
