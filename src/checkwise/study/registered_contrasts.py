"""Registering a set of contrasts, and what the log says about the sets that were registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.statistics.bootstrap import LEVEL
from checkwise.statistics.equivalence import ALPHA
from checkwise.store import layout
from checkwise.store.code_record import running_code
from checkwise.store.cohort import open_cohort
from checkwise.store.hash_chain import Line
from checkwise.store.registration import CONTRASTS, LOG, read_lines, register_contrasts
from checkwise.store.safe_read import has_file
from checkwise.study.cohort import Cohort
from checkwise.study.compared_method import Method
from checkwise.study.contrast_results import check_contrasts
from checkwise.study.contrast_set import ContrastSet, parse_contrasts
from checkwise.study.registered import Registered, standing_at
from checkwise.study.registered_choice import params_of

TEST = "means by held-out place, two-sided t over places, Holm within a family"


@dataclass(frozen=True)
class RegisteredSet:
    """A set of contrasts in the log of a cohort.

    Args:
        fixed: the contrasts.
        digest: SHA-256 of its line, which covers everything here and every earlier line.
        standing: whether it came before the first opening, and what changed since.
        runs, planned: runs that were finished when it was registered, and planned ones.
        places: the held-out places that were planned, with their groups where known.
        code: the code that it was registered with.
        same_plan: whether the cohort's plan is still the one that it was registered with.
        to_make: methods that `checkwise study derive` has to make before they can be shown.
    """

    fixed: ContrastSet
    digest: str
    standing: Registered
    runs: int
    planned: int
    places: Mapping[str, Any]
    code: Mapping[str, Any]
    same_plan: bool
    to_make: tuple[str, ...] = ()

    @property
    def same_code(self) -> bool:
        """Whether the code that is running is the code it was registered with."""
        return bool(self.code.get("sha256") == running_code()["sha256"])


def register_set(cohort: Cohort, fixed: ContrastSet) -> RegisteredSet:
    """Add a set to the log, after everything that the finished runs cannot give was refused."""
    cohort.check_one_role()
    to_make = check_contrasts(cohort, fixed)
    record = open_cohort(cohort.path)
    facts = {
        "test": {"what": TEST, "alpha": ALPHA, "level": LEVEL},
        "recipes": {row.label: _recipe(row) for row in fixed.rows},
        "plan": _plan(cohort.path),
        "planned": len(record.runs),
        "places": _places(record.runs.values(), [key.held_out for key in record.runs]),
        "code": running_code(),
    }
    line = register_contrasts(cohort.path, fixed.as_dict(), facts)
    found = next(one for one in registered_sets(cohort.path) if one.digest == line.digest)
    return replace(found, to_make=to_make)


def registered_sets(path: Path) -> tuple[RegisteredSet, ...]:
    """Every set in a cohort's log, in order.

    Raises:
        InputError: the log cannot be read or was changed by hand.
    """
    lines = read_lines(path)
    entries = [line.content for line in lines]
    return tuple(
        _read(path, line, standing_at(path, entries, number))
        for number, line in enumerate(lines)
        if line.content["kind"] == CONTRASTS
    )


def _read(path: Path, line: Line, standing: Registered) -> RegisteredSet:
    content = line.content
    kinds = {"journals": dict, "planned": int, "places": dict, "code": dict, "plan": str}
    for name, kind in kinds.items():
        if not isinstance(content.get(name), kind):
            raise InputError(
                f"Expected {name} of a registered set, but got {content.get(name)!r:.80} in "
                f"{path / LOG}: restore the log from a copy.",
                code="damaged",
            )
    return RegisteredSet(
        fixed=parse_contrasts(content["contrasts"], str(path / LOG)),
        digest=line.digest,
        standing=standing,
        runs=len(content["journals"]),
        planned=content["planned"],
        places=content["places"],
        code=content["code"],
        same_plan=content["plan"] == _plan(path),
    )


def _plan(path: Path) -> str:
    """SHA-256 of the cohort's plan, which has its runs, settings and roles."""
    return layout.read_document(path / layout.COHORT).sha256


def _recipe(row: Method) -> dict[str, Any]:
    """All that a row is, so that its name cannot come to mean something else unnoticed."""
    params = params_of(row) if row.recipe is None else dict(row.recipe.params)
    return {
        "summary": row.summary,
        "params": params,
        "validation": row.validation,
        "split": row.split,
        "calibrator": row.calibrator,
        "guard": row.guard,
    }


def _places(folders: Any, held_out: list[tuple[str, ...]]) -> dict[str, Any]:
    """Every planned place, with the groups in it where a run that has begun names them."""
    places: dict[str, Any] = {name: None for targets in held_out for name in targets}
    for folder in folders:
        if not has_file(folder, layout.RUN):
            continue
        split = layout.read_json(folder / layout.RUN).get("split")
        found = split.get("places") if isinstance(split, Mapping) else None
        for name, facts in found.items() if isinstance(found, Mapping) else ():
            if places.get(name) not in (None, facts):
                raise InputError(
                    f"Expected every run to hold out the same groups in {name}, but the runs of "
                    f"{folder.parent} differ: they are not of one study.",
                    code="differs",
                )
            places[name] = facts
    return places
