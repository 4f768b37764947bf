"""The page of what ``--json`` prints, from the schemas of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checkwise.cli import STUDY_COMMANDS, commands_with_schema, schema
from docs.build.site_pages import GITHUB

SOURCE = f"{GITHUB}/tree/main/src/checkwise/cli/schemas"
OF_STUDIES = {name for lines in STUDY_COMMANDS.values() for name, _, _ in lines}
INTRODUCTION = f"""\
# JSON

What commands print with `--json`: one object on one line, strict JSON (no NaN; infinity is the text
`inf`). `schema` is the version of the form. Within a version fields are only added, so read the
fields you need and leave the others. An optional field is absent where there is nothing to say.
The form is the same for one run and for many.

The [schemas]({SOURCE}) are JSON Schema, draft 2020-12, and come with the package. Every test that
prints JSON compares it with them. In Python:

```python
from checkwise.cli import commands_with_schema, schema

print(commands_with_schema())
print(schema("select")["title"])
```
"""


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(section(name) for name in commands_with_schema())])


def section(command: str) -> str:
    """The fields of what one command prints."""
    whole = inlined(schema(command))
    definitions = whole.get("$defs", {})
    forms = whole.get("oneOf", [whole])
    shown = f"study {command}" if command in OF_STUDIES else command
    parts = [f"## {shown}\n", f"{whole['title']} [Schema]({SOURCE}/{command}.json).\n"]
    for form in forms:
        if len(forms) > 1:
            parts.append(f"{form['description']}\n")
        lines = ["| field | value | meaning |", "| --- | --- | --- |", *_rows(form, definitions)]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def inlined(whole: dict[str, Any]) -> dict[str, Any]:
    """A schema with definitions where they are used, but for those that are a form themselves."""
    definitions = whole.get("$defs", {})
    listed = {form.get("$ref") for form in whole.get("oneOf", [whole])}

    def inside(value: Any) -> Any:
        if isinstance(value, list):
            return [inside(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value and value["$ref"] not in listed:
            value = _resolved(value, definitions) | value
            del value["$ref"]
        return {name: inside(each) for name, each in value.items()}

    return {name: inside(each) for name, each in whole.items()}


def _rows(form: dict[str, Any], definitions: dict[str, Any], within: str = "") -> Iterator[str]:
    form = _resolved(form, definitions)
    for name, about in form.get("properties", {}).items():
        optional = "" if name in form.get("required", ()) else ", optional"
        kind = f"{_kind(about)}{optional}"
        meaning = about.get("description", _resolved(about, definitions).get("description", ""))
        yield f"| `{within}{name}` | {kind} | {meaning} |"
        if "$ref" not in about:  # what is left of these is a form with a table of its own
            yield from _inner(about, definitions, f"{within}{name}")
    if not within and isinstance(rest := form.get("additionalProperties"), dict):
        yield f"| any other | {_kind(rest)} | {rest.get('description', '')} |"


def _inner(about: dict[str, Any], definitions: dict[str, Any], name: str) -> Iterator[str]:
    """The fields inside a field."""
    if "properties" in about:
        yield from _rows(about, definitions, f"{name}.")
    if "properties" in (items := about.get("items", {})):
        yield from _rows(items, definitions, f"{name}[].")
    if "properties" in (values := about.get("additionalProperties", {})):
        yield from _rows(values, definitions, f"{name}.*.")


def _resolved(form: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    name = form.get("$ref", "").removeprefix("#/$defs/")
    found: dict[str, Any] = definitions[name] if name else form
    return found


def _kind(about: dict[str, Any]) -> str:
    if "$ref" in about:
        return about["$ref"].removeprefix("#/$defs/")
    if "const" in about:
        return str(about["const"])
    if "enum" in about:
        return " or ".join(f"`{value}`" for value in about["enum"])
    kinds = about.get("type", "any")
    text = kinds if isinstance(kinds, str) else " or ".join(kinds)
    if text == "array" and about.get("items"):
        return f"list of {_kind(about['items'])}s"
    return str(text)
