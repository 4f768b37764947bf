"""What a callback left in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ask import Side


def contents(side: Side, folder: Path) -> dict[str, object]:
    """The names of all files, the journals, and what is chosen of the folder afterwards."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    journals = [file for file in files if file.suffix == ".jsonl"]
    return {
        "files": [str(file.relative_to(folder)) for file in files],
        "journals": {str(file.relative_to(folder)): side.read(file) for file in journals},
        "select": side.run("select", folder, "--json"),
    }
