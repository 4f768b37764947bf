"""A file appears whole where it was asked for; what is no file is left as it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from checkwise.errors import InputError
from checkwise.store import copy_checkpoint, write_bytes, write_text


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    target, link, again = tmp_path / "deep" / "page", tmp_path / "link", tmp_path / "again"
    target.write_text("old")
    link.symlink_to(Path("deep") / "page")
    again.symlink_to(link)
    write_text(again, "new")
    assert link.is_symlink()
    assert again.is_symlink()
    assert target.read_text() == "new"
    assert sorted(p.name for p in target.parent.iterdir()) == ["page"]


def test_a_link_to_nothing_yet_makes_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "page")
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "page").read_bytes() == b"new"


@pytest.mark.parametrize("through_link", [False, True])
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_refused_and_stays(
    kind: str, through_link: bool, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    if kind == "pipe":
        os.mkfifo(there)
    else:
        there.mkdir()
    before = there.stat()
    asked = there
    if through_link:
        asked = tmp_path / "link"
        asked.symlink_to(there)
    other = tmp_path / "other"
    other.write_text("x")
    with pytest.raises(InputError, match=f"is a {kind}: choose another"):
        write_text(asked, "x")
    with pytest.raises(InputError, match=f"is a {kind}: choose another"):
        copy_checkpoint(other, asked)
    now = there.stat()
    assert (now.st_ino, stat.S_IFMT(now.st_mode)) == (before.st_ino, stat.S_IFMT(before.st_mode))
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {"there", "other"} | ({"link"} if through_link else set())
