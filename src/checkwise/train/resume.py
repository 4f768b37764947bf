"""The state from which a run continues bit for bit."""

from __future__ import annotations

import io
import pickle
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from checkwise.errors import InputError
from checkwise.store import layout
from checkwise.store.atomic import write_bytes


@dataclass(frozen=True)
class ResumeState:
    """Everything later updates and records depend on, after ``updates`` updates.

    ``journals`` maps each journal to its length in bytes at this moment: what was appended later is
    cut off and written again. ``terms`` holds the algorithm's logged terms since the last record.
    """

    digest: str
    updates: int
    algorithm: Mapping[str, Any]
    sampler: Mapping[str, int]
    journals: Mapping[str, int]
    terms: Mapping[str, Tensor]
    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    generators: Mapping[str, Tensor] = field(default_factory=dict)
    schema: int = layout.SCHEMA


def generators() -> dict[str, Tensor]:
    """The states of torch's generators."""
    found = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        found |= {f"cuda:{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return found


def set_generators(states: Mapping[str, Tensor]) -> None:
    """Put torch's generators where they were."""
    for device, state in states.items():
        if device == "cpu":
            torch.set_rng_state(state)
        else:
            torch.cuda.set_rng_state(state, device)


def save(folder: Path, state: ResumeState) -> None:
    """Write the state; the one before it stays until this one is whole."""
    path = folder / layout.RESUME
    path.parent.mkdir(parents=True, exist_ok=True)
    # Through memory: torch reports a full disk as an error that does not say so.
    buffer = io.BytesIO()
    torch.save(asdict(state), buffer)
    write_bytes(path, buffer.getvalue())


def load(folder: Path) -> ResumeState | None:
    """The state a run left, or None where it has to begin."""
    path = folder / layout.RESUME
    if not path.is_file():
        return None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        layout.check_schema(found["schema"], path)
        return ResumeState(**found)
    except InputError:
        raise
    except (pickle.UnpicklingError, RuntimeError, KeyError, TypeError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"Expected the state of an unfinished run, but got: {reason} in {path}: remove that "
            "file to train the run from its start."
        ) from None


def clear(folder: Path) -> None:
    """Remove the state of a finished run."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder / Path(layout.RESUME).parent)


def remove_leftovers(folder: Path, updates: int) -> None:
    """Remove half-written files, and whatever belongs to records that are written again.

    A record at step s is written after s + 1 updates.
    """
    for path in folder.rglob("*"):
        step = layout.step_of(path)
        unfinished = path.name.startswith(".") and path.suffix == ".tmp"
        if path.is_file() and (unfinished or (step is not None and step >= updates)):
            path.unlink(missing_ok=True)
