"""Lay a case of the material out as the trainer left it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """One training.

    Args:
        trainer: what wrote the log.
        name: which of its trainings.
    """

    trainer: str
    name: str

    @property
    def folder(self) -> Path:
        """Where the material is."""
        return HERE / self.trainer / self.name

    def expected(self) -> list[dict[str, Any]]:
        """What each run reported about itself while it trained."""
        text = (self.folder / "expected.json").read_text(encoding="utf-8")
        runs: list[dict[str, Any]] = json.loads(text)["runs"]
        return runs

    def names(self) -> list[str]:
        """Every file that the training left."""
        lines = (self.folder / "tree.txt").read_text(encoding="utf-8").splitlines()
        return [line.split(maxsplit=1)[1] for line in lines]

    def unpack(self, into: Path) -> Path:
        """The folder of the training: logs as they were, every other file empty."""
        return self.lay_out(into / self.trainer / self.name)

    def lay_out(self, root: Path) -> Path:
        """The same in a folder that the caller names."""
        shutil.copytree(self.folder / "files", root, dirs_exist_ok=True)
        for name in self.names():
            path = root / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        return root


def cases(trainer: str = "*") -> Iterator[Case]:
    """All cases, or those of one trainer."""
    for file in sorted(HERE.glob(f"{trainer}/*/expected.json")):
        yield Case(file.parent.parent.name, file.parent.name)
