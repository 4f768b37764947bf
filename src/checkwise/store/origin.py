"""What a cohort says about the files of other tools that it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checkwise.store.cohort import CohortRecord
from checkwise.store.done import Fingerprint
from checkwise.store.layout import ORIGIN


@dataclass(frozen=True)
class Origin:
    """The files by their names below ``path``, and what the import was told about them."""

    path: str
    files: Mapping[str, Fingerprint]
    held_out: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "path": self.path,
            "files": dict(self.files),
            "held_out": list(self.held_out),
            "sources": list(self.sources),
            "columns": dict(self.columns),
        }


def origin_of(record: CohortRecord) -> Origin | None:
    """Where an imported cohort came from; None for a trained one."""
    facts = record.study.get(ORIGIN)
    if not isinstance(facts, dict):
        return None
    return Origin(
        path=str(facts.get("path", "")),
        files=dict(facts.get("files") or {}),
        held_out=tuple(facts.get("held_out") or ()),
        sources=tuple(facts.get("sources") or ()),
        columns=dict(facts.get("columns") or {}),
    )
