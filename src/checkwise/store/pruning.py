"""What is deleted of a run's saved checkpoints, what stays, and why; nothing is deleted here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from checkwise.selection import Policy, RunSoFar, parts
from checkwise.store.deleting import Home, is_shared, objection, real_place, size_of


@dataclass(frozen=True)
class Saved:
    """One saved checkpoint; ``why`` it stays, empty if it goes. Outside its home, 0 ``bytes``."""

    step: int
    path: Path
    bytes: int
    why: str


@dataclass(frozen=True)
class Pruning:
    """Every saved checkpoint of a run, in the order of steps."""

    checkpoints: tuple[Saved, ...]

    @property
    def stays(self) -> frozenset[int]:
        """Steps whose checkpoints stay."""
        return frozenset(saved.step for saved in self.checkpoints if saved.why)

    @property
    def goes(self) -> tuple[Saved, ...]:
        """The checkpoints to delete."""
        return tuple(saved for saved in self.checkpoints if not saved.why)

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps whose checkpoints go."""
        return tuple(saved.step for saved in self.goes)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files and folders that go."""
        return tuple(saved.path for saved in self.goes)

    @property
    def bytes(self) -> int:
        """What deleting them frees."""
        return sum({saved.path: saved.bytes for saved in self.goes}.values())


def plan_pruning(
    saved: Mapping[int, Path],
    run: RunSoFar,
    policy: Policy,
    *,
    home: Home,
    states: Mapping[int, str] | None = None,
    always: Mapping[int, str] | None = None,
) -> Pruning:
    """Decide about every saved checkpoint.

    Args:
        saved: step → file or folder, in the order of saving.
        run: what is known of these steps.
        policy: which of them stay.
        home: what is outside of it stays.
        states: step → state of its checkpoint when it was recorded; what changed since stays.
        always: further steps that stay, with the reason.
    """
    reasons = _reasons(saved, run, policy)
    reasons |= always or {}
    for step, path in saved.items():
        if step not in reasons and (why := objection(path, home, (states or {}).get(step))):
            reasons[step] = why
    stay = {step: real_place(saved[step]) for step in saved if step in reasons}
    for step, path in saved.items():
        if step not in reasons and (why := _bound_to(path, stay)):
            reasons[step] = why
    return Pruning(
        tuple(
            Saved(step, path, 0 if home.objection(path) else size_of(path), reasons.get(step, ""))
            for step, path in sorted(saved.items())
        )
    )


def _reasons(saved: Mapping[int, Path], run: RunSoFar, policy: Policy) -> dict[int, str]:
    reasons: dict[int, str] = {}
    if saved:
        reasons[list(saved)[-1]] = "newest"
    for part in reversed(parts(policy)):
        reasons |= {step: part.why(step, run) for step in part.keep(tuple(saved), run)}
    if run.selection is not None and run.selection.step in saved:
        reasons[run.selection.step] = "chosen"
    return reasons


def _bound_to(path: Path, stay: Mapping[int, Path]) -> str:
    """Why a checkpoint cannot go although no policy keeps it."""
    place = real_place(path)
    for step, other in stay.items():
        if is_shared(place, (other,)):
            return f"part of step {step}"
    if path.suffix == ".index" and any(path.parent.glob(f"{path.stem}.data-*")):
        return "one of several files"
    link = _link_to(place)
    return f"{link} leads to it" if link else ""


def _link_to(place: Path) -> str | None:
    """The name of a link beside a checkpoint that leads to it, such as ``last.ckpt``."""
    try:
        with os.scandir(place.parent) as entries:
            links = [Path(entry.path) for entry in entries if entry.is_symlink()]
    except OSError:
        return None
    return next((link.name for link in sorted(links) if real_place(link) == place), None)
