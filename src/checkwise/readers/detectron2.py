"""Detectron2's ``metrics.json``: lines of training, and after an evaluation ``bbox/AP`` beside."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.readers.json_lines import flattened, read_lines
from checkwise.readers.log import DETECTRON2, Log
from checkwise.readers.request import Request, first_bytes
from checkwise.readers.rows import log_of_records

NAME: Final = "metrics.json"
START: Final = 1 << 14
_MEASURED: Final = re.compile(r"(?:.+/)?(?:bbox|segm|keypoints|sem_seg|panoptic_seg)/.+")


def recognises(path: Path) -> bool:
    """Whether a file is such a log, or a folder holds it."""
    start = first_bytes(path / NAME if path.is_dir() else path, START)
    return b'"iteration"' in start and b'"eta_seconds"' in start


def read(path: Path, request: Request) -> list[Log]:
    """The log, of which what was evaluated on DATASETS.TEST is read as validation."""
    path = path / NAME if path.is_dir() else path
    lines, notes = read_lines(path)
    records = [flattened(line.fields) for line in lines]
    measured = {name for record in records for name in record if _MEASURED.fullmatch(name)}
    if not measured and not any("val" in name for record in records[:1] for name in record):
        raise InputError(
            f"Expected validation metrics, but {path} is a Detectron2 training without any: "
            "set TEST.EVAL_PERIOD and DATASETS.TEST.",
            code="missing",
        )
    called = "Detectron2 evaluates DATASETS.TEST; if it is your test data, use another"
    trainer = replace(DETECTRON2, validation=tuple(sorted(measured)))
    axes = {"step": "iteration"}
    notes = (*notes, called)
    return [log_of_records(path, records, request, axes=axes, trainer=trainer, notes=notes)]
