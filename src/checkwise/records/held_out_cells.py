"""What cells that are not read say of the rows that are: a column of any name may tell test rows.

The cells decide, in tables and logs alike. The caller is asked where

- a cell says nothing but that its row is held out: ``test``, ``Test set 2``, ``["ood"]``;
- it does so among other words, and other rows do not: ``photo_val`` and ``photo_test``;
- it does so among other words, in a column called after sets: ``split`` = ``photo_test``;
- such a column tells training from other rows: ``train`` and ``val``;
- a flag does so: ``is_test`` = 1, ``is_val`` = no; ``test_loader``, true and false.

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
FLAG_WORDS = {"is", "was", "flag", "from", "on", "in", "use", "row", "rows", "data", "split"}
YES = {"true", "yes", "t", "y", "on", "1", "1.0"}
NO = {"false", "no", "f", "n", "off", "0", "0.0"}
LONGEST_SOURCE = 60  # characters that are worth typing after --source
_MAY_SAY = re.compile(r"[^\W\d_eE]|[^\x00-\x7f]")  # not digits, nor the e of 1e-5
_NUMBERS = {int, float, type(None)}
_FLAGS = {bool, np.bool_, type(None)}


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
        marks = _marks(column) or (YES if _is_told_apart(column, texts) else set())
        named |= {text for text in texts if text.lower() in marks}
        of_sets = not PART_WORDS.isdisjoint(words(column)[-1:])
        if column not in labels and (of_sets or len(held) < len(texts)):
            named |= held
        if asked := named.difference(sources):
            raise _refusal(column, asked, where, do=_what_to_do(asked))
        sets = texts - {""}
        trains = any(not set(TRAINING_WORDS).isdisjoint(words(text)) for text in sets)
        if of_sets and len(sets) > 1 and (one_set or (trains and column not in labels)):
            raise _refusal(column, sets, where, do="keep the rows of validation")
    return {name for texts in said.values() for name in texts.intersection(sources)}


def _texts(column: str, cells: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Every text in the cells, also inside lists and mappings; "" for what names no set."""
    waiting: list[tuple[str, Iterable[Any]]] = [(column, cells)]
    for name, level in waiting:  # grows while it is read: a cell may nest deeper than calls may
        level = list(level)
        kinds = set(map(type, level))
        is_flag = bool(_marks(name)) or (kinds <= _FLAGS and looks_held_out(name))
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
        return str(int(cell)) if is_flag and cell in (0, 1) else ""
    try:
        text = (text_or_none(cell) or "").strip()
    except InputError:  # an object that is no text
        return ""
    says = is_flag or (_MAY_SAY.search(text) and text.lower() not in (*EMPTY, "nan"))
    return text if says else ""


def _marks(column: str) -> set[str]:
    """Cells that say a row is no validation: 1 of ``is_test``, ``meta/ood``; 0 of ``is_val``."""
    name = column.rpartition("/")[2]
    in_name = set(words(name))
    other = in_name - FLAG_WORDS
    if is_held_out_word(name, FLAG_WORDS) or (other < in_name and other <= set(TRAINING_WORDS)):
        return YES if other else set()
    return NO if other and other < in_name and other <= set(VALIDATION_WORDS) else set()


def _is_told_apart(column: str, texts: Collection[str]) -> bool:
    """Whether yes and no in a column whose name says test tell rows apart."""
    said = {text.lower() for text in texts} - {""}
    both = not said.isdisjoint(YES) and not said.isdisjoint(NO)
    return both and said <= YES | NO and looks_held_out(column)


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
