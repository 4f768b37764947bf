"""Results of methods on disk, beside the runs they come from and never inside them.

``<cohort>/derived/<method>/<run>/`` holds ``source.json`` and ``heldout/<domain>.json`` (entries
like the lines of a run's journals, without ``step``), ``weights.safetensors`` where the method
makes weights, and ``record.json``, which is written last: it stands for a result that is whole.
Held-out entries are written here and read by ``checkwise.study`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import layout, strict_json
from checkwise.store.atomic_write import write_bytes, write_text, writing
from checkwise.store.done import fingerprint
from checkwise.store.safe_read import check_folder, check_tree, has_file, read_file

RECORD = "record.json"
SOURCE = "source.json"
WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Derived:
    """What went into one result, and what it cost: the content of ``record.json``.

    ``inputs`` decides whether a result is current: a second call with equal ``params`` and
    ``inputs`` does nothing. ``seconds`` is measured and includes evaluation, also of checkpoints
    that were evaluated for an earlier method already.
    """

    method: str
    run: RunKey
    params: Mapping[str, Any]
    inputs: Mapping[str, Any]
    seconds: float
    notes: Sequence[str] = field(default=())

    def same_inputs(self, params: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
        """Whether nothing changed that the result depends on."""
        return dict(self.params) == dict(params) and dict(self.inputs) == dict(inputs)


def folder_of(cohort: Path, method: str, run: RunKey) -> Path:
    """Where the result of a method for a run is."""
    slug = re.sub(r"[^A-Za-z0-9_.+-]", "_", method)
    return Path(cohort) / layout.DERIVED / slug / str(run)


def heldout_path(folder: Path, domain: str) -> Path:
    """Where the result on a held-out domain is, inside the folder of a result."""
    return folder / layout.HELDOUT / f"{layout.file_name(domain)}.json"


def write(
    cohort: Path,
    record: Derived,
    *,
    source: Mapping[str, Any],
    heldout: Mapping[str, Mapping[str, Any]],
    weights: bytes | None = None,
) -> Path:
    """Write one result; ``weights`` is the content of a safetensors file.

    The record of an older result is removed first, so that a crash never leaves it beside newer
    files.
    """
    folder = folder_of(cohort, record.method, record.run)
    for place in (folder.parents[1], folder.parent):
        check_folder(place)
    check_tree(folder)
    with writing(folder):
        (folder / layout.HELDOUT).mkdir(parents=True, exist_ok=True)
        (folder / RECORD).unlink(missing_ok=True)
        if weights is not None:
            write_bytes(folder / WEIGHTS, weights)
        write_text(folder / SOURCE, layout.encode_json(dict(source)))
        for domain, entry in heldout.items():
            write_text(heldout_path(folder, domain), layout.encode_json(dict(entry)))
        content = {
            "schema": layout.SCHEMA,
            "method": record.method,
            "run": record.run.as_dict(),
            "params": dict(record.params),
            "inputs": dict(record.inputs),
            "seconds": record.seconds,
            "notes": list(record.notes),
        }
        write_text(folder / RECORD, layout.encode_json(content))
    return folder


def read_record(cohort: Path, method: str, run: RunKey) -> Derived | None:
    """The record of a result, or None where the method was not applied to the run."""
    path = folder_of(cohort, method, run) / RECORD
    if not has_file(path.parent, RECORD):
        return None
    content = layout.read_json(path)
    try:
        return Derived(
            method=str(content["method"]),
            run=RunKey.from_dict(content["run"]),
            params=dict(content["params"]),
            inputs=dict(content["inputs"]),
            seconds=float(content["seconds"]),
            notes=tuple(str(note) for note in content["notes"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"Expected the record of a derived result, but got a fault at {error} in {path}: "
            "remove its folder and derive it again."
        ) from None


def forget(cohort: Path, method: str, run: RunKey) -> None:
    """Let a result count as not made; its other files stay until it is made again."""
    folder = folder_of(cohort, method, run)
    if has_file(folder, RECORD):
        with writing(folder):
            (folder / RECORD).unlink()


def read_source(cohort: Path, method: str, run: RunKey) -> dict[str, Any]:
    """The source-validation entry of a result: ``diverged`` and ``domains``."""
    path = folder_of(cohort, method, run) / SOURCE
    try:
        entry = strict_json.parse(read_file(path.parent, SOURCE))
        return {"diverged": bool(entry["diverged"]), "domains": dict(entry["domains"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"Expected source results of {method}, but got a fault at {error} in {path}: remove "
            "its folder and derive it again."
        ) from None


def digest_of(folder: Path, name: str) -> str:
    """SHA-256 of a run's file that went into a result."""
    return str(fingerprint(folder, name)["sha256"])
