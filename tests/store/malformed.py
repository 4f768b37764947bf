"""Every file of a small cohort with every value replaced by something that cannot be there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import checkwise as cw
from checkwise.store import (
    COHORT_FILE,
    DONE_FILE,
    LEASE_FILE,
    RUN_FILE,
    SOURCE_FILE,
    attempts_folder,
)
from checkwise.study import Cohort
from checkwise.study.folder import Failure, open_cohort, pack, verify, write_failure
from checkwise.study.sweep import Study
from checkwise.study.sweep.progress import cohort_status
from tests.study import cohorts

VALUES = (
    "null",
    "true",
    "[]",
    "{}",
    '""',
    '"x"',
    '"../../x"',
    '"\\ud800"',
    "-1",
    "0.5",
    "1e999",
    "NaN",
    "9" * 25,
    "9" * 5000,
    "[" * 10_000 + "]" * 10_000,
    '{"a":1,"a":2}',
)
CONTENTS = (b"", b"\xef\xbb\xbf{}", b"\xff\xfe", b"null", b"[]", b"{", b"\0", b'"', b"{}")
_HOLE = "@@ here @@"


@dataclass(frozen=True)
class Mutant:
    """A file of the cohort and what it holds now."""

    file: str
    where: str
    content: bytes


def finished_run() -> str:
    return f"runs/{cohorts.key('ERM', 0)}"


def unfinished_run() -> str:
    return f"runs/{cohorts.key('IRM', 1)}"


def write(path: Path) -> Path:
    """Three finished runs and one that is not, with a lease and the reason of a failure."""
    cohorts.write_cohort(path, cohorts.tiny_runs())
    plan = json.loads((path / COHORT_FILE).read_text())
    network = {"kind": "linear", "hidden": 8, "backbone": "x", "tune": "head", "freeze_bn": False}
    data = {"dataset": "PACS", "name": "PACS", "role": "development", "held_out": [["sketch"]]}
    seeds = {"hparams_seeds": [0], "trial_seeds": [0, 1], "hparams": {"lr": 0.1}}
    schedule = {"steps": 301, "record_every": 100}
    study = {"name": "tiny", "algorithms": ["ERM", "IRM"], "network": network, "data": [data]}
    plan["study"] = {**study, **seeds, **schedule}
    plan["roles"] = {"PACS": "development"}
    (path / COHORT_FILE).write_text(json.dumps(plan))
    folder = path / unfinished_run()
    lease = {"token": "t", "host": "elsewhere", "pid": 1}
    place = attempts_folder(folder)
    place.mkdir(parents=True)
    (place / LEASE_FILE).write_text(json.dumps(lease))
    write_failure(folder, "x", Failure("r", 1, "here", "ValueError: it broke"))
    return path


FILES = (
    COHORT_FILE,
    f"{finished_run()}/{RUN_FILE}",
    f"{finished_run()}/{DONE_FILE}",
    f"{finished_run()}/{SOURCE_FILE}",
    f"{finished_run()}/heldout/sketch.jsonl",
    f"{unfinished_run()}/{RUN_FILE}",
    f"{unfinished_run()}/{SOURCE_FILE}",
    f"attempts/{Path(unfinished_run()).name}/{LEASE_FILE}",
    f"attempts/{Path(unfinished_run()).name}/x.failed",
)


def mutants(cohort: Path) -> Iterator[Mutant]:
    """Every value of every file by every bad value, and whole files that are no JSON."""
    for file in FILES:
        content = (cohort / file).read_bytes()
        for other in CONTENTS:
            yield Mutant(file, "whole", other)
        first, end, rest = content.partition(b"\n") if file.endswith("l") else (content, b"", b"")
        for path in _paths(json.loads(first)):
            whole = json.loads(first)
            _put(whole, path)
            text = json.dumps(whole)
            for value in VALUES:
                changed = text.replace(json.dumps(_HOLE), value).encode() + end + rest
                yield Mutant(file, "/".join(map(str, path)), changed)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for name, part in inner:
        yield (*path, name)
        yield from _paths(part, (*path, name))


def _put(value: Any, path: tuple[Any, ...]) -> None:
    for name in path[:-1]:
        value = value[name]
    value[path[-1]] = _HOLE


def readers(out: Path) -> dict[str, Callable[[Path], object]]:
    """What each command reads of a cohort."""
    return {
        "select": lambda cohort: cw.load_runs(cohort),
        "compare": lambda cohort: Cohort.open(cohort).compare(resamples=10),
        "status": lambda cohort: cohort_status(open_cohort(cohort)),
        "verify": verify,
        "sweep": lambda cohort: Study.from_dict(open_cohort(cohort).study),
        "pack": lambda cohort: pack(cohort, out / "packed.tar.xz"),
    }
