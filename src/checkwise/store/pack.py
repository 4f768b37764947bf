"""A cohort's journals in one small file, byte for byte; weights and predictions stay behind.

The file is a tar archive compressed with xz: the plan, and per run its configuration, journals and
mark, without the checksums of what stays behind. Unpacked it is a cohort like any other.
"""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import layout
from checkwise.store.atomic_write import write_with
from checkwise.store.cohort import open_cohort
from checkwise.store.done import Fingerprint, fingerprint, finished, read_mark
from checkwise.store.registration import LOG, read_log
from checkwise.store.run import read_run
from checkwise.store.safe_read import has_file, read_file

SUFFIX: Final = layout.PACKED
LEFT_BEHIND: Final = (layout.CHECKPOINTS, layout.PREDICTIONS, layout.AVERAGES)


def pack(cohort: Path, out: Path) -> int:
    """Write the finished runs of a cohort into ``out``; returns how many there are.

    Held-out journals are copied and shown to nobody: the cohort itself is not marked as opened.
    What ``unpack`` makes of the file is.

    Raises:
        InputError: a planned run is not finished, or its journals are not as it left them, or
            the log of registrations is damaged.
    """
    runs = check_whole(cohort)
    names = [layout.COHORT, *([LOG] if has_file(cohort, LOG) else [])]
    for folder in runs.values():
        below = folder.relative_to(cohort).as_posix()
        files = (layout.RUN, layout.SOURCE, *heldout_files(folder), layout.DONE)
        names += [f"{below}/{file}" for file in files]
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
        return read_file(path.parent, path.name)
    mark = layout.read_json(path)
    return layout.encode_json({**mark, "files": packed_part(path.parent)}).encode()


def check_whole(cohort: Path) -> Mapping[RunKey, Path]:
    """The runs of a cohort, all of them finished and with the journals that they finished with.

    Raises:
        InputError: one is not, or the log of registrations is damaged.
    """
    runs = open_cohort(cohort).runs
    waiting = [folder.name for folder in runs.values() if not finished(folder)]
    if waiting:
        raise InputError(
            f"Expected a finished cohort, but {len(waiting)} of {len(runs)} runs of {cohort} are "
            f"not finished (first {waiting[0]}): run the same `checkwise sweep` again."
        )
    read_log(cohort)
    for folder in runs.values():
        _check_unchanged(folder)
    return runs


def packed_part(folder: Path) -> dict[str, Fingerprint]:
    """What a run's mark says about the files that are packed."""
    files = read_mark(folder).files
    return {name: noted for name, noted in files.items() if not name.startswith(LEFT_BEHIND)}


def heldout_files(folder: Path) -> list[str]:
    """The journals on held-out domains that a run has."""
    return sorted(f"{layout.HELDOUT}/{f.name}" for f in (folder / layout.HELDOUT).glob("*.jsonl"))


def _check_unchanged(folder: Path) -> None:
    files = packed_part(folder)
    for name in {**files, **dict.fromkeys(heldout_files(folder))}:
        present = has_file(folder, name)
        if not present or name not in files or fingerprint(folder, name) != files[name]:
            what = "changed or removed" if name in files else "added"
            raise InputError(
                f"Expected the records that the run finished with, but {folder / name} was {what} "
                "since: `checkwise verify` says what to do."
            )
    read_run(folder)
