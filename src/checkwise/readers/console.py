"""Console output: recognised, and refused as what it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NoReturn

from checkwise.errors import InputError
from checkwise.readers import domainbed
from checkwise.readers.request import RESULTS_FILE, Request, first_bytes

START: Final = 1 << 16
FEWEST: Final = 2  # lines
_SUFFIXES: Final = ("", ".txt", ".log", ".out", ".err", ".stdout", ".stderr")
_LINE: Final = re.compile(
    rb"(?:epoch|iter|step|round|\[\d+\]|^\d+:|\d+/\d+|it/s|s/it)[^\r\n]*?"
    rb"(?:loss|acc|logloss|error|auc|map|f1)[\w.@/-]*\s*[\])]?\s*[:= ]\s*\[?-?\d",
    re.IGNORECASE | re.MULTILINE,
)
_VALUE: Final = re.compile(
    rb"\b(?:train|val|valid|eval)\w*[ _]loss\b\s*[:=]?\s*-?\d", re.IGNORECASE
)


def recognises(path: Path) -> bool:
    """Whether a file is what a program printed while it trained."""
    if not path.is_file() or path.suffix.lower() not in _SUFFIXES:
        return False
    start = first_bytes(path, START)
    if start.lstrip()[:1] == b"{" or b"\0" in start:
        return False
    return domainbed.is_console(path) or any(
        len(kind.findall(start)) >= FEWEST for kind in (_LINE, _VALUE)
    )


def read(path: Path, request: Request) -> NoReturn:
    """Refuse: there is no format, and nothing says of which run a line is."""
    if domainbed.is_console(path):
        raise InputError(
            f"Expected a run's {RESULTS_FILE}, but {path} is what DomainBed printed on the "
            f"console, where the lines of several runs may be mixed: give the folder that holds "
            f"{RESULTS_FILE}.",
            code="ambiguous",
        )
    raise InputError(
        f"Expected a log of metrics, but {path} is console output, which has no format: give the "
        "file that the trainer wrote, or write the values as CSV or JSON lines, a row per epoch.",
        code="unsupported",
    )
