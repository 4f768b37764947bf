"""The processors that runs were trained on, as their ``run.json`` records them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from checkwise.store import layout


def machines(folders: Iterable[Path]) -> dict[str, int]:
    """Runs per processor, commonest first; a run that was continued elsewhere counts for both.

    Runs that record none, such as those of older versions, are left out.
    """
    found: Counter[str] = Counter()
    for folder in folders:
        found.update(_of_run(layout.read_json(folder / layout.RUN)))
    return dict(found.most_common())


def _of_run(record: Mapping[str, Any]) -> list[str]:
    later = record.get("continued")
    parts = [record, *(later if isinstance(later, list) else ())]
    named = (_named(part.get("machine")) for part in parts if isinstance(part, Mapping))
    return list(dict.fromkeys(name for name in named if name))


def _named(machine: object) -> str:
    """``AMD EPYC 7B13, AVX2``; empty if nothing is recorded."""
    facts = machine if isinstance(machine, Mapping) else {}
    words = [facts.get(name) for name in ("processor", "instructions", "accelerator")]
    return ", ".join(word for word in words if isinstance(word, str) and word)
