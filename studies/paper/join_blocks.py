"""Join a further block of a study, trained later, with the runs that are packed.

    python -m studies.paper.join_blocks COHORT [--data NAME=PATH]

A block is a cohort of the same study with other draws or algorithms:
`checkwise study run STUDY --hparams-seed 3 --algorithm ERM`.
Its journals join the packed ones, its outcomes those that are kept. Run it where the block's
weights and logits lie; those of earlier blocks are not needed.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from checkwise.records import RunKey
from checkwise.study.folder import SUFFIX, CohortRecord, open_cohort, pack, unpack, write_cohort
from studies.page import DATA
from studies.paper.keep_outcomes import compute
from studies.paper.kept_tables import fingerprint
from studies.paper.outcomes import keep, record_of

PER_BLOCK = ("draws", "hparams_seeds", "algorithms")  # in which the blocks of one study differ


def join_journals(parts: Sequence[Path], out: Path) -> None:
    """One cohort in ``out`` with the runs of several, which are plans of one study."""
    records = [open_cohort(part) for part in parts]
    first, *others = records
    study = {**first.study, **{name: _together(records, name) for name in PER_BLOCK}}
    for other in others:
        if {**other.study, **{name: study[name] for name in PER_BLOCK}} != study:
            raise SystemExit(f"Expected blocks of one study, but {other.path} is of another one.")
    keys = [key for record in records for key in record.runs]
    if len(set(keys)) != len(keys):
        raise SystemExit(f"Expected runs that are not packed yet in {parts[-1]}.")
    write_cohort(
        out,
        name=first.name,
        roles=first.roles,
        study=study,
        metrics=first.metrics,
        keys=keys,
    )
    for record in records:
        for folder in record.runs.values():
            shutil.copytree(folder, out / folder.relative_to(record.path))


def _together(records: Sequence[CohortRecord], name: str) -> Any:
    values = [record.study[name] for record in records]
    if name == "draws":
        return max(values)
    each = dict.fromkeys(item for listed in values for item in listed)
    return sorted(each) if name == "hparams_seeds" else list(each)


def join_outcomes(kept: Mapping[str, Any], new: Mapping[str, Any], journals: str) -> dict[str, Any]:
    """The outcomes of all runs, in the order of their keys."""
    if set(kept["values"]) != set(new["values"]):
        raise SystemExit("Expected the same recipes in both blocks: keep the missing ones first.")
    keys = [RunKey.from_dict(run) for one in (kept, new) for run in one["runs"]]
    order = sorted(range(len(keys)), key=keys.__getitem__)

    def column(recipe: str, name: str) -> list[Any]:
        sides = [one["values"][recipe].get(name, [None] * len(one["runs"])) for one in (kept, new)]
        joined = [value for side in sides for value in side]
        return [joined[i] for i in order]

    names = {
        recipe: dict.fromkeys([*columns, *new["values"][recipe]])
        for recipe, columns in kept["values"].items()
    }
    return {
        **kept,
        "journals": journals,
        "trained": _trained(kept["trained"], new["trained"]),
        "runs": [keys[i].as_dict() for i in order],
        "values": {r: {name: column(r, name) for name in columns} for r, columns in names.items()},
    }


def _trained(kept: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Counts and times add up. Without the time of every run the median is about that of blocks."""
    both = [name for name in kept if name in new and name not in ("median_seconds", "about")]
    total = {name: kept[name] + new[name] for name in both}
    if "seconds" in total:
        return {**total, "median_seconds": round(median(total["seconds"]))}
    weighed = sum(one["runs"] * one["median_seconds"] for one in (kept, new))
    return {**total, "median_seconds": round(weighed / total["runs"]), "about": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cohort", type=Path)
    parser.add_argument("--data", action="append", default=[])
    asked = parser.parse_args()
    name = open_cohort(asked.cohort).name
    new = compute(asked.cohort, dict(item.split("=", 1) for item in asked.data))
    with tempfile.TemporaryDirectory() as place:
        parts = [Path(place) / part for part in ("kept", "new")]
        unpack(DATA / f"{name}{SUFFIX}", parts[0])
        pack(asked.cohort, Path(place) / f"new{SUFFIX}")  # journals alone
        unpack(Path(place) / f"new{SUFFIX}", parts[1])
        kept = record_of(name)
        if kept["journals"] != fingerprint(parts[0]):
            raise SystemExit(f"Expected outcomes of the packed journals of {name}.")
        join_journals(parts, Path(place) / name)
        joined = join_outcomes(kept, new, fingerprint(Path(place) / name))
        pack(Path(place) / name, DATA / f"{name}{SUFFIX}")
    keep(joined)


if __name__ == "__main__":
    main()
