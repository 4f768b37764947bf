"""What ``--json`` prints: one line of strict JSON, of the form that the command's schema states.

``schemas/COMMAND.json`` beside this file are JSON Schemas (draft 2020-12). Every answer begins with
the number of the form, ``{"schema": 2, …}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

SCHEMA: Final = 2


def print_json(command: str, content: Mapping[str, Any]) -> None:
    """Print the answer of a command for machines."""
    print(line(command, content), flush=True)


def line(command: str, content: Mapping[str, Any]) -> str:
    """The answer of a command as it is printed; tests compare it with the command's schema."""
    return json.dumps(with_schema(content), allow_nan=False)


def with_schema(content: Mapping[str, Any]) -> dict[str, Any]:
    """The answer after the number of its form."""
    return {"schema": SCHEMA, **content}


def schema(command: str) -> dict[str, Any]:
    """The JSON Schema of what a command prints."""
    text = files("checkwise.cli").joinpath("schemas", f"{command}.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def commands_with_schema() -> list[str]:
    """The commands that print JSON."""
    folder = files("checkwise.cli").joinpath("schemas")
    return sorted(file.name.removesuffix(".json") for file in folder.iterdir())
