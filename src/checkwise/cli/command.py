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


def names(text: str) -> tuple[str, ...]:
    """A comma-separated list that names something."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise click.BadParameter("name at least one")
    return found


PATH: Any = _PathType(path_type=Path)
OUTPUT = "Output"
WHOLE = f"{__name__}.whole"  # whether the help shows rare options too
Function = TypeVar("Function", bound=Callable[..., Any])


class Option(click.Option):
    """An option with the heading that it stands under in the help."""

    def __init__(self, *args: Any, under: str = "Options", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.under = under

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Without the range of a number, which a wrong value is told."""
        return {k: value for k, value in super().get_help_extra(ctx).items() if k != "range"}


class Command(click.Command):
    """A command whose help lists options under headings and ends with examples, line by line.

    Options that are ``rare`` are in the help that ``--help-all`` shows alone.
    """

    def __init__(
        self, *args: Any, examples: Sequence[str] = (), rare: Sequence[str] = (), **settings: Any
    ) -> None:
        settings["context_settings"] = {"max_content_width": 100}
        super().__init__(*args, **settings)
        self.examples, self.rare = tuple(examples), frozenset(rare)
        if rare:
            more = f"Also show the {len(rare)} options that are rarer, and exit."
            whole: Any = {"is_eager": True, "expose_value": False, "callback": self._show_all}
            self.params.append(
                Option(["--help-all"], is_flag=True, help=more, under=OUTPUT, **whole)
            )

    def _show_all(self, ctx: click.Context, _: click.Parameter, asked: bool) -> None:
        if asked:
            ctx.meta[WHOLE] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        headings: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            left_out = one.name in self.rare and WHOLE not in ctx.meta
            told = isinstance(one, click.Option) and not left_out
            record = one.get_help_record(ctx) if told else None
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
    name: str, *, examples: Sequence[str] = (), rare: Sequence[str] = ()
) -> Callable[[Callable[..., int | None]], Command]:
    """Make a command of a function; its docstring is the help, what it returns the exit code."""
    return click.command(name, cls=Command, examples=examples, rare=rare)


def argument(name: str, **settings: Any) -> Callable[[Function], Function]:
    """An argument; a path unless a type is named."""
    return click.argument(name, **{"type": PATH, **settings})


def option(written: str, help: str = "", **settings: Any) -> Declared:
    """An option, as a decorator of a command, written as in its help: ``-o, --out FILE``.

    Without FILE it is a flag, with ``FILE…`` repeatable. Settings are those of ``click.option``,
    ``under``, its heading, and ``name``, that of the argument.
    """
    *flags, last = written.split(", ", 1) if written[1] != "-" else [written]
    flag, _, metavar = last.partition(" ")
    kind: dict[str, Any] = {"is_flag": True}
    if metavar:
        kind = {"metavar": metavar.removesuffix("…"), "multiple": metavar.endswith("…")}
    own = [settings.pop("name")] if "name" in settings else []
    return Declared((*own, *flags, flag), {**kind, "help": help, **settings})


@dataclasses.dataclass(frozen=True)
class Declared:
    """An option that was written down; :class:`Shared` makes a field of it."""

    names: tuple[str, ...]
    settings: dict[str, Any]

    def __call__(self, function: Function) -> Function:
        decorated: Function = click.option(*self.names, cls=Option, **self.settings)(function)
        return decorated

    def but(self, help: str = "", **settings: Any) -> Declared:
        """The same option with another help or other settings."""
        return Declared(self.names, self.settings | ({"help": help} if help else {}) | settings)

    @property
    def field(self) -> Any:
        """The same, as the default of a field of shared options."""
        return self

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

    def __init_subclass__(cls, under: str = "Options") -> None:
        own = {
            name: Declared(one.names, {"under": under, **one.settings})
            for name, one in vars(cls).items()
            if isinstance(one, Declared)
        }
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
            flags = [name for name in one.names if name.startswith("-")]
            decorated = Declared((each, *flags), one.settings)(decorated)
        return decorated

    return decorate
