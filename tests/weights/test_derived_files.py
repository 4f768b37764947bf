"""Derived results are read only as they were made, and only for the run that they were made of."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkwise.errors import InputError
from checkwise.store import fingerprint
from checkwise.study import Cohort, method
from checkwise.study.folder import verify
from tests.refusals import refused
from tests.weights.cohorts import copied, derive

METHOD = "ac-nc-mean-probs"


@pytest.fixture
def made(cohort: Path, tmp_path: Path) -> Path:
    """A cohort of its own with the results of one method."""
    mine = copied(cohort, tmp_path)
    shutil.rmtree(mine / "derived", ignore_errors=True)
    derive(mine, METHOD)
    return mine


def results(cohort: Path) -> list[Path]:
    return sorted((cohort / "derived" / METHOD).iterdir())


def compared(cohort: Path) -> int:
    """How many runs a comparison has."""
    return len(Cohort.open(cohort).outcomes(method(METHOD), held_out=True))


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def remarked(folder: Path, name: str) -> None:
    """The record of a result with the present content of a file, as a forger would write it."""
    files = {name: fingerprint(folder, name)}
    changed(folder / "record.json", lambda record: record["files"].update(files))


def test_results_that_nobody_touched_are_compared(made: Path) -> None:
    assert compared(made) == len(results(made)) == 2
    assert verify(made) == []


@pytest.mark.parametrize("name", ["source.json", "heldout/75.json"])
def test_a_changed_file_is_refused_and_found(made: Path, name: str) -> None:
    folder = results(made)[0]
    path = folder / name
    path.write_text(path.read_text().replace('"nll":', '"nll": ', 1))
    with pytest.raises(InputError, match=rf"{name} was changed since: remove the folder"):
        compared(made)
    (fault,) = verify(made)
    assert (fault.run, fault.kind) == (f"derived/{METHOD}/{folder.name}", "damaged")
    assert fault.what.startswith(f"{name} was changed")
    assert "checkwise study derive" in fault.do


def test_a_removed_file_is_refused_and_found(made: Path) -> None:
    (results(made)[0] / "heldout" / "75.json").unlink()
    with refused("system: 75 … json"):
        compared(made)
    assert [fault.what for fault in verify(made)] == ["heldout/75.json is missing"]


def test_the_result_of_another_run_is_refused(made: Path) -> None:
    first, second = results(made)
    shutil.rmtree(first)
    shutil.copytree(second, first)
    with refused(f"damaged: {first.name}"):
        compared(made)


def test_a_result_without_checksums_is_made_again(made: Path) -> None:
    changed(results(made)[0] / "record.json", lambda record: record.pop("files"))
    with refused("damaged"):
        compared(made)
    assert [fault.what for fault in verify(made)] == ["it has no checksums"]
    assert len(derive(made, METHOD).made) == 1
    assert compared(made) == 2


@pytest.mark.parametrize("value", ["x", -50.0, None, True, [1]])
def test_a_held_out_value_that_cannot_be_is_refused(made: Path, value: object) -> None:
    folder = results(made)[0]
    changed(folder / "heldout" / "75.json", lambda entry: entry.update(nll=value))
    remarked(folder, "heldout/75.json")
    with refused("damaged: nll"):
        compared(made)


@pytest.mark.parametrize("domains", [{}, {"north": 5}, 3])
def test_source_results_that_cannot_be_are_refused(made: Path, domains: object) -> None:
    folder = results(made)[0]
    changed(folder / "source.json", lambda entry: entry.update(domains=domains))
    remarked(folder, "source.json")
    with refused("damaged"):
        compared(made)


def test_a_record_that_names_no_runs_is_refused(made: Path) -> None:
    path = results(made)[0] / "record.json"
    changed(path, lambda record: record["inputs"].update({"source.jsonl": ["a"]}))
    with refused("differs"):
        compared(made)
