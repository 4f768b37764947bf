"""Records of named fields, as Trackio and Ray write them, as columns of a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from checkwise.readers.logs.log import Points
from checkwise.records.held_out_cells import Columns

# How JSON that knows no such numbers spells them.
NOT_FINITE = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True)
class Record:
    """What was logged at one time; a step or epoch that is missing is nan."""

    step: float
    epoch: float
    fields: Mapping[str, Any]


def numeric(records: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Names that hold a number in at least one record, in the order in which they come up."""
    names: dict[str, None] = {}
    for record in records:
        for name, value in record.items():
            if name not in names and _is_number(value):
                names[name] = None
    return tuple(names)


def points(records: Sequence[Record], name: str) -> Points:
    """The filled cells of one name."""
    filled = [record for record in records if record.fields.get(name) is not None]
    return Points(
        steps=np.array([record.step for record in filled], dtype=np.float64),
        epochs=np.array([record.epoch for record in filled], dtype=np.float64),
        cells=[record.fields[name] for record in filled],
    )


def said(records: Sequence[Record]) -> Columns:
    """What was logged beside numbers."""
    for record in records:
        for name, value in record.fields.items():
            if not _is_number(value):
                yield name, (value,)


def axis(value: object) -> float:
    """A step or epoch; nan where the field holds no such number."""
    if (type(value) is int or type(value) is float) and abs(value) < 2**53:
        return float(value)
    return nan


def _is_number(value: object) -> bool:
    """Whether a field holds a number, or says that it is not finite."""
    return type(value) in (int, float) or (isinstance(value, str) and value in NOT_FINITE)
