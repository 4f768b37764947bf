"""Cells of a table as they came, and as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.words import shown

EMPTY = ("", "none", "null", "na", "n/a", "<na>")  # cells that hold nothing, in small letters
CellColumns = Mapping[str, NDArray[Any]]


def texts(columns: CellColumns, name: str, default: str, rows: int) -> NDArray[np.object_]:
    """A column as text, ``default`` where it is absent or a cell is empty."""
    if name not in columns:
        return np.full(rows, default, dtype=object)
    texts = [text_or_none(value) for value in columns[name].tolist()]
    return np.array([default if text is None else text for text in texts], dtype=object)


def text_or_none(value: Any) -> str | None:
    """A cell as text; None where it is empty."""
    if value is None or type(value).__name__ == "NAType":
        return None
    try:
        return None if value != value else str(value)
    except (TypeError, ValueError):  # such as an integer of thousands of digits
        raise InputError(f"Expected text, but got {shown(value)}: fix that cell.") from None


def objects(cells: Iterable[Any]) -> NDArray[np.object_]:
    """A column of cells as they are, lists too."""
    listed = list(cells)
    array = np.empty(len(listed), dtype=object)
    for row, cell in enumerate(listed):
        array[row] = cell
    return array
