"""A cohort's journals in one small file, byte for byte; weights and predictions stay behind.

The file is a tar archive compressed with xz: the plan, and per run its configuration, journals and
mark, without the checksums of what stays behind. Unpacked it is a cohort like any other.
"""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from checkwise.errors import InputError
from checkwise.store import layout
from checkwise.store.atomic import write_bytes, write_with
from checkwise.store.cohort import open_cohort
from checkwise.store.registration import LOG, mark_opened, read_log
from checkwise.store.run import fingerprint, finished

SUFFIX = layout.PACKED
LARGEST = 2**30  # bytes after decompression; a cohort's journals are far smaller


def pack(cohort: Path, out: Path) -> int:
    """Write the finished runs of a cohort into ``out``; returns how many there are.

    Raises:
        InputError: a planned run is not finished, or its journals are not as it left them, or
            the log of registrations is damaged.
    """
    runs = open_cohort(cohort).runs
    waiting = [folder.name for folder in runs.values() if not finished(folder)]
    if waiting:
        raise InputError(
            f"Expected a finished cohort, but {len(waiting)} of {len(runs)} runs of {cohort} are "
            f"not finished (first {waiting[0]}): give the same `checkwise sweep` again."
        )
    read_log(cohort)
    names = [layout.COHORT, *([LOG] if (cohort / LOG).is_file() else [])]
    for folder in runs.values():
        _check_unchanged(folder)
        below = folder.relative_to(cohort).as_posix()
        held_out = sorted(f.name for f in (folder / layout.HELDOUT).glob("*.jsonl"))
        files = [layout.RUN, layout.SOURCE, *(f"{layout.HELDOUT}/{f}" for f in held_out)]
        names += [f"{below}/{file}" for file in (*files, layout.DONE)]
    # Files of one kind lie together: their numbers compress better beside their like.
    names.sort(key=lambda name: (PurePosixPath(name).name, name))

    def write(path: Path) -> None:
        with (
            lzma.open(path, "wb", preset=9 | lzma.PRESET_EXTREME) as compressed,
            tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name in names:
                content = _content(cohort / name)
                entry = tarfile.TarInfo(name)  # no times, owners or modes of this machine
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))

    write_with(out, write)
    return len(runs)


def _content(path: Path) -> bytes:
    """A file as it is; of a run's mark, what it says about the files that come along."""
    if path.name != layout.DONE:
        return path.read_bytes()
    mark = layout.read_json(path)
    return layout.encode_json({**mark, "files": _packed(mark)}).encode()


def _packed(mark: Mapping[str, Any]) -> dict[str, Any]:
    """What a run's mark says about the files that are packed."""
    left_out = (layout.CHECKPOINTS, layout.PREDICTIONS, layout.AVERAGES)
    return {name: f for name, f in mark["files"].items() if not name.startswith(left_out)}


def _check_unchanged(folder: Path) -> None:
    for name, expected in _packed(layout.read_json(folder / layout.DONE)).items():
        if not (folder / name).is_file() or fingerprint(folder / name) != expected:
            raise InputError(
                f"Expected the records that the run finished with, but {folder / name} was changed "
                "or removed since: `checkwise verify` says what to do."
            )


def unpack(file: Path, out: Path) -> None:
    """Make a cohort's folder from a packed one; ``out`` must not exist or be empty.

    Whoever has the file can read its held-out journals: the new cohort is marked as opened.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"Expected a new folder, but {out} is a file: choose another.")
    if out.exists() and any(out.iterdir()):
        raise InputError(f"Expected a new folder, but {out} is not empty: choose another.")
    if file.is_dir():
        raise InputError(
            f"Expected a packed cohort (made by `checkwise pack`), but {file} is a folder: give "
            f"the {SUFFIX} file; a cohort's folder needs no unpacking."
        )
    members = dict(_members(file))
    if layout.COHORT not in members:
        raise InputError(
            f"Expected a packed cohort (made by `checkwise pack`), but {file} holds no "
            f"{layout.COHORT}: it is another archive."
        )
    for name, content in members.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)
    mark_opened(out)


def _members(file: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with lzma.open(file) as compressed:
            content = compressed.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise InputError(f"Expected less than 1 GiB of journals, but {file} holds more.")
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for entry in archive:
                body = archive.extractfile(entry) if entry.isreg() and _safe(entry.name) else None
                if body is None:
                    raise InputError(
                        f"Expected plain files inside {file}, but got {entry.name!r}: it is not a "
                        "packed cohort."
                    )
                yield entry.name, body.read()
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError) as error:
        raise InputError(
            f"Expected a packed cohort (made by `checkwise pack`), but {file} cannot be read "
            f"({error}): fetch it again."
        ) from None


def _safe(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name
