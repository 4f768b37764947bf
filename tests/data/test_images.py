"""Image folders: order, decoding, the shared cache, and what is said about a bad folder."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from checkwise.errors import InputError
from checkwise.study.data import caches as manifest
from checkwise.study.data import images, open_image_folder
from checkwise.study.data.images import scan
from tests.refusals import refused, said


def test_domains_classes_and_files_are_in_sorted_order(folder: Path) -> None:
    data = open_image_folder(folder, size=8)
    assert data.name == "Zoo"
    assert data.kind == "images"
    assert data.domains == ("photo", "sketch")
    assert data.classes == ("cat", "dog", "emu")
    assert data.y[0].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert data.ids[1][:5] == (
        "sketch/cat/0.png",
        "sketch/cat/1.png",
        "sketch/cat/2.png",
        "sketch/cat/3.png",
        "sketch/dog/0.png",
    )


def test_every_pixel_is_pillow_s(folder: Path) -> None:
    data = open_image_folder(folder, size=6)
    for domain in range(2):
        assert isinstance(data.x[domain], np.memmap)
        for row, file in enumerate(data.ids[domain]):
            with Image.open(folder / file) as image:
                expected = image.convert("RGB").resize((6, 6), Image.Resampling.BICUBIC)
            assert np.array_equal(data.x[domain][row], np.asarray(expected))


def test_grey_palette_and_transparent_images_become_rgb(folder: Path) -> None:
    target = folder / "photo" / "cat"
    Image.new("L", (5, 5), 9).save(target / "a.png")
    Image.new("P", (5, 5)).save(target / "b.png")
    Image.new("RGBA", (5, 5), (1, 2, 3, 0)).save(target / "c.png")
    data = open_image_folder(folder, size=4)
    named = dict(zip(data.ids[0], data.x[0], strict=True))
    assert np.unique(named["photo/cat/a.png"]).tolist() == [9]
    assert named["photo/cat/c.png"][0, 0].tolist() == [1, 2, 3]


def test_an_image_is_decoded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    original = images.decode

    def counting(content: bytes, size: int) -> NDArray[np.uint8]:
        decoded.append(size)
        return original(content, size)

    monkeypatch.setattr(images, "decode", counting)
    for _ in range(3):
        data = open_image_folder(folder, size=8)
        assert data.rows(0, np.array([3, 3])).shape == (2, 8, 8, 3)
    assert len(decoded) == 24


def test_equal_content_elsewhere_shares_the_cache(folder: Path, own_cache: Path) -> None:
    first = open_image_folder(folder, size=8)
    copy = folder.with_name("Copy")
    shutil.copytree(folder, copy)
    second = open_image_folder(copy, size=8)
    assert second.fingerprint == first.fingerprint
    assert len(list((own_cache / "images").glob("*.npy"))) == 1


def test_the_fingerprint_follows_content_names_and_size(folder: Path) -> None:
    before = open_image_folder(folder, size=8).fingerprint
    assert open_image_folder(folder, size=9).fingerprint != before
    file = folder / "photo" / "cat" / "0.png"
    content = file.read_bytes()
    Image.new("RGB", (8, 10), (1, 2, 3)).save(file)
    changed = open_image_folder(folder, size=8)
    assert changed.fingerprint != before
    assert np.unique(changed.x[0][0], axis=None).tolist() == [1, 2, 3]
    file.write_bytes(content)
    assert open_image_folder(folder, size=8).fingerprint == before
    file.rename(file.with_name("00.png"))
    assert open_image_folder(folder, size=8).fingerprint != before


def test_a_file_swapped_with_its_old_times_is_noticed(folder: Path) -> None:
    file, other = folder / "photo" / "cat" / "0.png", folder / "photo" / "cat" / "1.png"
    old = 1_000_000_000
    for path in (file, other):
        path.write_bytes(path.read_bytes().ljust(2000, b"\0"))
        os.utime(path, (old, old))
    before = open_image_folder(folder, size=8).fingerprint
    shutil.copy2(other, file)
    assert file.stat().st_mtime == old
    assert open_image_folder(folder, size=8).fingerprint != before


def test_an_image_that_changes_while_it_is_read_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        images, "content_hashes", lambda root, files, **_: ["0" * 64 for _ in files]
    )
    with refused("format"):
        open_image_folder(folder, size=8)


@pytest.mark.parametrize(("coarse_clock", "hashed_again"), [(0, 0), (2_000_000_000, 24)])
def test_only_settled_files_are_trusted_without_hashing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, coarse_clock: int, hashed_again: int
) -> None:
    hashed: list[Path] = []
    original = manifest._hash_file

    def counting(path: Path) -> str:
        hashed.append(path)
        return original(path)

    monkeypatch.setattr(manifest, "_hash_file", counting)
    monkeypatch.setattr(manifest, "_COARSE_CLOCK_NS", coarse_clock)
    time.sleep(0.05)
    open_image_folder(folder, size=8)
    assert len(hashed) == 24
    open_image_folder(folder, size=8)
    assert len(hashed) == 24 + hashed_again


def test_a_damaged_manifest_is_ignored(folder: Path, own_cache: Path) -> None:
    before = open_image_folder(folder, size=8).fingerprint
    (stored,) = (own_cache / "manifests").glob("*.json")
    for content in (b"{", b"[]", b'{"schema": 99, "files": []}', b'{"schema": 1, "files": [[1]]}'):
        stored.write_bytes(content)
        assert open_image_folder(folder, size=8).fingerprint == before


def test_hidden_and_other_files_are_not_images(folder: Path) -> None:
    before = open_image_folder(folder, size=8).fingerprint
    for name in (".DS_Store", "._0.png", "readme.txt", "Thumbs.db"):
        (folder / "photo" / "cat" / name).write_bytes(b"x")
    (folder / ".git" / "x").mkdir(parents=True)
    (folder / "notes.txt").write_text("x")
    assert open_image_folder(folder, size=8).fingerprint == before


def test_unreadable_images_are_all_named(folder: Path, own_cache: Path) -> None:
    (folder / "photo" / "cat" / "1.png").write_bytes(b"not an image")
    whole = (folder / "sketch" / "emu" / "2.png").read_bytes()
    (folder / "sketch" / "emu" / "2.png").write_bytes(whole[: len(whole) // 2])
    with refused("format: 2") as caught:
        open_image_folder(folder, size=8)
    assert "photo/cat/1.png" in str(caught.value)
    assert "sketch/emu/2.png" in str(caught.value)
    assert said(caught.value, "format")
    assert not list((own_cache / "images").glob("*.partial"))


def test_a_broken_link_is_named(folder: Path) -> None:
    (folder / "photo" / "cat" / "9.png").symlink_to(folder / "gone.png")
    with refused("system: No such file … photo/cat/9.png"):
        open_image_folder(folder, size=8)


@pytest.mark.parametrize("kind", ["absent", "empty", "file"])
def test_a_root_without_images_is_refused(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "root"
    if kind == "empty":
        root.mkdir()
    elif kind == "file":
        root.write_text("x")
    with pytest.raises(InputError, match=r"Expected .*domain/class/file"):
        scan(root)


def test_a_cache_that_cannot_be_written_says_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "occupied").write_text("x")
    monkeypatch.setenv("CHECKWISE_CACHE", str(tmp_path / "occupied" / "cache"))
    with refused("system: CHECKWISE_CACHE"):
        open_image_folder(folder, size=8)


def test_a_folder_that_is_no_data_set_gets_a_short_answer(tmp_path: Path) -> None:
    for domain in range(20):
        for name in range(30):
            (tmp_path / f"d{domain}" / f"only-in-{domain}-{name}").mkdir(parents=True)
    with pytest.raises(InputError) as refused:
        scan(tmp_path)
    assert "so do 15 more" in str(refused.value)
    assert len(str(refused.value)) < 2000


NAMES = [
    "a b.png",
    "ünï😀.PNG",
    "-rf.png",
    "quote'\".png",
    "new\nline.png",
    "%s{0}.png",
    "$HOME.png",
]


def test_odd_file_names_are_just_names(folder: Path) -> None:
    place = folder / "photo" / "dog"
    for name in NAMES:
        shutil.copy(place / "0.png", place / name)
    with suppress(OSError):  # where this file system allows names that are not UTF-8
        shutil.copy(place / "0.png", place / os.fsdecode(b"\xff\xfe.png"))
    first = open_image_folder(folder, size=8)
    assert {f"photo/dog/{name}" for name in NAMES} <= {*first.ids[0]}
    assert open_image_folder(folder, size=8).fingerprint == first.fingerprint


def _emptied(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


BAD: dict[str, Callable[[Path], object]] = {
    "differs: 'sketch' lacks 'dog'": lambda zoo: shutil.rmtree(zoo / "sketch" / "dog"),
    "empty: photo/emu": lambda zoo: _emptied(zoo / "photo" / "emu"),
    "format: 'more'": lambda zoo: (zoo / "photo" / "cat" / "more").mkdir(),
}


@pytest.mark.parametrize("expected", BAD)
def test_what_is_no_data_set_is_named(folder: Path, expected: str) -> None:
    BAD[expected](folder)
    with refused(expected):
        scan(folder)
