"""Several processes that decide as one: gather what each has seen, let the first one decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from checkwise.errors import CheckwiseError, InputError

Result = TypeVar("Result")


def gathered(mine: Result) -> list[Result]:
    """What every process has, in the order of their ranks."""
    import torch.distributed as distributed

    if not distributed.is_available() or not distributed.is_initialized():
        raise InputError(
            "Expected processes that torch.distributed connects, but it is not initialised: use a "
            "strategy such as 'ddp', or one process.",
            code="system",
        )
    everywhere: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(everywhere, mine)
    return everywhere


def decided_once(trainer: Any, decide: Callable[[], Result]) -> Result:
    """What the first process decides, in every process; an error there is an error everywhere.

    Every process waits here for the first one.
    """
    answer: tuple[Result | None, Exception | None] = (None, None)
    if trainer.is_global_zero:
        try:
            answer = (decide(), None)
        except Exception as error:
            if trainer.world_size == 1:
                raise
            answer = (None, error)
    failed = trainer.strategy.broadcast(None if answer[1] is None else str(answer[1]))
    if answer[1] is not None:
        raise answer[1]
    if failed is not None:
        raise CheckwiseError(failed)
    result: Result = trainer.strategy.broadcast(answer[0])
    return answer[0] if trainer.is_global_zero else result  # type: ignore[return-value]
