"""Which domains ``env{i}`` of a DomainBed-style log are sources; values of others stay unread."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers.json_lines import Line, number
from checkwise.readers.request import Request
from checkwise.records import RunKey
from checkwise.records.held_out import check_held_out

ENV = re.compile(r"env(0|[1-9][0-9]{0,3})")


def indices(test_envs: Any) -> tuple[int, ...] | None:
    """``test_envs`` as logged, or None where it is not a list of whole numbers."""
    if not isinstance(test_envs, list):
        return None
    if any(type(index) is not int or index < 0 for index in test_envs):
        return None
    return tuple(sorted(set(test_envs)))


def arguments(line: Line, path: Path) -> dict[str, Any]:
    """The ``args`` of a record."""
    args = line.fields.get("args", {})
    if not isinstance(args, dict):
        raise InputError(
            f"Expected args as an object, but got {args!r:.40} in {path} line {line.number}: "
            "give the log as it was written.",
            code="format",
        )
    return args


def logged(lines: Sequence[Line]) -> set[int]:
    """The domains that a log has fields for, by the names of the fields."""
    names = set().union(*(line.fields for line in lines))
    return {int(match[1]) for name in names if (match := ENV.match(name))}


def targets_from(
    request: Request, line: Line, path: Path, known: Collection[int]
) -> tuple[int, ...]:
    """The held-out domains that the caller names, for a log that does not name them."""
    named = [match for name in request.held_out if (match := ENV.fullmatch(name))]
    if not named:
        raise InputError(
            f"Expected args.test_envs to say which domain is the target, but {path} line "
            f"{line.number} has none: name it with --held-out env0, in Python held_out='env0'.",
            code="missing",
        )
    check_held_out([match[0] for match in named], [f"env{i}" for i in sorted(known)], str(path))
    return tuple(sorted({int(match[1]) for match in named}))


def check_targets(targets: Collection[int], known: Collection[int], line: Line, path: Path) -> None:
    """Refuse targets that are not a domain of the log.

    A target without fields is not a mistake by itself: they may have been removed. But domains are
    numbered from 0 without gaps, so a number beyond them all names nothing.
    """
    size = len({*known, *targets})
    for target in targets:
        if target not in known and target >= size:
            raise InputError(
                f"Expected args.test_envs to name a domain of the log, which has "
                f"{', '.join(f'env{i}' for i in sorted(known))}, but got {target} in {path} line "
                f"{line.number}: correct args.test_envs.",
                code="format",
            )


def run_key(args: Mapping[str, Any], targets: Iterable[int], *, seed: str, path: Path) -> RunKey:
    """The key of a run from its arguments; ``seed`` is the argument to use without hparams_seed.

    Targets keep the name ``env{i}``: their own records, which may hold a name, are not read.
    """

    def seed_of(name: str) -> int:
        value = args.get(name)
        if value is None:
            return 0
        if type(value) is not int:
            raise InputError(
                f"Expected a whole number as args.{name}, but got {value!r:.40} in {path}.",
                code="format",
            )
        return value

    return RunKey(
        dataset=str(args.get("dataset") or "unknown"),
        algorithm=str(args.get("algorithm") or "unknown"),
        held_out=tuple(f"env{index}" for index in targets),
        hparams_seed=seed_of("hparams_seed" if "hparams_seed" in args else seed),
        trial_seed=seed_of("trial_seed"),
    )


def accuracies(
    lines: Sequence[Line], suffix: str, targets: Iterable[int], path: Path
) -> dict[int, list[float]]:
    """Accuracy per source domain and record, from fields like ``env0_out_acc``."""
    names = set().union(*(line.fields for line in lines))
    known = {
        int(match[1])
        for name in names
        if name.endswith(suffix) and (match := ENV.fullmatch(name.removesuffix(suffix)))
    }
    return {
        index: [number(line, f"env{index}{suffix}", path) for line in lines]
        for index in sorted(known - set(targets))
    }


def left_out(
    request: Request,
    sources: Mapping[int, str],
    targets: Iterable[int],
    target_names: Iterable[str],
    path: Path,
) -> set[int]:
    """Source domains that the caller holds out as well; an unknown name is refused."""
    aliases = {i: (name, f"env{i}") for i, name in sources.items()}
    others = sorted({f"env{index}" for index in targets} | set(target_names))
    known = dict.fromkeys([*sources.values(), *others, *(alias for _, alias in aliases.values())])
    check_held_out(request.held_out, known, str(path))
    out = {i for i, names in aliases.items() if set(names) & set(request.held_out)}
    if sources and out == set(sources):
        raise InputError(
            f"No source domain of {path} is left after --held-out: hold out fewer.", code="empty"
        )
    return out
