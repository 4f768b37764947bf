"""What a packed cohort holds of every run, and whether it is all there as the run left it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import layout
from checkwise.store.cohort import open_cohort
from checkwise.store.inside import has_file
from checkwise.store.mark import Fingerprint, fingerprint, finished, read_mark
from checkwise.store.registration import read_log
from checkwise.store.run import read_run

LEFT_BEHIND: Final = (layout.CHECKPOINTS, layout.PREDICTIONS, layout.AVERAGES)


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
