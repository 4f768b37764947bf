"""Compares what a command prints with its schema, and refuses fields that the schema lacks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from checkwise.cli.printing import line, schema


def checked_line(command: str, content: Mapping[str, Any]) -> str:
    """The line that is printed, after it was compared."""
    text = line(command, content)
    validator(command).validate(json.loads(text))
    return text


@cache
def validator(command: str) -> Draft202012Validator:
    """Readers of JSON may meet new fields; here a field that nobody described is a fault."""
    return Draft202012Validator(closed(schema(command)))


def closed(form: Any) -> Any:
    """A schema in which objects have no fields but those that it lists."""
    if isinstance(form, list):
        return [closed(part) for part in form]
    if not isinstance(form, dict):
        return form
    found = {name: closed(part) for name, part in form.items()}
    return {"additionalProperties": False, **found} if "properties" in found else found
