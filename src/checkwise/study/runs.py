"""The finished runs of a cohort, read when first asked for, and the processors they ran on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.metrics import Groups, Logits
from checkwise.records import RunKey, Trajectory
from checkwise.store import RUN_FILE, Validation, read_json, read_run


class Runs(Mapping[RunKey, Trajectory]):
    """Finished runs by key, read when asked for, with one of two validation sets or their own."""

    def __init__(self, folders: Mapping[RunKey, Path], validation: Validation | None = None):
        self._folders = folders
        self._validation = validation
        self._others: dict[Validation, Runs] = {}
        self._read: dict[RunKey, Trajectory] = {}

    def __getitem__(self, key: RunKey) -> Trajectory:
        if key not in self._read:
            self._read[key] = read_run(self._folders[key]).trajectory(self._validation)
        return self._read[key]

    def __iter__(self) -> Iterator[RunKey]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)

    def folder(self, key: RunKey) -> Path:
        return self._folders[key]

    def logits(self, key: RunKey, step: int) -> Logits:
        """Logits and labels of a run's validation set at one step."""
        return read_run(self._folders[key]).predictions(self._validation).logits(step)

    def groups(self, key: RunKey) -> Groups | None:
        """The independent units of the examples of that validation set, where they are known."""
        first = int(self[key].steps[0])
        return read_run(self._folders[key]).predictions(self._validation).groups(first)

    def validated_by(self, validation: Validation | None) -> Runs:
        if validation is None:
            return self
        return self._others.setdefault(validation, Runs(self._folders, validation))

    @cached_property
    def usable(self) -> dict[RunKey, Trajectory]:
        """Runs in which at least one checkpoint did not diverge."""
        return {key: self[key] for key in self if not self._wrecked(key)}

    def _wrecked(self, key: RunKey) -> bool:
        try:
            return not self[key]
        except InputError:
            if read_run(self._folders[key]).all_diverged:
                return True
            raise


def machines(folders: Iterable[Path]) -> dict[str, int]:
    """Runs per recorded processor, commonest first; one continued elsewhere counts twice."""
    runs_on: Counter[str] = Counter()
    for folder in folders:
        runs_on.update(_machines_of(read_json(folder / RUN_FILE)))
    return dict(runs_on.most_common())


def _machines_of(record: Mapping[str, Any]) -> list[str]:
    later = record.get("continued")
    parts = [record, *(later if isinstance(later, list) else ())]
    named = (_machine_name(part.get("machine")) for part in parts if isinstance(part, Mapping))
    return list(dict.fromkeys(name for name in named if name))


def _machine_name(machine: object) -> str:
    """``AMD EPYC 7B13, AVX2``; empty if nothing is recorded."""
    facts = machine if isinstance(machine, Mapping) else {}
    words = [facts.get(name) for name in ("processor", "instructions", "accelerator")]
    return ", ".join(word for word in words if isinstance(word, str) and word)
