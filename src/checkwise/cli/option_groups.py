"""Options that come in groups: written once as a dataclass, taken by any command.

A command asks for a group by the type of a parameter; typer then sees the group's fields as
options of that command.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar, get_type_hints

Result = TypeVar("Result")


@dataclass(frozen=True)
class OptionGroup:
    """A frozen dataclass whose fields, annotated as typer wants them, are options.

    A field has the name of its option, after ``only_`` where arguments have it: what was given
    can be written down again.
    """

    @property
    def words(self) -> list[str]:
        """What was given, as on the command line."""
        found: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            option = f"--{field.name.removeprefix('only_').replace('_', '-')}"
            if value is True:
                found.append(option)
            elif value != field.default:
                values = value if isinstance(value, list) else [value]
                found += [word for one in values for word in (option, str(one))]
        return found


def with_groups(command: Callable[..., Result]) -> Callable[..., Result]:
    """Replace every parameter that is an :class:`OptionGroup` by the options of its group."""
    hints = get_type_hints(command, include_extras=True)
    groups = {
        name: hint
        for name, hint in hints.items()
        if isinstance(hint, type) and issubclass(hint, OptionGroup)
    }

    @functools.wraps(command)
    def taking_options(**values: Any) -> Result:
        for name, group in groups.items():
            names = [field.name for field in fields(group) if field.name in values]
            values[name] = group(**{field: values.pop(field) for field in names})
        return command(**values)

    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name in groups:
            parameters += _options(groups[name])
        else:
            parameters.append(
                parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY)
            )
    taking_options.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    taking_options.__annotations__ = {p.name: p.annotation for p in parameters}
    del taking_options.__wrapped__  # typer would look through to the command
    return taking_options


def _options(group: type[OptionGroup]) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
