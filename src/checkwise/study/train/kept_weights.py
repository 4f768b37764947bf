"""Which weights of an own run stay on disk while it trains."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from checkwise.selection import Chosen, KeepFeasible, select
from checkwise.store import (
    CHECKPOINTS_FOLDER,
    GROUPS,
    OWN,
    SOURCE_FILE,
    Home,
    delete_checkpoint,
    step_of,
    trajectory_of,
)

Keep: TypeAlias = Literal["all", "feasible", "none"]
KEEPS: Final[tuple[Keep, ...]] = get_args(Keep)


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
            trajectory_of(seen, path=Path(SOURCE_FILE)),
            "ac-early",
            delta_pp=delta_pp,
            guard=False,
        )
        kept |= KeepFeasible().keep(steps, Chosen.of(chosen))
    return kept


def drop_weights(folder: Path, keep: Collection[int]) -> None:
    """Delete the weights of every other step; call this after the record is committed."""
    for path in (folder / CHECKPOINTS_FOLDER).glob("step-*.safetensors"):
        if step_of(path) not in keep:
            delete_checkpoint(path, Home((folder,)))
