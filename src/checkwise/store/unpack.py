"""A cohort's folder from a packed one: complete and marked as opened, or not at all."""

from __future__ import annotations

import io
import lzma
import os
import re
import tarfile
from pathlib import Path
from typing import Final

from checkwise.errors import CheckwiseError, InputError
from checkwise.store import layout
from checkwise.store.new_folder import check_new, new_folder
from checkwise.store.pack import check_whole
from checkwise.store.registration import LOG, mark_opened

# What `pack` writes, and nothing else.
_MEMBERS: Final = re.compile(
    rf"{re.escape(layout.COHORT)}|{re.escape(LOG)}|{layout.RUNS}/(?!\.)[^/\\\0]+/"
    rf"({re.escape(layout.RUN)}|{re.escape(layout.SOURCE)}|{layout.DONE}|"
    rf"{layout.HELDOUT}/(?!\.)[^/\\\0]+\.jsonl)"
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
            f"the {layout.PACKED} file; a study's folder needs no unpacking.",
            code="unsupported",
        )
    members = _members(file)
    if layout.COHORT not in members:
        raise InputError(
            f"Expected a packed study (of `checkwise study pack`), but {file} holds no "
            f"{layout.COHORT}: it is another archive.",
            code="damaged",
        )
    with new_folder(out) as place:
        # The mark comes before the journals: at no time do they lie anywhere without it.
        of_runs = {name for name in members if name not in (layout.COHORT, LOG)}
        for name in members.keys() - of_runs:
            _write(place / name, members[name])
        mark_opened(place)
        for name in of_runs:
            _write(place / name, members[name])
        _check(place, file)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _check(place: Path, file: Path) -> None:
    """Refuse an archive unless it holds exactly the planned runs, each as it finished."""
    try:
        planned = {folder.name for folder in check_whole(place).values()}
    except CheckwiseError as error:
        inside = str(error).replace(f"{place}{os.sep}", "")
        reason = inside.replace(str(place), "the archive").rstrip(".")
    else:
        unplanned = sorted({folder.name for folder in (place / layout.RUNS).iterdir()} - planned)
        if not unplanned:
            return
        reason = f"the run {unplanned[0]} is not in the plan"
    raise InputError(
        f"Expected a packed study (of `checkwise study pack`), but {file} is not whole ({reason}): "
        "fetch it again, or pack the study again.",
        code="damaged",
    )


def _members(file: Path) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    try:
        with lzma.open(file) as compressed:
            content = compressed.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise InputError(
                f"Expected less than 1 GiB of journals, but {file} holds more.", code="unsupported"
            )
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for entry in archive:
                # A sparse file may claim any size, whatever the archive holds.
                plain = entry.isreg() and not entry.issparse() and entry.size <= LARGEST
                known = plain and _MEMBERS.fullmatch(entry.name)
                body = archive.extractfile(entry) if known else None
                if body is None:
                    raise InputError(
                        "Expected nothing but a study's records as plain files inside "
                        f"{file}, but got {entry.name!r}: it is not a packed study.",
                        code="outside",
                    )
                if entry.name in members:
                    raise InputError(
                        f"Expected each file once inside {file}, but got {entry.name!r} twice: it "
                        "is not a packed study.",
                        code="damaged",
                    )
                members[entry.name] = body.read()
    except InputError:
        raise
    except ValueError as error:  # tarfile lets it through where a header has no number
        raise InputError(
            f"Expected a packed study (of `checkwise study pack`), but the headers in {file} are "
            f"damaged ({error}): it is not a packed study.",
            code="damaged",
        ) from None
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError) as error:
        raise InputError(
            f"Expected a packed study (of `checkwise study pack`), but {file} cannot be read "
            f"({error}): fetch it again.",
            code="system",
        ) from None
    return members
