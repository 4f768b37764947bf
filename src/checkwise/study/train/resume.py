"""The state from which a run continues bit for bit."""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from checkwise.errors import InputError
from checkwise.store import (
    CHECKPOINTS_FOLDER,
    LAYOUT_SCHEMA,
    RESUME_FILE,
    Fingerprint,
    check_schema,
    fingerprint,
    has_file,
    open_file,
    read_file,
    step_in_name,
    write_bytes,
)
from checkwise.study.folder import Saved, check_start, damaged, make_folders_in
from checkwise.study.train.config import RunConfig


@dataclass(frozen=True)
class ResumeState:
    """Everything later updates and records depend on, after ``updates`` updates.

    ``journals`` gives the size and SHA-256 of each journal at this moment: what was appended later
    is cut off and written again. ``files`` gives those of the weights and predictions written so
    far, and ``run`` is the text of ``run.json``. ``terms`` holds the algorithm's logged terms since
    the last record.
    """

    digest: str
    updates: int
    algorithm: Mapping[str, Any]
    sampler: Mapping[str, int]
    journals: Mapping[str, Fingerprint]
    files: Mapping[str, Fingerprint]
    run: str
    terms: Mapping[str, Tensor]
    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    generators: Mapping[str, Tensor] = field(default_factory=dict)
    schema: int = LAYOUT_SCHEMA


def generator_states() -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda:{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return states


def set_generators(states: Mapping[str, Tensor]) -> None:
    for device, state in states.items():
        if device == "cpu":
            torch.set_rng_state(state)
        else:
            torch.cuda.set_rng_state(state, device)


def save(folder: Path, state: ResumeState) -> None:
    """Write the state with its own SHA-256; the one before it stays until this one is whole."""
    path = make_folders_in(folder, RESUME_FILE)
    # Through memory: torch reports a full disk as an error that does not say so.
    content = _encoded(asdict(state))
    digest = hashlib.sha256(content).hexdigest()
    packed = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    write_bytes(path, _encoded({"schema": LAYOUT_SCHEMA, "sha256": digest, "state": packed}))


def load(folder: Path) -> ResumeState | None:
    """The saved state of a run, or None if it must start from the beginning."""
    path = folder / RESUME_FILE
    if not has_file(folder, RESUME_FILE):
        return None
    outer = _decoded(read_file(folder, RESUME_FILE), path)
    check_schema(outer.get("schema"), path)
    content = outer["state"].numpy().tobytes() if isinstance(outer.get("state"), Tensor) else b""
    if hashlib.sha256(content).hexdigest() != outer.get("sha256"):
        raise _damaged(path, "another checksum")
    state = ResumeState(**_decoded(content, path))
    check_schema(state.schema, path)
    return state


def check(folder: Path, state: ResumeState, config: RunConfig) -> None:
    """Refuse to continue from a state if its run, or a file it builds on, has changed.

    With ``keep = "feasible"`` weights that a state names may be gone: records after it dropped
    them.
    """
    if state.digest != config.digest:
        raise _damaged(folder / RESUME_FILE, "that of another run")
    for name, noted in state.journals.items():
        if not has_file(folder, name):
            raise damaged(folder / name, "removed")
        with open_file(folder, name) as file:
            content = file.read(noted["bytes"])
        check_start(folder / name, content, noted)
    droppable = builds_on(state, config).droppable
    for name, noted in state.files.items():
        if not has_file(folder, name):
            if name not in droppable:
                raise damaged(folder / name, "removed")
        elif fingerprint(folder, name) != noted:
            raise damaged(folder / name, "changed")


def builds_on(state: ResumeState, config: RunConfig) -> Saved:
    """What another attempt at the run needs beside the state itself to continue from it."""
    weights = {name for name in state.files if name.startswith(CHECKPOINTS_FOLDER)}
    return Saved(
        updates=state.updates,
        journals=state.journals,
        files=tuple(state.files),
        droppable=frozenset(weights if config.keep == "feasible" else ()),
    )


def _encoded(content: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def _decoded(content: bytes, path: Path) -> dict[str, Any]:
    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes provoke whatever the unpickler does not expect
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _damaged(path, reason) from None
    if not isinstance(state, dict):
        raise _damaged(path, type(state).__name__)
    return state


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(
        f"Expected the state of an unfinished run, but got: {reason} in {path}: remove that file "
        "to train the run from the start.",
        code="damaged",
    )


def clear(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder / Path(RESUME_FILE).parent)


def remove_leftovers(folder: Path, updates: int) -> None:
    """Remove half-written files, and whatever belongs to records that are written again."""
    for path in folder.rglob("*"):
        step = step_in_name(path)
        unfinished = path.name.startswith(".") and path.suffix == ".tmp"
        if path.is_file() and (unfinished or (step is not None and step >= updates)):
            path.unlink(missing_ok=True)
