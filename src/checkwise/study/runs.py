"""The finished runs of a cohort, read from disk when first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from checkwise.errors import InputError
from checkwise.records import RunKey, Trajectory
from checkwise.store import layout
from checkwise.store.run import read_records, read_trajectory


class Runs(Mapping[RunKey, Trajectory]):
    """Finished runs by key; each is read from disk when first asked for."""

    def __init__(self, folders: Mapping[RunKey, Path]):
        self._folders = folders
        self._read: dict[RunKey, Trajectory] = {}

    def __getitem__(self, key: RunKey) -> Trajectory:
        if key not in self._read:
            self._read[key] = read_trajectory(self._folders[key])
        return self._read[key]

    def folder(self, key: RunKey) -> Path:
        """Where a run is."""
        return self._folders[key]

    def wrecked(self, key: RunKey) -> bool:
        """Whether every checkpoint of a run diverged, so that it is no trajectory."""
        try:
            return not self[key]
        except InputError:
            lines = read_records(self._folders[key], layout.SOURCE)
            if lines and all(line.get("diverged") for line in lines):
                return True
            raise

    def __iter__(self) -> Iterator[RunKey]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)
