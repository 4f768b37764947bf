"""A folder of saved outputs: ``step-000100/<domain>.npz`` with logits (or probs) and labels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from checkwise.errors import InputError
from checkwise.integrations.found import Found, Request, build
from checkwise.records import Trajectory

STEP = re.compile(r"step[-_]?([0-9]{1,15})")
OUTPUTS = ("logits", "probs")
# Folders and files of these names hold held-out data and are never opened.
TARGETS = ("target", "targets", "heldout", "held_out", "held-out")
WEIGHTS = (".safetensors", ".pt", ".pth", ".ckpt")


def step_folders(path: Path) -> dict[int, Path]:
    """Step → folder, in order of steps; two folders of one step are refused."""
    found: dict[int, Path] = {}
    for name in sorted(os.listdir(path)):
        match = STEP.fullmatch(name)
        if match is None or not (path / name).is_dir():
            continue
        folder, step = path / name, int(match[1])
        if step in found:
            raise InputError(
                f"Expected one folder per step, but {path} holds {found[step].name} and "
                f"{folder.name}: remove one."
            )
        found[step] = folder
    return dict(sorted(found.items()))


def recognises(path: Path) -> bool:
    """Whether a folder has a step folder with saved outputs."""
    return path.is_dir() and any(_outputs(folder) for folder in step_folders(path).values())


def read(path: Path, request: Request) -> list[Found]:
    """The one run whose outputs the folder holds; every metric is computed from them."""
    folders = step_folders(path)
    files = {step: _outputs(folder) for step, folder in folders.items()}
    sources = [
        file
        for domains in files.values()
        for domain, file in domains.items()
        if domain not in request.held_out
    ]
    kind = _kind(sources[0]) if sources else OUTPUTS[0]
    weights = {step: _weights(folder) for step, folder in folders.items()}
    trajectory = build(
        Trajectory.from_predictions,
        str(path),
        {step: _Outputs(domains, kind) for step, domains in files.items()},
        kind=kind,
        held_out=request.held_out,
        paths=[*weights.values()] if any(weights.values()) else None,
    )
    return [Found(None, trajectory, str(path))]


class _Needs(NamedTuple):
    kinds: str
    ndim: int


ARRAYS = {"logits": _Needs("fiu", 2), "probs": _Needs("f", 2), "labels": _Needs("iuf", 1)}


class _Outputs(Mapping[str, tuple[Any, Any]]):
    """The domains of one step; a file is opened when its domain is asked for."""

    def __init__(self, files: Mapping[str, Path], kind: str) -> None:
        self._files = files
        self._kind = kind

    def __getitem__(self, domain: str) -> tuple[Any, Any]:
        saved = _arrays(self._files[domain], (self._kind, "labels"))
        return saved[self._kind], saved["labels"]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _outputs(folder: Path) -> dict[str, Path]:
    """Domain → file, without hidden files and those named after a target."""
    return {
        file.stem: file
        for file in sorted(folder.glob("*.npz"))
        if not file.name.startswith(".") and file.stem.lower() not in TARGETS and file.is_file()
    }


def _kind(file: Path) -> str:
    names = _names(file)
    for kind in OUTPUTS:
        if kind in names:
            return kind
    raise _unexpected(file, f"arrays {', '.join(names) or '(none)'}")


def _names(file: Path) -> list[str]:
    with _opened(file) as saved:
        return list(saved.files)


def _arrays(file: Path, wanted: tuple[str, ...]) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    with _opened(file) as saved:
        for name in wanted:
            if name not in saved.files:
                raise _unexpected(file, f"arrays {', '.join(saved.files) or '(none)'}, no {name}")
            try:
                array = saved[name]
            except Exception as error:
                raise _damaged(file, error) from None
            needs = ARRAYS[name]
            if array.ndim != needs.ndim or array.dtype.kind not in needs.kinds:
                raise _unexpected(file, f"{name} of shape {array.shape} and type {array.dtype}")
            arrays[name] = array
    return arrays


def _opened(file: Path) -> Any:
    try:
        saved = np.load(file, allow_pickle=False)
    except Exception as error:
        raise _damaged(file, error) from None
    if not isinstance(saved, np.lib.npyio.NpzFile):
        raise _unexpected(file, "a single array")
    return saved


def _unexpected(file: Path, came: str) -> InputError:
    return InputError(
        f"Expected numeric arrays logits (or probs) [n, C] and labels [n], but {file} holds "
        f"{came}: save them with np.savez(file, logits=…, labels=…)."
    )


def _damaged(file: Path, error: Exception) -> InputError:
    """Damage surfaces as a dozen kinds of error; all mean the same to the caller."""
    reason = str(error).partition("\n")[0][:80]
    return InputError(
        f"Expected an .npz file of plain arrays, but {file} cannot be read ({reason}): "
        "save it again with np.savez."
    )


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
