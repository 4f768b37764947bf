"""Names of the files and folders of a cohort, and the version of their meaning."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError

SCHEMA: Final = 1

COHORT: Final = "cohort.json"
REGISTRATIONS: Final = "registrations.jsonl"
RUNS: Final = "runs"
RUN: Final = "run.json"
SOURCE: Final = "source.jsonl"
HELDOUT: Final = "heldout"
PREDICTIONS: Final = "predictions"
CHECKPOINTS: Final = "checkpoints"
AVERAGES: Final = "averages"
RESUME: Final = "resume/state.pt"
LEASE: Final = "lease"
ERROR: Final = "error.txt"
DONE: Final = "done"
DERIVED: Final = "derived"
PACKED: Final = ".tar.xz"
_OF_A_COHORT: Final = (COHORT, REGISTRATIONS, DERIVED)
_OF_A_RUN: Final = (
    RUN,
    SOURCE,
    HELDOUT,
    PREDICTIONS,
    CHECKPOINTS,
    AVERAGES,
    Path(RESUME).parts[0],
    LEASE,
    ERROR,
    DONE,
)

_UNSAFE = re.compile(r"[/\\\0]|^\.|%(?=[0-9A-Fa-f]{2})")


def file_name(domain: str) -> str:
    """A domain's name as a file name: unlike domains have unlike names.

    >>> file_name("Real World"), file_name("a/b")
    ('Real World', 'a%2Fb')
    """
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", domain)


def heldout_file(domain: str) -> str:
    """Where the results on a held-out domain are, inside a run's folder."""
    return f"{HELDOUT}/{file_name(domain)}.jsonl"


def checkpoint_file(step: int) -> str:
    """Where the weights of a step are, inside a run's folder."""
    return f"{CHECKPOINTS}/step-{step:06d}.safetensors"


def average_file(name: str) -> str:
    """Where an average that was kept during training is, inside a run's folder."""
    return f"{AVERAGES}/{name}.safetensors"


def source_predictions_file(step: int) -> str:
    """Where the logits of all source domains at a step are, inside a run's folder."""
    return f"{PREDICTIONS}/source/step-{step:06d}.npz"


def heldout_predictions_file(domain: str, step: int) -> str:
    """Where the logits of a held-out domain at a step are, inside a run's folder."""
    return f"{PREDICTIONS}/heldout/{file_name(domain)}/step-{step:06d}.npz"


def step_of(path: Path) -> int | None:
    """The step in a file's name, if it has one."""
    found = re.fullmatch(r"step-(\d+)\.\w+", path.name)
    return int(found[1]) if found else None


def is_record(path: Path) -> bool:
    """Whether a cohort or one of its runs keeps its own records at this place."""
    place = path.resolve()
    for folder in place.parents:
        first = place.relative_to(folder).parts[0]
        if first in _OF_A_COHORT and (folder / COHORT).is_file():
            return True
        if first in _OF_A_RUN and (folder / RUN).is_file() and (folder / SOURCE).is_file():
            return True
    return False


def is_own_folder(path: Path) -> bool:
    """Whether a folder is a cohort or a run, or belongs to the runs of a cohort."""
    place = path.resolve()
    if (place / COHORT).is_file() or all((place / own).is_file() for own in (RUN, SOURCE)):
        return True
    return any(
        (folder / COHORT).is_file() and place.relative_to(folder).parts[0] == RUNS
        for folder in place.parents
    )


def is_held_out(path: Path) -> bool:
    """Whether a cohort or one of its runs keeps results on held-out domains at this place."""
    place = path.resolve()
    return any(
        (above / mark).is_file()
        for folder in (place, *place.parents)
        if folder.name == HELDOUT
        for above in folder.parents
        for mark in (RUN, COHORT)
    )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of the schema this version knows."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"Expected a file {path.name}, but there is none in {path.parent}: check the path."
        ) from None
    except NotADirectoryError:
        raise InputError(
            f"Expected a folder with {path.name} in it, but {path.parent} is a file: give the "
            "folder (`checkwise unpack` makes one of a packed cohort)."
        ) from None
    except (ValueError, OSError) as error:
        raise InputError(
            f"Expected a readable JSON object, but got: {error} in {path}: "
            "`checkwise verify` says what to do."
        ) from None
    if not isinstance(found, dict):
        raise InputError(f"Expected a JSON object, but got {type(found).__name__} in {path}.")
    check_schema(found.get("schema"), path)
    return found


def check_schema(schema: object, path: Path) -> None:
    """Refuse files whose meaning this version does not know."""
    if schema == SCHEMA:
        return
    newer = isinstance(schema, int) and schema > SCHEMA
    advice = "update checkwise" if newer else "write it again with this version of checkwise"
    raise InputError(f"Expected schema {SCHEMA}, but got {schema!r} in {path}: {advice}.")


def encode_json(content: object) -> str:
    """JSON for people: one thing per line, nothing that is not JSON."""
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
