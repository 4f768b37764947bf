"""The user's function from checkpoint and domain to outputs, loaded because the user named it.

The current folder is never added to where Python looks for modules. The folder of a named file is,
in the worker only and after everything that is installed: a neighbour of the file can be imported,
and cannot take the place of an installed module.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import Array, Predictions, read, to_numpy
from checkwise.readers import OUTPUTS, output_files, read_outputs, step_folders
from checkwise.records import group_numbers
from checkwise.store import PredictionsRecord, RecordedCheckpoint, open_npz, write_npz, write_with
from checkwise.words import shown

Function = Callable[[str, str], Any]


@dataclass(frozen=True)
class FunctionName:
    """Where a function is: the absolute path of a file, or a module; and what it is called there.

    Example:
        >>> FunctionName.parse("package.module:outputs").short
        'package.module:outputs'
        >>> FunctionName("/home/me/evaluate.py", "outputs").short
        'evaluate.py:outputs'
    """

    source: str
    attribute: str

    @classmethod
    def parse(cls, text: str) -> FunctionName:
        """``file.py:function`` or ``module:function``."""
        source, _, attribute = text.rpartition(":")
        if not source or not attribute.isidentifier():
            raise InputError(
                f"Expected --function file.py:function or module:function, but got {text!r}: "
                "write, for example, --function evaluate.py:outputs."
            )
        if source.endswith(".py"):
            if not Path(source).is_file():
                raise InputError(
                    f"Expected a Python file for --function, but there is none at {source}: check "
                    "the path.",
                    code="missing",
                )
            source = str(Path(source).absolute())
        return cls(source, attribute)

    @property
    def is_file(self) -> bool:
        """Whether it is in a file of its own rather than an installed module."""
        return self.source.endswith(".py")

    @property
    def short(self) -> str:
        """The name without the folder of the file."""
        return f"{Path(self.source).name if self.is_file else self.source}:{self.attribute}"


class Loaded(NamedTuple):
    """A function, and the SHA-256 of the file that it was loaded from."""

    function: Function
    sha256: str


def load_function(name: FunctionName) -> Loaded:
    """Import the file or module. Whatever it raises goes to the caller.

    Raises:
        InputError: there is no module of that name, or no such function in it.
    """
    path = Path(name.source) if name.is_file else _origin(name.source)
    content = path.read_bytes()
    module = _run_file(path, content) if name.is_file else importlib.import_module(name.source)
    function = getattr(module, name.attribute, None)
    if not callable(function):
        raise InputError(
            f"Expected a function {name.attribute} in {name.source}, but got "
            f"{'none' if function is None else type(function).__name__}: check its name.",
            code="unknown",
        )
    return Loaded(function, hashlib.sha256(content).hexdigest())


def _origin(module: str) -> Path:
    try:
        spec = importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise InputError(
            f"Expected an installed module for --function, but found none called {module}: the "
            "current folder is not searched; for a file write --function file.py:function.",
            code="missing",
        )
    return Path(spec.origin)


def _run_file(path: Path, content: bytes) -> ModuleType:
    """The module of a file: what was hashed is what runs.

    Under its own name, if that is free, other processes of the function's can import it again.
    """
    taken = not path.stem.isidentifier() or importlib.util.find_spec(path.stem) is not None
    module = ModuleType(f"checkwise_function_{path.stem}" if taken else path.stem)
    module.__file__ = str(path)
    sys.path.append(str(path.parent))
    sys.modules[module.__name__] = module
    exec(compile(content, str(path), "exec"), module.__dict__)
    return module


EXPECTED = (
    "(logits, labels), (logits, labels, groups), or a dict with `logits` (or `probs`) and `labels`"
)
_MEASURED = (*OUTPUTS, "labels")


@dataclass(frozen=True)
class Facts:
    """What has to be the same at every checkpoint of a domain."""

    kind: str
    examples: int
    classes: int
    labels: str
    groups: str | None = None

    def difference(self, other: Facts) -> str | None:
        """The first of these that differs, in words."""
        theirs = asdict(other)
        return next((name for name, value in asdict(self).items() if theirs[name] != value), None)


@dataclass(frozen=True)
class Outputs:
    """Logits or probabilities [n, C] and labels [n], as they are written.

    ``groups`` [n] names the independent unit (site, patient, burst) of every example, if given.
    """

    kind: str
    values: Array
    labels: Array
    groups: Array | None = None

    @property
    def facts(self) -> Facts:
        """Kind, number of examples and classes, and hashes of the labels and groups."""
        examples, classes = self.values.shape
        digest = hashlib.sha256(self.labels.astype(np.int64).tobytes()).hexdigest()
        if self.groups is None:
            return Facts(self.kind, examples, classes, digest)
        units = hashlib.sha256(group_numbers(self.groups, examples).tobytes()).hexdigest()
        return Facts(self.kind, examples, classes, digest, units)

    def write(self, path: Path) -> None:
        """Write ``<domain>.npz``, whole; equal outputs give equal files."""

        def save(temporary: Path) -> None:
            arrays = {self.kind: self.values, "labels": self.labels}
            if self.groups is not None:
                arrays["groups"] = self.groups
            with temporary.open("wb") as file:
                write_npz(file, arrays)

        write_with(path, save)


def check_outputs(returned: Any) -> Outputs:
    """Outputs that ``select`` will be able to read.

    Logits that are not finite are allowed: their checkpoint counts as diverged.

    Raises:
        InputError: another shape or type, labels that are not whole or out of range, no examples,
            or probabilities that are none.

    Example:
        >>> check_outputs(([[2.0, 1.0], [0.0, 3.0]], [0, 1])).kind
        'logits'
    """
    arrays = _arrays(returned)
    present = {name: to_numpy(arrays[name], name) for name in _MEASURED if name in arrays}
    for kind in present.keys() & {*OUTPUTS}:
        present[kind] = _storable(present[kind])
    # What is written is checked: in bfloat16 rows may sum to 1 less exactly than in float32.
    predictions = read(
        logits=present.get("logits"), probs=present.get("probs"), labels=present["labels"]
    )
    _refuse_unmeasurable(predictions)
    groups = _groups(arrays.get("groups"), len(predictions.labels))
    return Outputs(predictions.kind, predictions.values, predictions.labels, groups)


def saved_facts(path: Path) -> Facts:
    """The facts of a file that was written earlier."""
    return Outputs(*read_outputs(path)[:4]).facts


def is_whole(path: Path) -> bool:
    """Whether a file of outputs is there and was not cut off; no value is read."""
    try:
        with path.open("rb") as file, open_npz(file) as (headers, _):
            return "labels" in headers and any(kind in headers for kind in OUTPUTS)
    except (OSError, ValueError):
        return False


def _arrays(returned: Any) -> Mapping[str, Any]:
    if isinstance(returned, tuple) and len(returned) in (2, 3):
        return dict(zip(("logits", "labels", "groups"), returned, strict=False))
    if not isinstance(returned, Mapping):
        length = f" of {len(returned)}" if isinstance(returned, tuple | list) else ""
        raise InputError(
            f"Expected the function to return {EXPECTED}, but got "
            f"{type(returned).__name__}{length}: return one of these."
        )
    names = [str(name) for name in returned]
    if "labels" not in names or not any(kind in names for kind in OUTPUTS):
        raise InputError(
            f"Expected the function to return {EXPECTED}, but got a dict with "
            f"{shown(', '.join(names)) if names else 'nothing'}: rename or add what is missing."
        )
    return returned


def _groups(given: Any, n: int) -> Array | None:
    """The groups as plain names or whole numbers, one per example."""
    if given is None:
        return None
    raw = np.asarray(given) if isinstance(given, list | tuple) else to_numpy(given, "groups")
    if raw.dtype.kind in "OT" and all(isinstance(name, str) for name in raw.ravel().tolist()):
        raw = raw.astype(np.str_)  # a column of a data frame
    group_numbers(raw, n)
    return np.ascontiguousarray(raw)


def _storable(values: Array) -> Array:
    """Numbers as native floats of at most 64 bits, in one block."""
    if values.dtype.kind in "iu" or (values.dtype.kind == "f" and values.dtype.itemsize > 8):
        with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf
            values = values.astype(np.float64)
    return np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="), copy=False))


def _refuse_unmeasurable(predictions: Predictions) -> None:
    """Refuse rows for which no finite NLL exists, unless logits blew up as a whole."""
    refused: tuple[int, Array, int] | None = None
    for start, rows, labels in predictions.blocks():
        if predictions.kind == "logits":
            if np.isnan(rows).any() or np.isposinf(rows).any():
                return
            bad = np.isneginf(rows[np.arange(len(rows)), labels])
        else:
            sums = rows.sum(1, dtype=np.float64)
            with np.errstate(invalid="ignore"):
                fine = (rows >= 0).all(1) & (np.abs(sums - 1) <= predictions.tolerance)
            bad = ~fine | (rows[np.arange(len(rows)), labels] <= 0)
        if bad.any() and refused is None:
            row = int(np.flatnonzero(bad)[0])
            refused = start + row, rows[row], int(labels[row])
    if refused is not None:
        predictions.refuse(*refused)


JOBS: Final = ".jobs"  # what workers elsewhere share, in a predictions folder


class Outdated(NamedTuple):
    """Steps whose outputs must not stay, and why."""

    steps: tuple[int, ...]
    reason: str


class Known(NamedTuple):
    """The facts of a domain, and the step at which they were first seen."""

    step: int
    facts: Facts


def outputs_file(out: Path, step: int, domain: str) -> Path:
    """Where the outputs of a step on a domain are."""
    return out / f"step-{step:06d}" / f"{domain}.npz"


def outdated(out: Path, before: PredictionsRecord | None, now: PredictionsRecord) -> Outdated:
    """Steps with outputs that another function gave, or another state of their checkpoint.

    Raises:
        InputError: the folder holds outputs without a record.
    """
    saved = tuple(step for step, folder in step_folders(out).items() if output_files(folder))
    if before is None:
        if saved:
            raise InputError(
                f"Expected a new folder or one that `checkwise predict` made, but {out} holds "
                "other outputs: choose another.",
                code="exists",
            )
        return Outdated((), "")
    if (before.function, before.sha256) != (now.function, now.sha256):
        other = f"{before.function} (SHA-256 {before.sha256:.12}…)"
        return Outdated(
            saved, f"its outputs are those of {other}, not {now.function} ({now.sha256:.12}…)"
        )
    changed = [step for step in saved if _differs(step, before.checkpoints, now.checkpoints)]
    if not changed:
        return Outdated((), "")
    name = before.checkpoints[changed[0]].name
    return Outdated(
        tuple(changed),
        f"{name}, evaluated as step {changed[0]}, was written again or has another step now",
    )


def discard(out: Path, steps: Iterable[int]) -> None:
    """Remove the outputs of these steps."""
    folders = step_folders(out)
    for step in steps:
        for file in output_files(folders[step]).values():
            file.unlink()
        with suppress(OSError):  # something else is in it
            folders[step].rmdir()


def remove_leftovers(out: Path) -> None:
    """Remove what a killed process was writing; only the holder of the folder's lock may.

    Workers elsewhere may outlive their command. They write below ``JOBS``; once that has another
    name they find nothing there, and cannot add to the outputs.
    """
    if (out / JOBS).is_dir():
        removed = out / f"{JOBS}.{secrets.token_hex(4)}.tmp"
        (out / JOBS).rename(removed)
        shutil.rmtree(removed, ignore_errors=True)
    for file in (*(f for f in out.glob(".*.tmp") if f.is_file()), *out.glob("step-*/.*.npz.*.tmp")):
        file.unlink(missing_ok=True)


def missing_domains(
    out: Path, steps: Iterable[int], domains: Sequence[str]
) -> dict[int, tuple[str, ...]]:
    """Step → domains that have no whole outputs yet; steps that are complete are left out."""
    missing = {
        step: tuple(name for name in domains if not is_whole(outputs_file(out, step, name)))
        for step in steps
    }
    return {step: names for step, names in missing.items() if names}


def known_facts(out: Path) -> dict[str, Known]:
    """The facts of every domain that has outputs, from its first step."""
    known: dict[str, Known] = {}
    for step, folder in step_folders(out).items():
        for domain, file in output_files(folder).items():
            if domain not in known and is_whole(file):
                known[domain] = Known(step, saved_facts(file))
    return known


def _differs(
    step: int,
    before: Mapping[int, RecordedCheckpoint],
    now: Mapping[int, RecordedCheckpoint],
) -> bool:
    """Whether a step's checkpoint was written again, or counts as another step now.

    A checkpoint that is gone does not differ: its outputs stay true.
    """
    if step not in before:
        return False
    name = _short(before[step])
    if step not in now:
        return any(_short(checkpoint) == name for checkpoint in now.values())
    return name != _short(now[step]) or before[step].state != now[step].state


def _short(checkpoint: RecordedCheckpoint) -> str:
    """The last part of the path: a run's folder and the one of its checkpoints are both fine."""
    return Path(checkpoint.name).name
