"""What a Trainer validates: its dataloaders, their names, what a step returns, and what counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from checkwise.errors import InputError
from checkwise.records import as_names, check_held_out, divide
from checkwise.words import counted, listed

Outputs = Callable[[Any, Any], tuple[Any, Any]]


def flat(loaders: Any) -> list[Any]:
    """The dataloaders in the order of their index; Lightning takes one, a list or a dict."""
    if isinstance(loaders, Mapping):
        return [part for value in loaders.values() for part in flat(value)]
    if isinstance(loaders, list | tuple):
        return [part for value in loaders for part in flat(value)]
    return [loaders]


def names(loaders: Any, domains: tuple[str, ...] | None) -> tuple[str, ...]:
    """One name per dataloader."""
    named = _names(loaders, domains)
    check_distinct(named)
    return named


def check_distinct(named: Iterable[str]) -> None:
    """Refuse a name that two dataloaders have."""
    twice = [name for name, times in Counter(named).items() if times > 1]
    if twice:
        raise InputError(
            f"Expected a name of its own for each validation dataloader, but {twice[0]!r} is there "
            "twice: name each one in domains=.",
            code="ambiguous",
        )


def _names(loaders: Any, domains: tuple[str, ...] | None) -> tuple[str, ...]:
    number = len(flat(loaders))
    if domains is not None:
        if len(domains) != number:
            raise InputError(
                f"Expected one name per validation dataloader, but got {listed(domains)} for "
                f"{counted(number, 'dataloader')}: name each one in domains=.",
                code="differs",
            )
        return domains
    if isinstance(loaders, Mapping) and len(loaders) == number:
        return tuple(map(str, loaders))
    return ("validation",) if number == 1 else tuple(f"dataloader_{i}" for i in range(number))


def sources(named: tuple[str, ...], options: Mapping[str, Any]) -> frozenset[str]:
    """The names of the sets to choose by; the others are held out, and must not be read."""
    where = "the validation dataloaders"
    held_out = as_names(options.get("held_out"))
    check_held_out(held_out, named, where)
    left = set(named).difference(held_out)
    if not left:
        raise InputError(
            f"Expected a validation set to choose by, but all of {where} are held out.",
            code="empty",
        )
    return frozenset(divide(left, sources=as_names(options.get("sources")), where=where).sources)


def check_not_empty(
    trainer: Any, domains: tuple[str, ...] | None, options: Mapping[str, Any]
) -> None:
    """Refuse a validation set without batches: Lightning would leave it out without a word."""
    named = names(trainer.val_dataloaders, domains)
    read = sources(named, options)
    for name, batches in zip(named, trainer.num_val_batches, strict=True):
        if name in read and batches == 0:
            raise InputError(
                f"Expected at least one batch of the validation set {name!r}, but got none: check "
                "its dataloader, drop_last and limit_val_batches.",
                code="empty",
            )


def step(trainer: Any, module: Any) -> int:
    """How far training is: optimizer steps, or batches where Lightning does not count the steps.

    With manual optimisation it counts only the steps of its own wrappers of optimizers.
    """
    if module.automatic_optimization and trainer.optimizers:
        return int(trainer.global_step)
    return int(trainer.fit_loop.total_batch_idx) + 1


def cut_short(trainer: Any, read: Iterable[bool]) -> bool:
    """Whether ``limit_val_batches`` ends a validation that is read before its last batch."""
    if trainer.limit_val_batches == 1.0 and isinstance(trainer.limit_val_batches, float):
        return False
    return any(
        is_read and (_length(loader) is None or batches < _length(loader))
        for loader, batches, is_read in zip(
            flat(trainer.val_dataloaders), trainer.num_val_batches, read, strict=True
        )
    )


def _length(loader: Any) -> Any:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None  # an iterable data set does not know


def counts(trainer: Any) -> bool:
    """Whether a validation is part of a training, not of a check or of a call of its own."""
    trial = trainer.sanity_checking or trainer.fast_dev_run
    return bool(trainer.state.fn == "fit" and not trial)


@dataclass(frozen=True)
class ByKey:
    """Takes logits and labels from the dict that ``validation_step`` returns."""

    logits: str
    labels: str

    def __call__(self, returned: Any, batch: Any) -> tuple[Any, Any]:
        if isinstance(returned, Mapping) and {self.logits, self.labels} <= set(returned):
            return returned[self.logits], returned[self.labels]
        came = list(returned) if isinstance(returned, Mapping) else type(returned).__name__
        raise InputError(
            f"Expected validation_step to return {{{self.logits!r}: …, {self.labels!r}: …}}, but "
            f"got {came}: return them, or pass outputs= or the keys to ReliabilityCheckpoint."
        )
