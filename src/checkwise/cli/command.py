"""Commands and their options: what every command of checkwise has in common.

Options that several commands share are the fields of a frozen dataclass, each a :func:`field`; a
command asks for all of them with :func:`takes`.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import click

DOCS = "https://github.com/checkwise/checkwise/tree/main/docs"


class _PathType(click.Path):
    """A path that is not empty: an unset variable of a shell must not mean this folder."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if not os.fspath(value):
            self.fail("an empty path: is a variable of the shell not set?", param, ctx)
        return super().convert(value, param, ctx)


PATH: Any = _PathType(path_type=Path)
OUTPUT = "Output"
Function = TypeVar("Function", bound=Callable[..., Any])


class Option(click.Option):
    """An option with the heading that it stands under in the help."""

    def __init__(self, *args: Any, under: str = "Options", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.under = under
        if self.metavar is None and isinstance(self.type, click.IntRange | click.FloatRange):
            self.metavar = "N"

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Without the range of a number, which a wrong value is told."""
        return {k: value for k, value in super().get_help_extra(ctx).items() if k != "range"}


class Command(click.Command):
    """A command whose help lists options under headings and ends with examples, line by line."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        settings["context_settings"] = {"max_content_width": 100}
        super().__init__(*args, **settings)
        self.examples = tuple(examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        headings: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx) if isinstance(one, click.Option) else None
            if record is not None:
                under = one.under if isinstance(one, Option) else OUTPUT
                headings.setdefault(under, []).append(record)
        for heading in sorted(headings, key=lambda heading: heading == OUTPUT):  # that one last
            with formatter.section(heading):
                formatter.write_dl(headings[heading])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"  {line}\n")
            formatter.write(f"\n{DOCS}\n")


def command(
    name: str, *, examples: Sequence[str] = ()
) -> Callable[[Callable[..., int | None]], Command]:
    """Make a command of a function; its docstring is the help, what it returns the exit code."""
    return click.command(name, cls=Command, examples=examples)


def argument(name: str, **settings: Any) -> Callable[[Function], Function]:
    """An argument; a path unless a type is named."""
    return click.argument(name, **{"type": PATH, **settings})


def option(*names: str, under: str = "Options", **settings: Any) -> Declared:
    """An option, as a decorator of a command."""
    return Declared(names, {"under": under, **settings})


@dataclasses.dataclass(frozen=True)
class Declared:
    """An option that was written down; :class:`Shared` makes a field of it."""

    names: tuple[str, ...]
    settings: dict[str, Any]

    def __call__(self, function: Function) -> Function:
        decorated: Function = click.option(*self.names, cls=Option, **self.settings)(function)
        return decorated

    def but(self, **settings: Any) -> Declared:
        """The same option with other settings."""
        return Declared(self.names, {**self.settings, **settings})

    @property
    def default(self) -> Any:
        """What a command is given where the option is left out."""
        empty: Any = () if self.settings.get("multiple") else None
        return self.settings.get("default", False if self.settings.get("is_flag") else empty)


field: Callable[..., Any] = option  # as the default of a field of shared options


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Shared:
    """Base of options that commands share: a frozen dataclass whose fields are options.

    A field has the name of its option, after ``only_`` where arguments have it: what was given can
    be written down again.
    """

    declared: dict[str, Declared]

    def __init_subclass__(cls) -> None:
        own = {name: one for name, one in vars(cls).items() if isinstance(one, Declared)}
        cls.declared = {**own, **getattr(cls, "declared", {}), **own}
        for name, one in own.items():
            setattr(cls, name, one.default)
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    @property
    def words(self) -> list[str]:
        """What was given, as on the command line."""
        found: list[str] = []
        for name, one in self.declared.items():
            value = getattr(self, name)
            flag = next(name for name in one.names if name.startswith("--"))
            if value is True:
                found.append(flag)
            elif value != one.default:
                values = value if isinstance(value, tuple) else [value]
                found += [word for each in values for word in (flag, str(each))]
        return found


def takes(group: type[Shared], name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of a group, as one argument of this name."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def taking(*args: Any, **values: Any) -> Any:
            own = {each: values.pop(each) for each in group.declared}
            return function(*args, **values, **{name: group(**own)})

        decorated: Callable[..., Any] = taking
        for each, one in reversed(group.declared.items()):
            decorated = Declared((each, *one.names), one.settings)(decorated)
        return decorated

    return decorate
