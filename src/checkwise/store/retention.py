"""Which weights stay on disk while a run trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from checkwise.selection.columns import Columns
from checkwise.store import layout
from checkwise.store.run import trajectory_of

Keep: TypeAlias = Literal["all", "feasible", "none"]
KEEPS: Final[tuple[Keep, ...]] = get_args(Keep)


def kept_steps(lines: Sequence[Mapping[str, Any]], keep: Keep, delta_pp: str) -> set[int]:
    """Steps whose weights stay, given every record so far.

    ``feasible`` keeps what an accuracy-constrained rule with a tolerance of at most ``delta_pp``
    points can still choose. The best accuracy only grows, so a step that falls below the tolerance
    stays below.
    """
    if keep == "none":
        return set()
    steps = [int(line["step"]) for line in lines]
    if keep == "all":
        return set(steps)
    if all(line["diverged"] for line in lines):
        return set()
    trajectory = trajectory_of(lines, path=Path(layout.SOURCE))
    feasible = Columns.of(trajectory).within(delta_pp)
    return set(trajectory.steps[feasible].tolist())


def drop_weights(folder: Path, keep: set[int]) -> None:
    """Delete the weights of every other step; call this after the record is committed."""
    for path in (folder / layout.CHECKPOINTS).glob("step-*.safetensors"):
        if layout.step_of(path) not in keep:
            path.unlink(missing_ok=True)
