"""Names, arguments, options and keys of JSON that a release promised are there."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from tests import stable_record

PROMISED = json.loads(stable_record.RECORD.read_text())


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return stable_record.now(tmp_path_factory.mktemp("stable"))


@pytest.mark.parametrize("kind", PROMISED)
def test_what_was_promised_is_there(kind: str, now: dict[str, Any]) -> None:
    for group, lines in PROMISED[kind].items():
        gone = set(lines) - set(now[kind].get(group, ()))
        assert not gone, f"{group}: see docs/stability.md"


def test_every_command_that_prints_json_is_tried(now: dict[str, Any]) -> None:
    printing = {name for name, options in now["options"].items() if "--json" in options}
    tried = {line.split()[0] for line in stable_record.COMMANDS.values()}
    assert tried == printing - {"lodo"}  # it would train first; tests/study/test_lodo.py
    assert [name for name, paths in now["keys"].items() if "schema" not in paths] == []


def test_an_old_program_gives_every_key_of_its_first_version(now: dict[str, Any]) -> None:
    early = json.loads((stable_record.EARLY / "select.json").read_text())
    assert set(stable_record._paths(early)) <= set(now["keys"]["select, many"])


def test_errors_are_of_the_kinds_that_are_promised() -> None:
    kinds = [getattr(cw, name) for name in cw.__all__ if name.endswith("Error")]
    assert len(kinds) == 5
    assert all(inspect.isclass(kind) and issubclass(kind, cw.CheckwiseError) for kind in kinds)
    assert issubclass(cw.InputError, ValueError)


def test_the_page_names_tests_that_exist() -> None:
    here = Path(__file__).parent
    page = (here.parent / "docs" / "stability.md").read_text()
    named = stable_record_named(page)
    assert len(named) >= 6
    assert [name for name in named if not (here / name).exists()] == []


def stable_record_named(page: str) -> list[str]:
    rows = [line for line in page.splitlines() if line.startswith("| ")][2:]
    return [cell.strip(" `") for line in rows for cell in line.split("|")[-2].split(",")]
