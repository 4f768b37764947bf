"""What cells that are not read say of the rows that are: a column of any name may tell test rows.

The cells decide, in tables and logs alike. The caller is asked where

- a cell says nothing but that its row is held out: ``test``, ``Test set 2``, ``["ood"]``;
- it does so among other words, and other rows do not: ``photo_val`` and ``photo_test``;
- it does so among other words, in a column called after sets: ``split`` = ``photo_test``.

What all rows say in the same way tells none of them apart: ``/runs/test/…``, ``test-machine``.
``sources=`` or ``--source`` with the words of a cell says that its rows are validation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.records.cells import EMPTY, text_or_none
from checkwise.records.column_names import (
    NAMING_WORDS,
    PART_WORDS,
    TRAINING_WORDS,
    VALIDATION_WORDS,
)
from checkwise.records.held_out import as_source, is_held_out_word, looks_held_out, words
from checkwise.text import is_plain, listed, shown

Columns = Iterable[tuple[str, Iterable[Any]]]
SET_WORDS = {*NAMING_WORDS, *PART_WORDS, *TRAINING_WORDS, *VALIDATION_WORDS}
FLAG_WORDS = ("is", "flag")
YES = ("true", "yes", "t", "y", "1", "1.0")
LONGEST_SOURCE = 60  # characters that are worth typing after --source
_MAY_SAY = re.compile(r"[^\W\d_eE]|[^\x00-\x7f]")  # not digits, nor the e of 1e-5
_NUMBERS = {int, float, type(None)}


def check_cells(
    columns: Columns,
    where: str,
    *,
    sources: Collection[str] = (),
    labels: Collection[str] = (),
    one_set: bool = False,
) -> set[str]:
    """Refuse cells that call their rows held out; returns those of ``sources`` that are cells.

    Args:
        columns: columns that are not read, with their cells in the rows that are; a column may
            come in parts.
        where: the table or log, for messages.
        sources: cells that the caller calls validation.
        labels: columns that name runs, which may be called after a trial, ``test_lr``.
        one_set: whether a column called after sets may not name two, because nothing else would
            keep their rows apart.
    """
    said: dict[str, set[str]] = {}
    for column, cells in columns:
        for name, text in _texts(column, cells):
            said.setdefault(name, set()).add(text)
    for column, texts in said.items():
        held = {text for text in texts if looks_held_out(text)}
        named = {text for text in held if is_held_out_word(text, SET_WORDS)}
        if _is_flag(column):
            named |= {text for text in texts if text.lower() in YES}
        of_sets = not PART_WORDS.isdisjoint(words(column)[-1:])
        if column not in labels and (of_sets or len(held) < len(texts)):
            named |= held
        if asked := named.difference(sources):
            raise _refusal(column, asked, where, do=_what_to_do(asked))
        if one_set and of_sets and len(texts - {""}) > 1:
            raise _refusal(column, texts - {""}, where, do="keep the rows of validation")
    return {name for texts in said.values() for name in texts.intersection(sources)}


def _texts(column: str, cells: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Every text in the cells, also inside lists and mappings; "" for what names no set."""
    waiting: list[tuple[str, Iterable[Any]]] = [(column, cells)]
    for name, level in waiting:  # grows while it is read: a cell may nest deeper than calls may
        level = list(level)
        kinds, is_flag = set(map(type, level)), _is_flag(name)
        if kinds and kinds <= _NUMBERS and not is_flag:
            level = [None]
        if kinds == {str} and not is_flag:
            level = {text if _MAY_SAY.search(text) else "" for text in level}
        for cell in level:
            if isinstance(cell, np.ndarray | np.generic):
                cell = cell.tolist()
            if isinstance(cell, Mapping):
                waiting += [(f"{name}/{key}", (value,)) for key, value in cell.items()]
            elif isinstance(cell, list | tuple | set | frozenset):
                waiting.append((name, cell))
            else:
                yield name, _text(cell, is_flag)


def _text(cell: Any, is_flag: bool) -> str:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace").strip()
    if isinstance(cell, int | float):
        return "1" if is_flag and cell == 1 else ""
    try:
        text = (text_or_none(cell) or "").strip()
    except InputError:  # an object that is no text
        return ""
    says = is_flag or (_MAY_SAY.search(text) and text.lower() not in (*EMPTY, "nan"))
    return text if says else ""


def _is_flag(column: str) -> bool:
    """Whether a column says of each row if it is held out: ``is_test``, ``meta/ood``."""
    return is_held_out_word(column.rpartition("/")[2], FLAG_WORDS)


def _what_to_do(cells: Collection[str]) -> str:
    first = min(cells)
    told = f"{as_source(first)}, or " if is_plain(first) and len(first) <= LONGEST_SOURCE else ""
    return f"leave these rows out; if they are validation, {told}remove that column"


def _refusal(column: str, cells: Collection[str], where: str, *, do: str) -> InputError:
    return InputError(
        f"Expected rows of one validation set, with held-out ones marked in the column `role`, but "
        f"{shown(column)} in {where} says {listed([shown(cell, 40) for cell in sorted(cells)[:4]])}"
        f": {do}.",
        code="held-out",
    )
