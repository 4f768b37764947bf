"""Saved outputs of one checkpoint on one domain: an ``.npz`` of plain arrays."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from checkwise.calibrators import REFINED_METRICS
from checkwise.errors import InputError
from checkwise.metrics import Outcomes
from checkwise.readers.request import LoadedRun, Request, build
from checkwise.records import Sides, Trajectory, check_held_out, divide, groups_of, with_refined
from checkwise.store import ArrayHeader, locate, open_npz, open_regular, read_record

OUTPUTS = ("logits", "probs")
_SINGLE = b"\x93NUMPY"  # how a file of one array begins


class _Needs(NamedTuple):
    """Kinds of types, dimensions, and how to say both of an array that may be left out."""

    kinds: str
    ndim: int
    said: str = ""


ARRAYS = {
    "logits": _Needs("fiu", 2),
    "probs": _Needs("f", 2),
    "labels": _Needs("iuf", 1),
    "groups": _Needs("iuUSb", 1, "whole numbers or text [n], the unit of every example"),
    "correct": _Needs("b", 1, "true or false [n], one per example"),
    "nll": _Needs("f", 1, "decimal numbers [n], one per example"),
}


class SavedOutputs(NamedTuple):
    """What a file holds.

    ``groups`` are the independent units of the examples, if named. ``outcomes`` are correctness and
    NLL from a higher precision than that of the outputs, if saved.
    """

    kind: str
    outputs: Any
    labels: Any
    groups: Any | None
    outcomes: Outcomes | None = None


def read_outputs(file: Path, kind: str | None = None) -> SavedOutputs:
    """The kind of the outputs ("logits" or "probs", by the array's name), outputs and labels."""
    with _opened(file) as saved:
        kind = kind or _kind(saved, file)
        groups = saved["groups"] if "groups" in saved.files else None
        outputs, labels = _array(saved, kind, file), _array(saved, "labels", file)
        return SavedOutputs(kind, outputs, labels, groups, _outcomes(saved))


def read_outcomes(file: Path) -> SavedOutputs:
    """The same without the outputs, which are most of a file and are not read."""
    with _opened(file) as saved:
        groups = saved["groups"] if "groups" in saved.files else None
        labels = _array(saved, "labels", file)
        return SavedOutputs(_kind(saved, file), None, labels, groups, _outcomes(saved))


def _outcomes(saved: Any) -> Outcomes | None:
    if not {"correct", "nll"} <= {*saved.files}:
        return None
    return Outcomes(saved["correct"], np.asarray(saved["nll"], dtype=np.float64))


def kind_of(file: Path) -> str:
    """Whether a file holds logits or probs, without reading either."""
    with _opened(file) as saved:
        return _kind(saved, file)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        with open_regular(file) as handle:
            if handle.read(6) == _SINGLE:
                raise _unexpected(file, "a single array")
            handle.seek(0)
            with open_npz(handle) as (headers, saved):
                _check(headers, file)
                yield saved
    except InputError:
        raise
    except Exception as error:
        # Damage surfaces as a dozen kinds of error; all mean the same to the caller.
        reason = str(error).partition("\n")[0][:80] or type(error).__name__
        raise InputError(
            f"Expected an .npz file of plain arrays, but {file} cannot be read ({reason}): "
            "save it again with np.savez.",
            code="format",
        ) from None


def _kind(saved: Any, file: Path) -> str:
    for kind in OUTPUTS:
        if kind in saved.files:
            return kind
    raise _unexpected(file, f"arrays {', '.join(saved.files) or '(none)'}")


def _array(saved: Any, name: str, file: Path) -> Any:
    if name not in saved.files:
        raise _unexpected(file, f"arrays {', '.join(saved.files) or '(none)'}, no {name}")
    return saved[name]


def _check(headers: Mapping[str, ArrayHeader], file: Path) -> None:
    """Refuse what cannot be outputs and their labels, by headers alone."""
    for name, needs in ARRAYS.items():
        if name not in headers:
            continue
        shape, dtype = headers[name]
        if len(shape) != needs.ndim or dtype.kind not in needs.kinds:
            came = f"{name} of shape {shape} and type {dtype}"
            if needs.said:
                raise InputError(
                    f"Expected {name} as {needs.said}, but {file} holds {came}: save it so, or "
                    "leave it out.",
                    code="format",
                )
            raise _unexpected(file, came)
    sizes = {name: headers[name].shape[0] for name in ARRAYS if name in headers}
    labels = sizes.pop("labels", None)
    for name, rows in sizes.items():
        if labels is not None and rows != labels:
            raise InputError(
                f"Expected {rows} labels, one per row of {name}, but {file} holds {labels}: save "
                "outputs, labels and groups of the same examples."
                if name in OUTPUTS
                else f"Expected {labels} {name}, one per label, but {file} holds {rows}: save "
                "those of the same examples.",
                code="differs",
            )


def _unexpected(file: Path, came: str) -> InputError:
    return InputError(
        f"Expected numeric arrays logits (or probs) [n, C] and labels [n], but {file} holds "
        f"{came}: save them with np.savez(file, logits=…, labels=…).",
        code="format",
    )


STEP = re.compile(r"step[-_]?([0-9]{1,15})")
WEIGHTS = (".safetensors", ".pt", ".pth", ".ckpt")


def step_folders(path: Path) -> dict[int, Path]:
    """Step → folder, in order of steps; two folders of one step are refused."""
    folders: dict[int, Path] = {}
    for name in sorted(os.listdir(path)):
        match = STEP.fullmatch(name)
        if match is None or not (path / name).is_dir():
            continue
        folder, step = path / name, int(match[1])
        if step in folders:
            raise InputError(
                f"Expected one folder per step, but {path} holds {folders[step].name} and "
                f"{folder.name}: remove one.",
                code="ambiguous",
            )
        folders[step] = folder
    return dict(sorted(folders.items()))


def recognises(path: Path) -> bool:
    """Whether a folder has a step folder with saved outputs."""
    return path.is_dir() and any(output_files(folder) for folder in step_folders(path).values())


def read(path: Path, request: Request) -> list[LoadedRun]:
    """The one run whose outputs the folder holds; every metric is computed from them."""
    request.refuse_columns(path)
    folders = step_folders(path)
    files = {step: output_files(folder) for step, folder in folders.items()}
    sides = _sides(request, files, folders, path)
    # Targets go here, so that not even their names reach the trajectory.
    sources = {
        step: {name: file for name, file in domains.items() if name in sides.sources}
        for step, domains in files.items()
    }
    kind = kind_of(next(file for domains in sources.values() for file in domains.values()))
    weights, notes = _checkpoints(path, folders)
    trajectory = build(
        Trajectory.from_predictions,
        str(path),
        {step: _Outputs(domains, kind) for step, domains in sources.items()},
        kind=kind,
        bins=request.bins,
        bandwidth=request.bandwidth,
        progress=lambda done: request.progress and request.progress(done, len(sources)),
        sources=sides.sources,
        paths=[*weights.values()] if any(weights.values()) else None,
    )
    trajectory = replace(trajectory, notes=(*trajectory.notes, *sides.notes, *notes))
    if set(request.metrics) & set(REFINED_METRICS):
        trajectory = with_refined(
            trajectory,
            lambda step: logits_at(path, step, trajectory.domains),
            groups=groups_of(trajectory),
        )
    return [LoadedRun(None, trajectory, str(path))]


def domains(path: Path) -> set[str]:
    """The names of the sets in a folder of saved outputs."""
    return {name for folder in step_folders(path).values() for name in output_files(folder)}


def logits_at(path: Path, step: int, domains: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """The logits and labels of one step on these domains; no other file is opened."""
    files = output_files(step_folders(path)[step])
    logits: dict[str, tuple[Any, Any]] = {}
    for domain in domains:
        kind, outputs, labels = read_outputs(files[domain])[:3]
        if kind != "logits":
            raise InputError(
                f"Expected logits, but {files[domain]} holds {kind}: a temperature needs logits; "
                "save them as `logits`.",
                code="missing",
            )
        logits[domain] = (outputs, labels)
    return logits


def _sides(
    request: Request,
    files: Mapping[int, Mapping[str, Path]],
    folders: Mapping[int, Path],
    path: Path,
) -> Sides:
    """Which files are validation, by their names."""
    names = {name for domains in files.values() for name in domains}
    aside = {name for folder in folders.values() for name in _set_aside(folder)}
    check_held_out(request.held_out, sorted(names | aside), str(path))
    left = names - set(request.held_out)
    if not left:
        raise InputError(
            f"No source domain of {path} is left after --held-out: hold out fewer.", code="empty"
        )
    return divide(left, sources=request.sources, where=str(path))


class _Outputs(Mapping[str, tuple[Any, ...]]):
    """The domains of one step; a file is opened when its domain is asked for."""

    def __init__(self, files: Mapping[str, Path], kind: str) -> None:
        self._files = files
        self._kind = kind

    def __getitem__(self, domain: str) -> tuple[Any, ...]:
        _, *said = read_outputs(self._files[domain], self._kind)
        while said[-1] is None:
            said.pop()
        return tuple(said)

    def __contains__(self, domain: object) -> bool:
        return domain in self._files  # the inherited one would open the file

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def output_files(folder: Path) -> dict[str, Path]:
    """Domain → file, without hidden files."""
    return {
        file.stem: file
        for file in sorted(folder.glob("*.npz"))
        if not file.name.startswith(".") and file.is_file()
    }


def _set_aside(folder: Path) -> set[str]:
    """Folders inside a step's folder and the files in them: known by name, never opened."""
    return {file.name for file in folder.iterdir() if file.is_dir()} | {
        file.stem for file in folder.glob("*/*.npz")
    }


def _checkpoints(
    path: Path, folders: Mapping[int, Path]
) -> tuple[dict[int, str | None], tuple[str, ...]]:
    """The checkpoint of every step, by `checkwise predict`'s record or beside the outputs."""
    record = read_record(path)
    if record is None:
        return {step: _weights(folder) for step, folder in folders.items()}, ()
    located = locate(path, record, folders)
    return {step: located.paths.get(step) for step in folders}, located.notes


def _weights(folder: Path) -> str | None:
    """The weights saved with a step, by name only: one file of the first suffix that occurs."""
    candidates = [folder, folder.parent]
    for place, pattern in zip(candidates, ("*", f"{folder.name}.*"), strict=True):
        for suffix in WEIGHTS:
            files = sorted(f for f in place.glob(pattern) if f.suffix == suffix and f.is_file())
            named = [file for file in files if file.stem in ("weights", "model")]
            if len(files) == 1 or named:
                return str((named or files)[-1])
    return None
