"""CONTRIBUTING names files and tests that exist, and its tree lists every package."""

from __future__ import annotations

import re
from pathlib import Path

import checkwise

ROOT = Path(__file__).parents[2]
PACKAGE = Path(checkwise.__file__).parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?)`", TEXT)
    assert len(named) > 20
    absent = [path for path in named if not ((PACKAGE / path).exists() or (ROOT / path).exists())]
    assert not absent


def test_the_tree_lists_every_package() -> None:
    tree = TEXT.split("```")[1]
    packages = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file()}
    assert packages <= set(re.findall(r"\b([a-z]+)/", tree))
