"""A cohort's journals in one small file, byte for byte, without weights and predictions.

The file is a tar archive compressed with xz. It holds the plan, and per run its configuration,
journals and ``done``, which lists only the files that come along. Unpacked it is a cohort like any
other.
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

    Held-out journals are copied unread, so the cohort is not marked as opened. The cohort that
    ``unpack`` makes is.

    Raises:
        InputError: a planned run is not finished, a journal changed since, or the log of
            registrations is damaged.
    """
    runs = check_whole(cohort)
    names = [layout.COHORT, *([LOG] if has_file(cohort, LOG) else [])]
    for folder in runs.values():
        below = folder.relative_to(cohort).as_posix()
        files = (layout.RUN, layout.SOURCE, *heldout_files(folder), layout.DONE)
        names += [f"{below}/{file}" for file in files]
    # Files of one kind side by side compress better.
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
    """A file as it is; ``done`` with only the files that come along."""
    if path.name != layout.DONE:
        return read_file(path.parent, path.name)
    mark = layout.read_json(path)
    return layout.encode_json({**mark, "files": packed_part(path.parent)}).encode()


def check_whole(cohort: Path) -> Mapping[RunKey, Path]:
    """The runs of a cohort, if all are finished and their journals unchanged.

    Raises:
        InputError: a run is not, or the log of registrations is damaged.
    """
    runs = open_cohort(cohort).runs
    unfinished = [folder.name for folder in runs.values() if not finished(folder)]
    if unfinished:
        raise InputError(
            f"Expected a finished study, but {len(unfinished)} of {len(runs)} runs of {cohort} "
            f"are not finished (first {unfinished[0]}): run the same `checkwise study run` again.",
            code="missing",
        )
    read_log(cohort)
    for folder in runs.values():
        _check_unchanged(folder)
    return runs


def packed_part(folder: Path) -> dict[str, Fingerprint]:
    """The fingerprints of those of a run's files that are packed."""
    files = read_mark(folder).files
    return {name: known for name, known in files.items() if not name.startswith(LEFT_BEHIND)}


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
                "since: `checkwise study status --verify` says what to do.",
                code="damaged",
            )
    read_run(folder)
