"""A cohort's journals in one small file, byte for byte; weights and predictions stay behind.

The file is a tar archive compressed with xz: the plan, and per run its configuration, journals and
mark, without the checksums of what stays behind. Unpacked it is a cohort like any other.
"""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path, PurePosixPath

from checkwise.store import layout
from checkwise.store.files import write_with
from checkwise.store.inside import has_file, read_file
from checkwise.store.registration import LOG
from checkwise.store.unpack import unpack
from checkwise.store.whole import check_whole, heldout_files, packed_part

__all__ = ["SUFFIX", "pack", "unpack"]

SUFFIX = layout.PACKED


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
