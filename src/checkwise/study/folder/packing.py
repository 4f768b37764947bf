"""A cohort's journals in one small file, byte for byte, without weights and predictions.

The file is a tar archive compressed with xz. It holds the plan, and per run its configuration,
journals and ``done``, which lists only the files that come along. Unpacked it is a cohort like any
other.
"""

from __future__ import annotations

import io
import lzma
import os
import re
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from checkwise.errors import CheckwiseError, Code, InputError
from checkwise.records import RunKey
from checkwise.store import (
    AVERAGES_FOLDER,
    CHECKPOINTS_FOLDER,
    COHORT_FILE,
    DONE_FILE,
    HELDOUT_FOLDER,
    PACKED_SUFFIX,
    PREDICTIONS_FOLDER,
    RUN_FILE,
    RUNS_FOLDER,
    SOURCE_FILE,
    Fingerprint,
    check_new,
    encode_json,
    fingerprint,
    finished,
    has_file,
    new_folder,
    read_file,
    read_json,
    read_mark,
    read_run,
    write_with,
)
from checkwise.study.folder.cohort import open_cohort
from checkwise.study.folder.registration import LOG, mark_opened, read_log

SUFFIX: Final = PACKED_SUFFIX
LEFT_BEHIND: Final = (CHECKPOINTS_FOLDER, PREDICTIONS_FOLDER, AVERAGES_FOLDER)


def pack(cohort: Path, out: Path) -> int:
    """Write the finished runs of a cohort into ``out``; returns how many there are.

    Held-out journals are copied unread, so the cohort is not marked as opened. The cohort that
    ``unpack`` makes is.
    """
    runs = check_whole(cohort)
    names = [COHORT_FILE, *([LOG] if has_file(cohort, LOG) else [])]
    for folder in runs.values():
        below = folder.relative_to(cohort).as_posix()
        files = (RUN_FILE, SOURCE_FILE, *heldout_files(folder), DONE_FILE)
        names += [f"{below}/{file}" for file in files]
    # Files of one kind side by side compress better.
    names.sort(key=lambda name: (PurePosixPath(name).name, name))

    def write(path: Path) -> None:
        with (
            lzma.open(path, "wb", preset=9 | lzma.PRESET_EXTREME) as compressed,
            tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name in names:
                file = cohort / name
                content = read_file(file.parent, file.name)
                if file.name == DONE_FILE:  # with only the files that come along
                    mark = {**read_json(file), "files": packed_part(file.parent)}
                    content = encode_json(mark).encode()
                entry = tarfile.TarInfo(name)  # no times, owners or modes of this machine
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))

    write_with(out, write)
    return len(runs)


def check_whole(cohort: Path) -> Mapping[RunKey, Path]:
    """The runs of a cohort, if all are finished and their journals unchanged."""
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
        files = packed_part(folder)
        for name in {*files, *heldout_files(folder)}:
            if not has_file(folder, name) or files.get(name) != fingerprint(folder, name):
                raise InputError(
                    f"Expected the records that the run finished with, but {folder / name} was "
                    "changed, added or removed since: `checkwise study status --verify` says what "
                    "to do.",
                    code="damaged",
                )
        read_run(folder)
    return runs


def packed_part(folder: Path) -> dict[str, Fingerprint]:
    files = read_mark(folder).files
    return {name: known for name, known in files.items() if not name.startswith(LEFT_BEHIND)}


def heldout_files(folder: Path) -> list[str]:
    return sorted(f"{HELDOUT_FOLDER}/{f.name}" for f in (folder / HELDOUT_FOLDER).glob("*.jsonl"))


# What `pack` writes, and nothing else.
_MEMBERS: Final = re.compile(
    rf"{re.escape(COHORT_FILE)}|{re.escape(LOG)}|{RUNS_FOLDER}/(?!\.)[^/\\\0]+/"
    rf"({re.escape(RUN_FILE)}|{re.escape(SOURCE_FILE)}|{DONE_FILE}|"
    rf"{HELDOUT_FOLDER}/(?!\.)[^/\\\0]+\.jsonl)"
)
LARGEST: Final = 2**30  # bytes after decompression; a cohort's journals are far smaller


def unpack(file: Path, out: Path) -> None:
    """Make a cohort's folder from a packed one; ``out`` must not exist or be empty.

    The folder takes its name only when it is complete, so that a command that was killed leaves
    nothing there and can be run again. Whoever has the file can read its held-out journals, so the
    new cohort is marked as opened.
    """
    check_new(out)
    if file.is_dir():
        raise InputError(
            f"Expected a packed study (of `checkwise study pack`), but {file} is a folder: name "
            f"the {SUFFIX} file; a study's folder needs no unpacking.",
            code="unsupported",
        )
    members = _members(file)
    if COHORT_FILE not in members:
        raise _no_packed_study(file, f"holds no {COHORT_FILE}", "damaged")
    with new_folder(out) as place:

        def write(names: Iterable[str]) -> None:
            for name in names:
                path = place / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as written:
                    written.write(members[name])
                    written.flush()
                    os.fsync(written.fileno())

        # The mark comes before the journals: at no time do they lie anywhere without it.
        own = members.keys() & {COHORT_FILE, LOG}
        write(own)
        mark_opened(place)
        write(members.keys() - own)
        try:
            planned = {folder.name for folder in check_whole(place).values()}
        except CheckwiseError as error:
            inside = str(error).replace(f"{place}{os.sep}", "")
            reason = inside.replace(str(place), "the archive").rstrip(".")
            raise _no_packed_study(file, f"is not whole ({reason})", "damaged") from None
        found = {folder.name for folder in (place / RUNS_FOLDER).iterdir()}
        if found != planned:
            reason = f"the run {min(found - planned)} is not in the plan"
            raise _no_packed_study(file, f"is not whole ({reason})", "damaged")


def _no_packed_study(file: Path, reason: str, code: Code) -> InputError:
    return InputError(
        f"Expected a packed study (of `checkwise study pack`), but {file} {reason}: fetch it "
        "again, or pack the study again.",
        code=code,
    )


def _members(file: Path) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    try:
        with lzma.open(file) as compressed:
            content = compressed.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise _no_packed_study(file, "holds more than 1 GiB of journals", "unsupported")
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for entry in archive:
                # A sparse file may claim any size, whatever the archive holds.
                plain = entry.isreg() and not entry.issparse() and entry.size <= LARGEST
                known = plain and _MEMBERS.fullmatch(entry.name)
                body = archive.extractfile(entry) if known else None
                if body is None:
                    reason = f"holds {entry.name!r}, which is no plain file of a study's records"
                    raise _no_packed_study(file, reason, "outside")
                if entry.name in members:
                    raise _no_packed_study(file, f"holds {entry.name!r} twice", "damaged")
                members[entry.name] = body.read()
    except InputError:
        raise
    except ValueError as error:  # tarfile lets it through where a header has no number
        raise _no_packed_study(file, f"has damaged headers ({error})", "damaged") from None
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError) as error:
        raise _no_packed_study(file, f"cannot be read ({error})", "system") from None
    return members
