"""What cells that are not read say of the rows that are: a column of any name may tell test rows.

The cells decide, in tables and logs alike. The caller is asked where

- a cell says nothing but that its row is held out: ``test``, ``Test set 2``, ``["ood"]``;
- it does so among other words, and other rows do not: ``photo_val`` and ``photo_test``;
- it does so among other words, in a column called after sets: ``split`` = ``photo_test``;
- such a column tells training or validation from other rows, ``train`` and ``val``, ``dev`` and
  ``eval``, or numbers its sets, 0 and 1;
- it says ``te``, or any column does beside ``va``;
- a flag does so: ``is_test`` = 1, ``is_val`` = no; ``test_loader``, true and false;
- a text has such a flag or set in it: ``{"is_test": true}``, ``lr=0.1, split=val``.

What all rows say in the same way tells none of them apart: ``/runs/test/…``, ``test-machine``.
``sources=`` or ``--source`` with the words of a cell says that its rows are validation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records.column_names import (
    NAMING_WORDS,
    PART_WORDS,
    TRAINING_WORDS,
    VALIDATION_WORDS,
)
from checkwise.records.held_out import (
    as_source,
    check_spelling,
    folded,
    is_held_out_word,
    looks_held_out,
    words,
)
from checkwise.words import is_plain, listed, shown

EMPTY = ("", "none", "null", "na", "n/a", "<na>")  # cells that hold nothing, in small letters
CellColumns = Mapping[str, NDArray[Any]]
Columns = Iterable[tuple[str, Iterable[Any]]]
SET_WORDS = {*NAMING_WORDS, *PART_WORDS, *TRAINING_WORDS, *VALIDATION_WORDS}
ASKING_WORDS = {"is", "was", "in", "on", "from", "for", "flag", "mask", "indicator"}
FLAG_WORDS = {*ASKING_WORDS, "use", "row", "rows", "data", "split", "evaluated", "measured"}
LONE_FLAGS = {"seen", "iid", "source", "src"}  # of others, `id` say, 0 and 1 are numbers
USABLE_WORDS = {*VALIDATION_WORDS, "source", "src", "seen", "id", "iid", "distribution"}
YES = {"true", "yes", "t", "y", "on", "1", "1.0"}
NO = {"false", "no", "f", "n", "off", "0", "0.0"}
LONGEST_SOURCE = 60  # characters that are worth typing after --source
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?")
_FEW, _MORE = {"0", "1", "2"}, "3"  # numbers that tell training, validation and test apart, others
_MAY_SAY = re.compile(r"[^\W\d_eE]|[^\x00-\x7f]")  # not digits, nor the e of 1e-5
# `key=value`, as in JSON. Keys begin where words do, and no sign is read twice: linear time.
_PAIR = re.compile(r"""(?<![\w.-])([\w.-]++)["']?\s*+[=:]\s*+["']?([\w.-]++)""")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_NUMBERS = {int, float, type(None)}
_FLAGS = {bool, np.bool_, type(None)}


def check_cells(
    columns: Columns,
    where: str,
    *,
    sources: Collection[str] = (),
    labels: Collection[str] = (),
    paths: Collection[str] = (),
    one_set: bool = False,
) -> set[str]:
    """Refuse cells that call their rows held out; returns those of ``sources`` that are cells.

    Args:
        columns: columns that are not read, with their cells in the rows that are; a column may
            come in parts.
        where: the table or log, for messages.
        sources: cells that the caller calls validation.
        labels: columns that name runs, which may be called after a trial, ``test_lr``.
        paths: columns of checkpoints: in an empty cell nothing is said, for not all are kept.
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
        marks = _marks(column) or _told_apart(column, texts)
        named |= {text for text in texts if text.lower() in marks}
        of_sets = _names_sets(column)
        if of_sets or any("va" in words(text) for text in texts):
            named |= {text for text in texts if "te" in words(text)}
        others = texts - {""} if column in paths else texts
        if column not in labels and (of_sets or len(held) < len(others)):
            named |= held
        if asked := named.difference(sources):
            raise _refusal(column, asked, where, do=_what_to_do(asked))
        sets = texts - ({"", _MORE, *_FEW} if _MORE in texts else {""})
        unclear = any(_kind(text) != "validation" for text in sets.difference(sources))
        asks = one_set or (unclear and _differ(sets) and column not in labels)
        if of_sets and len(sets) > 1 and asks:
            or_name = "" if one_set else ", or name each of these sets with --source"
            raise _refusal(column, sets, where, do=f"keep the rows of validation{or_name}")
    return {name for texts in said.values() for name in texts.intersection(sources)}


def _differ(sets: Collection[str]) -> bool:
    """Whether some of the sets are training, or some are validation and others may not be."""
    kinds = {_kind(text) for text in sets}
    return "training" in kinds or len(kinds) > 1 or _FEW.issuperset(sets)


def _kind(text: str) -> str:
    said = set(words(text))
    known = {"training": TRAINING_WORDS, "eval": ("eval", "evaluation")}
    known["validation"] = (*VALIDATION_WORDS, "va")
    return next((kind for kind, of_kind in known.items() if not said.isdisjoint(of_kind)), "")


def _names_sets(column: str) -> bool:
    return not PART_WORDS.isdisjoint(words(column)[-1:])


def _texts(column: str, cells: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Every text in the cells, also inside lists and mappings; "" for what names no set."""
    waiting: list[tuple[str, Iterable[Any]]] = [(column, cells)]
    for name, level in waiting:  # grows while it is read: a cell may nest deeper than calls may
        level = list(level)
        kinds = set(map(type, level))
        in_name = set(words(name.rpartition("/")[2]))
        is_flag = bool(_marks(name)) or ((kinds <= _FLAGS or _asks(in_name)) and bool(_sides(name)))
        is_number = _names_sets(name) and "fold" not in in_name  # one of several, of training too
        if kinds and kinds <= _NUMBERS and not (is_flag or is_number):
            level = [None]
        if kinds == {str} and not (is_flag or is_number):
            level = {text if _MAY_SAY.search(text) else "" for text in level}
        inside: dict[str, list[list[Any]]] = {}  # column → the cells in it, of each cell here
        written: dict[str, list[str]] = {}  # the same, of what texts assign
        for cell in level:
            if isinstance(cell, np.ndarray | np.generic):
                cell = cell.tolist()
            if isinstance(cell, Mapping):
                for key, value in cell.items():
                    inside.setdefault(f"{name}/{key}", []).append([value])
            elif isinstance(cell, list | tuple | set | frozenset):
                inside.setdefault(name, []).append([*cell])
            else:
                text = _text(cell, is_flag, is_number)
                for key, value in _pairs(text):
                    written.setdefault(f"{name}/{key}", []).append(value)
                yield name, text
        for key, cells in inside.items():  # a row without it differs from those that have it
            without = [None] if len(cells) < len(level) else []
            waiting.append((key, [*chain.from_iterable(cells), *without]))
        for key, texts in written.items():  # settings of a run are the same in all its rows
            told = {*texts, *([""] if len(texts) < len(level) else [])}
            waiting += [(key, told)] if len(told) > 1 else []


def _text(cell: Any, is_flag: bool, is_number: bool) -> str:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace").strip()
    if isinstance(cell, int | float):
        if is_number and cell == cell and cell not in (0, 1, 2):
            return _MORE
        return str(int(cell)) if (is_flag or is_number) and cell in (0, 1, 2) else ""
    try:
        text = (text_or_none(cell) or "").strip()
    except InputError:  # an object that is no text
        return ""
    if is_number and not is_flag and _NUMBER.fullmatch(text):
        return _text(float(text), is_flag, is_number)
    says = is_flag or (_MAY_SAY.search(text) and text.lower() not in (*EMPTY, "nan"))
    return _without_escapes(text) if says else ""


def _without_escapes(text: str) -> str:
    """Letters as JSON escapes them, in their own form."""
    if "\\u" not in text:
        return text
    plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The flags and sets that a text assigns."""
    if "=" in text or ":" in text:
        for path, value in _PAIR.findall(text):
            key = path.rpartition(".")[2]
            if not PART_WORDS.isdisjoint(words(key)[-1:]) or _sides(key):
                yield key, value


def _marks(column: str) -> set[str]:
    """Cells that say a row is no validation: 1 of ``is_test``, ``meta/ood``; 0 of ``is_val``."""
    name = column.rpartition("/")[2]
    in_name = set(words(name))
    other = in_name - FLAG_WORDS
    if is_held_out_word(name, FLAG_WORDS) or (other < in_name and other <= set(TRAINING_WORDS)):
        return YES if other else set()
    return NO if other and other < in_name and other <= set(VALIDATION_WORDS) else set()


def _asks(in_name: set[str]) -> bool:
    """Whether the words of a column ask something that yes and no answer."""
    return bool(in_name & ASKING_WORDS) or in_name <= LONE_FLAGS


def _sides(column: str) -> set[str]:
    """Cells that would say a row is no validation, if the column is a flag; by its name."""
    name = column.rpartition("/")[2]
    other = set(words(name)) - FLAG_WORDS
    if looks_held_out(name) or (other and other <= set(TRAINING_WORDS)):
        return YES
    return NO if other and other <= USABLE_WORDS else set()


def _told_apart(column: str, texts: Collection[str]) -> set[str]:
    """The cells that tell rows apart by yes and no, in a column whose name says of what."""
    said = {text.lower() for text in texts} - {""}
    asks = _asks(set(words(column.rpartition("/")[2])))
    some = asks and "" in texts  # 1 where it holds, and nothing elsewhere
    both = not said.isdisjoint(YES) and (some or not said.isdisjoint(NO))
    sides = _sides(column) if both and said <= YES | NO else set()
    return {*sides, ""} if sides == NO and said.isdisjoint(NO) else sides


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


SEPARATORS = ("+", ";", ",", "|", "/", "&", None)  # None: any space
_SIGNS = re.compile(r"""[+;,|/&()\[\]{}'"]|\band\b""")


def targets_of(cell: Any, domains: Collection[str], where: str) -> tuple[str, ...]:
    """The held-out domains that a cell names.

    Example:
        >>> targets_of(["sketch", "art"], ["art", "photo", "sketch"], "run.jsonl")
        ('sketch', 'art')
        >>> targets_of("sketch;art", ["art", "photo", "sketch"], "run.csv")
        ('sketch', 'art')
    """
    if isinstance(cell, np.ndarray | np.generic):
        cell = cell.tolist()
    if isinstance(cell, list | tuple | set):
        parts = [_listed(part, domains, where) for part in cell]
        return tuple(dict.fromkeys(name for names in parts for name in names))
    if isinstance(cell, bool | dict):
        raise _unreadable(cell, where)
    text = text_or_none(cell)
    return _named(text, domains, where) if text else ()


def _listed(part: Any, domains: Collection[str], where: str) -> tuple[str, ...]:
    """One entry of a list: a whole name, even if a domain's name is a word of it."""
    if isinstance(part, str) and part and part not in domains and _as_list(part) is None:
        check_spelling(part, domains, where)
        if not any(sign in part for sign in SEPARATORS if sign):
            return (part,)
    return targets_of(part, domains, where)


def _named(text: str, domains: Collection[str], where: str) -> tuple[str, ...]:
    listed = _as_list(text)
    if listed is None:
        check_spelling(text, domains, where)
    if text in domains:
        return (text,)
    names = _parts(text, domains) if listed is None else targets_of(listed, domains, where)
    for name in names:
        check_spelling(name, domains, where)
    pieces = {folded(piece) for piece in _SIGNS.split(text)}
    said, named = _words(text), frozenset(names)
    lost = any(
        folded(d) in pieces or (_words(d).strip() and _words(d) in said)
        for d in domains
        if d not in named
    )
    if lost or _is_flag(text, domains):
        raise _unreadable(text, where)
    return names


def _parts(text: str, domains: Collection[str]) -> tuple[str, ...]:
    for separator in SEPARATORS:
        parts = [part.strip() for part in text.split(separator) if part.strip()]
        if len(parts) > 1 and all(part in domains for part in parts):
            return tuple(dict.fromkeys(parts))
    return tuple(part.strip() for part in text.split("+") if part.strip())


def _words(text: str) -> str:
    """The words of a text with a space on either side, so that ``in`` finds whole words."""
    return " ".join(["", *re.findall(r"[^\W_]+", text.casefold()), ""])


def _as_list(text: str) -> list[Any] | None:
    """A list written as text, by JSON or by Python."""
    if text.strip()[:1] not in ("[", "("):
        return None
    try:
        listed = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return list(listed) if isinstance(listed, list | tuple) else None


def _is_flag(text: str, domains: Collection[str]) -> bool:
    """Whether a cell marks its row, or counts domains, where names are needed."""
    if text.strip().lower() in ("true", "false", "yes", "no"):
        return True
    numbered = any(_NUMBER.fullmatch(domain) for domain in domains)
    return bool(domains) and not numbered and _NUMBER.fullmatch(text.strip()) is not None


def _unreadable(cell: Any, where: str) -> InputError:
    return InputError(
        f"Expected the names of domains in the column `held_out`, but got {shown(cell)} in "
        f"{where}: write a list of names, or join them with +; to mark the rows of a target, use a "
        "column `role` with `target`.",
        code="format",
    )


def without_rows(targets: Iterable[str], domains: Collection[str]) -> tuple[str, ...]:
    """A note on held-out names that no row has: a typing mistake would look the same."""
    absent = sorted(set(targets) - set(domains))
    return (f"held out, and without rows in the table: {', '.join(absent)}",) if absent else ()


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
