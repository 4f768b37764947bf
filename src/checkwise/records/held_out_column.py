"""The ``held_out`` column of a table: which domains the run of each row must not see.

A cell is a name, a list of names (JSON, Parquet, or as text), or several names joined by "+" as in
a printed run key; another separator is accepted where every part is a domain of the table. A cell
that contains a domain's name but cannot be split is refused: read as one long name, it would leave
that domain among the sources.

A name without rows is not a mistake by itself, because targets are often removed before a table is
handed over. It must not be a domain's name in another case or spacing, and a note says that it has
no rows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.records.cells import text_or_none
from checkwise.records.held_out import check_spelling, folded
from checkwise.text import shown

SEPARATORS = ("+", ";", ",", "|", "/", "&", None)  # None: any space
_SIGNS = re.compile(r"""[+;,|/&()\[\]{}'"]|\band\b""")
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?")


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
