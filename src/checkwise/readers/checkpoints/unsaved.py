"""Steps that were logged but not saved are not chosen, unless the caller says so."""

from __future__ import annotations

from collections.abc import Sequence

from checkwise.readers.checkpoints.find import Checkpoints


def steps_to_choose_from(
    steps: Sequence[int], checkpoints: Checkpoints, *, include_unsaved: bool
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The steps that stay, and what to say about the others.

    All stay where no step has a checkpoint: then nothing tells what was saved.

    Args:
        steps: the steps of the log.
        checkpoints: the checkpoints beside it.
        include_unsaved: whether steps without a checkpoint stay as well.

    Example:
        >>> steps_to_choose_from([1, 2], Checkpoints({2: "b.pt"}),
        ...                      include_unsaved=False)[0]
        (2,)
    """
    unsaved = [step for step in steps if step not in checkpoints.files]
    if not unsaved or len(unsaved) == len(steps):
        return tuple(steps), ()
    counts = f"{len(unsaved)} of {len(steps)} logged steps have no checkpoint"
    if include_unsaved:
        return tuple(steps), (f"{counts}; they may be chosen, because of --include-unsaved",)
    note = f"{counts} and are left out (--include-unsaved keeps them)"
    return tuple(step for step in steps if step in checkpoints.files), (note,)
