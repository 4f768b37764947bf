"""Results of methods on disk, beside the runs they come from and never inside them.

``<cohort>/derived/<method>/<run>/`` holds ``source.json`` and ``heldout/<domain>.json`` (entries
like the lines of a run's journals, without ``step``), ``weights.safetensors`` where the method
makes weights, and ``record.json``, which is written last: it stands for a result that is whole,
and has the size and SHA-256 of its files. Held-out entries are written here and read by
``checkwise.study`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import (
    DERIVED_FOLDER,
    HELDOUT_FOLDER,
    LAYOUT_SCHEMA,
    Fingerprint,
    check_folder,
    check_tree,
    encode_json,
    fingerprint,
    fingerprint_of,
    has_file,
    name_as_file,
    read_json,
    write_bytes,
    write_text,
    writing,
)
from checkwise.study.folder import AGAIN, RECORD, derived_entry, read_derived, recorded_files

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
    files: Mapping[str, Fingerprint] = field(default_factory=dict)

    def same_inputs(self, params: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
        """Whether nothing changed that the result depends on; without checksums nobody can tell."""
        same = dict(self.params) == dict(params) and dict(self.inputs) == dict(inputs)
        return same and bool(self.files)


def folder_of(cohort: Path, method: str, run: RunKey) -> Path:
    slug = re.sub(r"[^A-Za-z0-9_.+-]", "_", method)
    return Path(cohort) / DERIVED_FOLDER / slug / str(run)


def heldout_file(domain: str) -> str:
    return f"{HELDOUT_FOLDER}/{name_as_file(domain)}.json"


def write(
    cohort: Path,
    record: Derived,
    *,
    source: Mapping[str, Any],
    heldout: Mapping[str, Mapping[str, Any]],
    weights: bytes | None = None,
) -> Path:
    """Write one result; ``weights`` is the content of a safetensors file."""
    folder = folder_of(cohort, record.method, record.run)
    for place in (folder.parents[1], folder.parent):
        check_folder(place)
    check_tree(folder)
    with writing(folder):
        (folder / HELDOUT_FOLDER).mkdir(parents=True, exist_ok=True)
        (folder / RECORD).unlink(missing_ok=True)
        files = {SOURCE: encode_json(dict(source)).encode()}
        for domain, entry in heldout.items():
            files[heldout_file(domain)] = encode_json(dict(entry)).encode()
        if weights is not None:
            files[WEIGHTS] = weights
        for name, encoded in files.items():
            write_bytes(folder / name, encoded)
        content = {
            "schema": LAYOUT_SCHEMA,
            "method": record.method,
            "run": record.run.as_dict(),
            "params": dict(record.params),
            "inputs": dict(record.inputs),
            "seconds": record.seconds,
            "notes": list(record.notes),
            "files": {name: fingerprint_of(encoded) for name, encoded in files.items()},
        }
        write_text(folder / RECORD, encode_json(content))
    return folder


def read_record(cohort: Path, method: str, run: RunKey) -> Derived | None:
    """The record of a result, or None where the method was not applied to the run."""
    path = folder_of(cohort, method, run) / RECORD
    if not has_file(path.parent, RECORD):
        return None
    content = read_json(path)
    try:
        if (content["method"], RunKey.from_dict(content["run"])) != (method, run):
            raise ValueError("its method and run")
        record = Derived(
            method=method,
            run=run,
            params=dict(content["params"]),
            inputs=dict(content["inputs"]),
            seconds=float(content["seconds"]),
            notes=tuple(str(note) for note in content["notes"]),
            files=recorded_files(path.parent),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"Expected the record of a derived result, but got a fault at {error} in {path}: "
            f"{AGAIN}.",
            code="damaged",
        ) from None
    return record


def forget(cohort: Path, method: str, run: RunKey) -> None:
    """Let a result count as not made; its other files stay until it is made again."""
    folder = folder_of(cohort, method, run)
    if has_file(folder, RECORD):
        with writing(folder):
            (folder / RECORD).unlink()


def read_source(cohort: Path, method: str, run: RunKey) -> dict[str, Any]:
    """The source-validation entry of a result: ``diverged`` and ``domains``."""
    folder = folder_of(cohort, method, run)
    entry = derived_entry(folder, SOURCE, recorded_files(folder).get(SOURCE))
    domains = entry.get("domains")
    if (
        not isinstance(domains, dict)
        or not domains
        or not all(isinstance(one, dict) for one in domains.values())
    ):
        raise InputError(
            f"Expected results of every source domain, but got {domains!r:.80} in "
            f"{folder / SOURCE}: {AGAIN}.",
            code="damaged",
        )
    return {"diverged": bool(entry.get("diverged")), "domains": domains}


def read_weights(cohort: Path, method: str, run: RunKey) -> bytes:
    folder = folder_of(cohort, method, run)
    return read_derived(folder, WEIGHTS, recorded_files(folder).get(WEIGHTS))


def digest_of(folder: Path, name: str) -> str:
    return str(fingerprint(folder, name)["sha256"])
