"""The packed cohorts of the study, unpacked for a while."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from checkwise.study import Cohort
from checkwise.study.folder import SUFFIX, unpack
from studies.page import DATA

NAMES = (
    "pacs-frozen",
    "pacs-frozen-lodo",
    "pacs-ladder",
    "officehome-frozen",
    "officehome-frozen-lodo",
    "officehome-ladder",
    "officehome-deduplicated",
)


@contextmanager
def packed_cohorts(names: Sequence[str] = NAMES) -> Iterator[dict[str, Cohort]]:
    """Packed cohorts by name; inner runs lie beside the runs that they belong to."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            unpack(DATA / f"{name}{SUFFIX}", Path(folder) / name)
        yield {name: Cohort.open(Path(folder) / name) for name in names}
