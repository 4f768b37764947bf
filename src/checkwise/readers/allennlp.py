"""AllenNLP's ``metrics_epoch_N.json``, one file for every epoch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.readers.json_lines import flattened
from checkwise.readers.json_log import whole_document
from checkwise.readers.log import ALLENNLP, Best, Log
from checkwise.readers.request import Request, names_in
from checkwise.readers.rows import log_of_records

_NAME: Final = re.compile(r"metrics_epoch_(0|[1-9][0-9]{0,8})\.json")


def recognises(path: Path) -> bool:
    """Whether a file is that of an epoch, or a folder holds some."""
    return any(map(_NAME.fullmatch, names_in(path) if path.is_dir() else [path.name]))


def read(path: Path, request: Request) -> list[Log]:
    """The log of all epochs in a folder."""
    folder = path if path.is_dir() else path.parent
    numbers = {int(m[1]): name for name in names_in(folder) if (m := _NAME.fullmatch(name))}
    records: list[dict[str, Any]] = []
    for epoch, name in sorted(numbers.items()):
        document = whole_document(folder / name)
        if not isinstance(document, dict):
            raise InputError(
                f"Expected the metrics of an epoch, but {folder / name} is no JSON object: remove "
                "it, or copy it again.",
                code="format",
            )
        records.append({**flattened(document), "epoch": epoch})
    best = records[-1].get("best_epoch")
    return [
        log_of_records(
            folder, records, request, axes={"epoch": "epoch"}, trainer=ALLENNLP,
            best=Best("best.th", best) if isinstance(best, int) else None,
        )
    ]  # fmt: skip
