"""Every command with ``--json`` has a schema, and its output is held to it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from checkwise.cli.entry import commands
from checkwise.cli.printing import SCHEMA, commands_with_schema, print_json, schema
from tests.cli.calls import answer
from tests.docs.test_pages import builder
from tests.json_forms import checked_line, validator

TABLE = "step,accuracy,nll,cwece\n100,0.9,0.7,0.02\n200,0.895,0.4,0.01\n300,0.85,0.35,0.008\n"


def test_a_command_has_a_schema_if_and_only_if_it_prints_json() -> None:
    printing = {
        name.split()[-1]
        for name, command in commands().items()
        if any("--json" in option.opts for option in command.params)
    }
    assert printing == {name.split("-")[0] for name in commands_with_schema()}


def test_a_schema_is_one_and_leaves_room_for_new_fields() -> None:
    for command in commands_with_schema():
        form = schema(command)
        Draft202012Validator.check_schema(form)
        for shape in form.get("oneOf", [form]):
            assert shape["properties"]["schema"]["const"] == SCHEMA, command
        named = [name for name in commands() if name.split()[-1] == command.split("-")[0]]
        assert form["title"].startswith(f"checkwise {named[0]}")
        assert '"additionalProperties": false' not in json.dumps(form), command


def select(folder: Path) -> dict[str, Any]:
    (folder / "run.csv").write_text(TABLE)
    found: dict[str, Any] = answer("select", folder / "run.csv")
    return found


def test_what_select_prints_is_compared(tmp_path: Path) -> None:
    found = select(tmp_path)
    (run,) = found["runs"]
    chosen = run["selection"]
    assert chosen["step"] == 200
    assert checked_line("select", found) == json.dumps(found)
    for other in (
        {**chosen, "step": "200"},
        {**chosen, "undescribed": 1},
        {name: value for name, value in chosen.items() if name != "digest"},
    ):
        wrong = {**found, "runs": [{**run, "selection": other}]}
        with pytest.raises(ValidationError):
            validator("select").validate(wrong)
        with pytest.raises(ValidationError):  # as in every test
            print_json("select", wrong)


def test_the_page_is_what_the_schemas_give() -> None:
    page = builder("json_outputs")
    assert "| `runs[].selection.guarantee.bound_pp` | number or null |" in page.page()


def test_the_page_has_the_fields_of_every_definition() -> None:
    for command in commands_with_schema():
        shown = builder("json_outputs").section(command)
        for definition in schema(command).get("$defs", {}).values():
            for name, about in definition["properties"].items():
                said = re.escape(about["description"])
                assert re.search(rf"\| `([\w.\[\]*]+\.)?{name}` \|.*{said}", shown), command
