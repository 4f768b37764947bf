"""The weights and logits of checkpoints: which are kept, and files that appear whole or not."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from checkwise.errors import naming_extras
from checkwise.metrics import halved, per_example
from checkwise.selection import Chosen, KeepFeasible, select
from checkwise.store import (
    CHECKPOINTS_FOLDER,
    GROUPS,
    OWN,
    SOURCE_FILE,
    Home,
    checkpoint_file,
    delete_checkpoint,
    groups_predictions_file,
    heldout_predictions_file,
    outcomes_file,
    source_predictions_file,
    step_in_name,
    trajectory_of,
    write_bytes,
    write_npz,
)
from checkwise.study.folder import make_folders_in
from checkwise.study.train.config import Keep, RunConfig
from checkwise.study.train.evaluation import Outputs, Role, validation_roles


@naming_extras()
def write_weights(folder: Path, step: int, state: Mapping[str, Tensor]) -> None:
    from safetensors.torch import save

    path = make_folders_in(folder, checkpoint_file(step))
    tensors = {name: tensor.cpu().contiguous() for name, tensor in state.items()}
    write_bytes(path, save(tensors, metadata={"step": str(step)}))


def write_predictions(folder: Path, step: int, outputs: Outputs, config: RunConfig) -> None:
    """What the study asks to save of a step's outputs.

    Logits, labels and groups are ``<domain>.logits`` and so on in an npz. Outcomes are
    ``<domain>.correct``, a bit per example, and ``<domain>.nll``, both from full precision.
    Validation sets and held-out domains go to separate files.
    """
    for file in _files(step, config, tuple(outputs.of("heldout"))):
        arrays: dict[str, NDArray[np.generic]] = {}
        for domain in file.domains or tuple(outputs.of(file.role)):
            arrays |= _arrays(outputs, file, domain)
        content = io.BytesIO()
        write_npz(content, arrays)
        write_bytes(make_folders_in(folder, file.name), content.getvalue())


def predictions_files(step: int, config: RunConfig, held_out: Sequence[str]) -> list[str]:
    return [file.name for file in _files(step, config, held_out)]


class _File(NamedTuple):
    """A file of a step: whose outputs are in it (of all domains, if none is named), and how."""

    name: str
    role: Role
    kind: Literal["logits", "half", "outcomes"]
    domains: tuple[str, ...] = ()


def _files(step: int, config: RunConfig, held_out: Sequence[str]) -> list[_File]:
    kept, roles = config.logits, validation_roles(config)
    logits = [source_predictions_file(step), groups_predictions_file(step)]
    outcomes = [outcomes_file(step, second=second) for second in (False, True)]
    files: list[_File] = []
    if kept in ("source-half", "source", "all"):
        kind: Literal["logits", "half"] = "half" if kept == "source-half" else "logits"
        files += [_File(name, role, kind) for name, role in zip(logits, roles, strict=False)]
    if kept in ("source-half", "outcomes"):
        files += [_File(n, role, "outcomes") for n, role in zip(outcomes, roles, strict=False)]
    if kept == "all":
        places = ((heldout_predictions_file(domain, step), domain) for domain in held_out)
        files += [_File(name, "heldout", "logits", (domain,)) for name, domain in places]
    return files


def _arrays(outputs: Outputs, file: _File, domain: str) -> dict[str, NDArray[np.generic]]:
    logits, labels = outputs.of(file.role)[domain]
    arrays: dict[str, NDArray[np.generic]] = {}
    if file.kind != "outcomes":
        arrays[f"{domain}.logits"] = halved(logits) if file.kind == "half" else logits
    elif outputs.diverged(file.role):
        arrays[f"{domain}.correct"] = np.packbits(np.zeros(len(labels), bool))
        arrays[f"{domain}.nll"] = np.full(len(labels), np.nan)
    else:
        rows = per_example(logits=logits, labels=labels)
        arrays[f"{domain}.correct"] = np.packbits(rows.correct)
        arrays[f"{domain}.nll"] = rows.nll
    arrays[f"{domain}.labels"] = labels
    groups = outputs.groups(file.role)
    if domain in groups:
        arrays[f"{domain}.groups"] = groups[domain].astype(np.int32)
    return arrays


def kept_steps(lines: Sequence[Mapping[str, Any]], keep: Keep, delta_pp: str) -> frozenset[int]:
    """Steps of an own run whose weights stay, given every record so far.

    ``feasible`` keeps what an accuracy-constrained rule with a tolerance of at most ``delta_pp``
    points can still choose: all these rules share the feasible set of ``ac-early``. Of a run with
    two validation sets it keeps what can be chosen by either.
    """
    steps = [int(line["step"]) for line in lines]
    if keep == "all":
        return frozenset(steps)
    if keep == "none" or all(line["diverged"] for line in lines):
        return frozenset()
    kept: frozenset[int] = frozenset()
    for own in (OWN, GROUPS) if GROUPS in lines[0] else (OWN,):
        seen = [{**line, OWN: line[own]} for line in lines]
        chosen = select(
            trajectory_of(seen, path=Path(SOURCE_FILE)), "ac-early", delta_pp=delta_pp, guard=False
        )
        kept |= KeepFeasible().keep(steps, Chosen.of(chosen))
    return kept


def drop_weights(folder: Path, keep: Collection[int]) -> None:
    """Delete the weights of every other step; call this after the record is committed."""
    for path in (folder / CHECKPOINTS_FOLDER).glob("step-*.safetensors"):
        if step_in_name(path) not in keep:
            delete_checkpoint(path, Home((folder,)))
