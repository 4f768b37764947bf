"""Names of the files and folders of a cohort, and the version of their meaning."""

from __future__ import annotations

import json
import os
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

from checkwise.errors import InputError
from checkwise.records import domains as domain_names
from checkwise.records import same_name
from checkwise.store import reading

LAYOUT_SCHEMA: Final = 1
LARGEST_JSON: Final = 2**28  # bytes; the mark of a run with a million files is smaller

COHORT_FILE: Final = "cohort.json"
REGISTRATIONS_FILE: Final = "registrations.jsonl"
RUNS_FOLDER: Final = "runs"
ATTEMPTS_FOLDER: Final = "attempts"
WORKERS_FILE: Final = "workers.json"
RUN_FILE: Final = "run.json"
SOURCE_FILE: Final = "source.jsonl"
HELDOUT_FOLDER: Final = "heldout"
PREDICTIONS_FOLDER: Final = "predictions"
CHECKPOINTS_FOLDER: Final = "checkpoints"
AVERAGES_FOLDER: Final = "averages"
RESUME_FILE: Final = "resume/state.pt"
LEASE_FILE: Final = "lease"
ERROR_FILE: Final = "error.txt"
DONE_FILE: Final = "done"
DERIVED_FOLDER: Final = "derived"
PACKED_SUFFIX: Final = ".tar.xz"
INNER_SUFFIX: Final = "-lodo"  # ends the name of the folder of inner runs, beside their cohort
ORIGIN: Final = "imported"  # in cohort.json under `study`, in run.json under `config`
ATTEMPT_NAME: Final = re.compile(r"[0-9a-f]{32}")
VERIFY: Final = "`checkwise study status --verify` says what to do"
_OF_A_COHORT: Final = (COHORT_FILE, REGISTRATIONS_FILE, WORKERS_FILE, DERIVED_FOLDER)
_OF_A_RUN: Final = (
    RUN_FILE,
    SOURCE_FILE,
    HELDOUT_FOLDER,
    PREDICTIONS_FOLDER,
    CHECKPOINTS_FOLDER,
    AVERAGES_FOLDER,
    Path(RESUME_FILE).parts[0],
    LEASE_FILE,
    ERROR_FILE,
    DONE_FILE,
)

Value = TypeVar("Value", str, int, dict[str, Any], list[Any])
_KINDS: Final[dict[type, str]] = {
    str: "a string",
    int: "a whole number",
    dict: "an object",
    list: "a list",
}
_LONGEST_DOMAIN: Final = 220  # bytes; a suffix and a temporary name fit beside it
_LONGEST_START: Final = 150
_UNSAFE = re.compile(r"[/\\\0]|^\.|%(?=[0-9A-Fa-f]{2})")


def name_as_file(domain: str) -> str:
    """A domain's name as a file name: different domains have different names.

    A name too long for a file keeps its beginning and ends in a hash.

    Example:
        >>> name_as_file("Real World"), name_as_file("a/b")
        ('Real World', 'a%2Fb')
    """
    name = _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", domain)
    if len(name.encode()) <= _LONGEST_DOMAIN:
        return name
    import hashlib  # slow to import

    start = name.encode()[:_LONGEST_START].decode(errors="ignore")
    return f"{start}%{hashlib.sha256(domain.encode()).hexdigest()}"


def check_domains(domains: Sequence[str]) -> tuple[str, ...]:
    """Names that can be file names as they are, and stay apart on any file system."""
    names = domain_names(domains)
    for name in names:
        if name_as_file(name) != name:
            raise InputError(
                f"Expected domains that can name a file, but got {name!r}: leave out /, \\, a "
                "leading dot and percent signs, and keep it short."
            )
    for index, name in enumerate(names):
        alike = [other for other in names[:index] if same_name(name, other)]
        if alike:
            raise InputError(
                f"Expected domains with different names, but got {alike[0]!r} and {name!r}: "
                "rename one.",
                code="ambiguous",
            )
    return names


def heldout_file(domain: str) -> str:
    """Where the results on a held-out domain are, inside a run's folder."""
    return f"{HELDOUT_FOLDER}/{name_as_file(domain)}.jsonl"


def checkpoint_file(step: int) -> str:
    """Where the weights of a step are, inside a run's folder."""
    return f"{CHECKPOINTS_FOLDER}/step-{step:06d}.safetensors"


def average_file(name: str) -> str:
    """Where an average that was kept during training is, inside a run's folder."""
    return f"{AVERAGES_FOLDER}/{name}.safetensors"


def source_predictions_file(step: int) -> str:
    """Where the logits of all source domains at a step are, inside a run's folder."""
    return f"{PREDICTIONS_FOLDER}/source/step-{step:06d}.npz"


def groups_predictions_file(step: int) -> str:
    """Where the logits of the second validation set, whole groups, at a step are."""
    return f"{PREDICTIONS_FOLDER}/source-groups/step-{step:06d}.npz"


def outcomes_file(step: int, *, second: bool = False) -> str:
    """Where it says which source examples were correct at a step, and their NLL."""
    place = "outcomes-groups" if second else "outcomes"
    return f"{PREDICTIONS_FOLDER}/{place}/step-{step:06d}.npz"


def heldout_predictions_file(domain: str, step: int) -> str:
    """Where the logits of a held-out domain at a step are, inside a run's folder."""
    return f"{PREDICTIONS_FOLDER}/heldout/{name_as_file(domain)}/step-{step:06d}.npz"


def attempts_folder(run: Path) -> Path:
    """Where the attempts at a run are."""
    return run.parent.parent / ATTEMPTS_FOLDER / run.name


def latest_attempt(run: Path) -> Path:
    """The folder to read a run from: its own, or that of the attempt with the most records."""
    if reading.has_file(run, RUN_FILE):
        return run
    attempts = [
        attempt for attempt in _inside(attempts_folder(run)) if ATTEMPT_NAME.fullmatch(attempt.name)
    ]
    # All journals of a run begin alike, so the longest has the most records.
    return max(attempts, key=lambda attempt: _size(attempt / SOURCE_FILE), default=run)


def unpublished_runs(cohort: Path) -> list[Path]:
    """The folders to read runs from that have begun and are not published."""
    runs = [cohort / RUNS_FOLDER / place.name for place in _inside(cohort / ATTEMPTS_FOLDER)]
    return [folder for run in runs if (folder := latest_attempt(run)) != run]


def still_there(folder: Path) -> Path:
    """The folder of a run, or where its run is to be read if it was published meanwhile."""
    place = folder.parent
    if place.parent.name != ATTEMPTS_FOLDER or reading.has_file(folder, RUN_FILE):
        return folder
    return latest_attempt(place.parent.parent / RUNS_FOLDER / place.name)


def _inside(folder: Path) -> list[Path]:
    """What is in a folder, sorted; nothing where there is no folder."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:
        return -1


def step_in_name(path: Path) -> int | None:
    """The step in a file's name, if it has one."""
    match = re.fullmatch(r"step-(\d+)\.\w+", path.name)
    return int(match[1]) if match else None


def inner_path(cohort: Path) -> Path:
    """Where the inner runs of a cohort are: beside it, so that reading it never includes them."""
    cohort = Path(cohort)
    named = Path(os.path.abspath(cohort)) if cohort.name in ("", "..") else cohort
    return named.with_name(f"{cohort.resolve().name}{INNER_SUFFIX}")


def outer_cohorts(inner: Path) -> list[Path]:
    """Cohorts whose inner runs are here: the one beside it, and links to one of that name."""
    if not inner.name.endswith(INNER_SUFFIX):
        return []
    # os.path: a neighbour that may not be looked into is no cohort, and no error.
    cohorts = [place for place in inner.parent.iterdir() if os.path.isfile(place / COHORT_FILE)]
    return [cohort for cohort in cohorts if inner_path(cohort) == inner]


def is_own_record(path: Path) -> bool:
    """Whether a cohort or one of its runs keeps its own records at this place."""
    place = path.resolve()
    for folder in place.parents:
        first = place.relative_to(folder).parts[0]
        if (first in _OF_A_COHORT and _is_cohort(folder)) or (
            first in _OF_A_RUN and _is_run(folder)
        ):
            return True
    return False


def is_own_folder(path: Path) -> bool:
    """Whether a folder is a cohort or a run, or belongs to the runs of a cohort."""
    place = path.resolve()
    of_runs = (RUNS_FOLDER, ATTEMPTS_FOLDER)
    inside = (f for f in place.parents if place.relative_to(f).parts[0] in of_runs)
    return _is_cohort(place) or _is_run(place) or any(map(_is_cohort, inside))


def _is_cohort(folder: Path) -> bool:
    return (folder / COHORT_FILE).is_file()


def _is_run(folder: Path) -> bool:
    return (folder / RUN_FILE).is_file() and (folder / SOURCE_FILE).is_file()


def is_held_out_place(path: Path) -> bool:
    """Whether a cohort or one of its runs keeps results on held-out domains at this place."""
    place = path.resolve()
    return any(
        (above / mark).is_file()
        for folder in (place, *place.parents)
        if folder.name == HELDOUT_FOLDER
        for above in folder.parents
        for mark in (RUN_FILE, COHORT_FILE)
    )


@dataclass(frozen=True)
class Document:
    """A JSON object with the size and SHA-256 of the file it came from; not to be changed."""

    content: dict[str, Any]
    bytes: int
    sha256: str


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of the schema this version knows; not to be changed."""
    return read_document(path).content


def read_document(path: Path) -> Document:
    """The same with the file's size and SHA-256; a file that stays the same is read once."""
    try:
        return _document(path, reading.identity(path.parent, path.name))
    except FileNotFoundError:
        what = "a study's folder, which has a" if path.name == COHORT_FILE else "a file"
        raise InputError(
            f"Expected {what} {path.name}, but there is none in {path.parent}: check the path.",
            code="missing",
        ) from None
    except NotADirectoryError:
        raise InputError(
            f"Expected a folder with {path.name} in it, but {path.parent} is a file: name the "
            "folder (`checkwise study unpack` makes one from a packed study).",
            code="unsupported",
        ) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise damaged_file("a readable JSON object", error, str(path)) from None


@lru_cache(maxsize=1024)
def _document(path: Path, _: reading.Identity) -> Document:
    import hashlib

    with reading.open_file(path.parent, path.name) as file:
        raw = file.read(LARGEST_JSON + 1)
    if len(raw) > LARGEST_JSON:
        raise ValueError(f"more than {LARGEST_JSON / 1e6:.0f} MB")
    content = reading.parse(raw)
    if not isinstance(content, dict):
        raise ValueError(type(content).__name__)
    check_schema(content.get("schema"), path)
    return Document(content, len(raw), hashlib.sha256(raw).hexdigest())


def damaged_file(wanted: str, came: object, where: str) -> InputError:
    """The error about a file of a study that does not hold what checkwise wrote."""
    shown = str(came) if isinstance(came, Exception) else reprlib.repr(came)
    return InputError(
        f"Expected {wanted}, but got {shown} in {where}: the file is damaged; {VERIFY}.",
        code="damaged",
    )


def expect(content: Mapping[str, Any], name: str, kind: type[Value], path: Path) -> Value:
    """One entry of a JSON object, of the kind it has to be."""
    value = content.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise damaged_file(f"{_KINDS[kind]} as {name!r}", value, str(path))
    return value


def check_schema(schema: object, path: Path) -> None:
    """Refuse files whose meaning this version does not know."""
    if schema == LAYOUT_SCHEMA and type(schema) is int:
        return
    newer = type(schema) is int and schema > LAYOUT_SCHEMA
    advice = "update checkwise" if newer else "write it again with this version of checkwise"
    raise InputError(
        f"Expected schema {LAYOUT_SCHEMA}, but got {reprlib.repr(schema)} in {path}: {advice}.",
        code="damaged",
    )


def encode_json(content: object) -> str:
    """JSON for people: one thing per line, nothing that is not JSON."""
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
