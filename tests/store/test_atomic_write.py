"""A file appears whole where it was asked for; what is no file is left as it is."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkwise.deployed.bundle import BundleFile, write_bundle
from checkwise.errors import InputError
from checkwise.integrations.folder import Place
from checkwise.store import Home, copy_checkpoint, delete_others, write_bytes, write_text


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


def finish(folder: Path) -> None:
    place = Place(folder / "new.ckpt")
    place.part.write_bytes(b"new")
    place.finish()


def bundle(folder: Path) -> None:
    write_bundle(folder / "out", [BundleFile("members/a", b"x")], {})


# What has to reach the disk before a name or a deletion that relies on it, and what after it.
ORDERS: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "write": (
        lambda folder: write_text(folder / "file", "new"),
        ("sync file < rename file < sync .",),
    ),
    "copy a folder": (
        lambda folder: copy_checkpoint(folder / "old", folder / "copy"),
        ("sync copy/w < rename copy < sync .", "sync copy < rename copy"),
    ),
    "delete a file": (
        lambda folder: delete_others(
            {1: folder / "1.pt", 2: folder / "2.pt"}, (), home=Home((folder,))
        ),
        ("sync 2.pt < unlink 1.pt", "sync . < unlink 1.pt"),
    ),
    "delete a folder": (
        lambda folder: delete_others(
            {1: folder / "old", 2: folder / "2.pt"}, (), home=Home((folder,))
        ),
        ("sync 2.pt < rename old < sync . < unlink w",),
    ),
    "save a checkpoint": (
        finish,
        ("sync new.ckpt < sync .new.ckpt.saving < rename new.ckpt < sync .",),
    ),
    "deploy": (
        bundle,
        (
            "sync out/members/a < rename out < sync .",
            "sync out/deployed.json < rename out",
            "sync out/members < rename out",
            "sync out < rename out",
        ),
    ),
}


@pytest.mark.parametrize("operation", ORDERS)
def test_a_power_cut_finds_on_the_disk_what_a_name_or_a_deletion_relies_on(
    operation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, orders = ORDERS[operation]
    (tmp_path / "old").mkdir()
    for name in ("old/w", "1.pt", "2.pt"):
        (tmp_path / name).write_text(f"content of {name}")
    said = recorded(tmp_path, monkeypatch, work)
    for order in orders:
        left = iter(said)
        assert all(step in left for step in order.split(" < ")), (order, said)


def recorded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Path], object]
) -> list[str]:
    """What work syncs, renames and unlinks, by the names that files have before or after it.

    A file counts as synced with the content that it has in the end.
    """
    called: list[tuple[str, Any]] = []
    names: dict[Any, str] = {}

    def state(of: Any) -> tuple[int, int]:
        status = os.stat(of)
        return status.st_ino, status.st_size if stat.S_ISREG(status.st_mode) else -1

    def look() -> None:
        for path in (folder, *folder.rglob("*")):
            names[state(path)] = str(path.relative_to(folder))

    def record(name: str, describe: Callable[[Any], Any]) -> None:
        real = getattr(os, name)

        def call(path: Any, *others: Any, **options: Any) -> Any:
            called.append((name, describe(path)))
            return real(path, *others, **options)

        monkeypatch.setattr(os, name, call)

    look()
    for name in ("fsync", "rename", "replace"):
        record(name, state)
    record("unlink", os.path.basename)
    work(folder)
    monkeypatch.undo()
    look()
    words = {"fsync": "sync", "replace": "rename"}
    return [f"{words.get(name, name)} {names.get(of, of)}" for name, of in called]
