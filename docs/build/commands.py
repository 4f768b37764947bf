"""The page of every command, from the command line's own help."""

from __future__ import annotations

import inspect
import re

import click

from checkwise.cli import COMMANDS, OUTPUT, STUDY_COMMANDS, Option, commands
from studies.page import markdown

NOTE = re.compile(
    r"\s*\[(?:(?:default: )?(?P<default>[^\]x][^\]]*)|(?P<required>required)|x[<>][^\]]*)\]"
)
KIND = re.compile(r"\b(INTEGER|FLOAT)(?: RANGE)?\b")
KINDS = {"INTEGER": "NUMBER", "FLOAT": "NUMBER"}
EXIT_CODES = {
    "0": "the command did what it says",
    "1": (
        "done, and the answer is no: runs failed or are left (`study run`, `study work`, `study "
        "derive`, `demo`), some of several paths could not be read (`select`), a check found "
        "faults (`study status --verify`, `study register --show`, `doctor`); or checkwise itself "
        "has a fault"
    ),
    "2": (
        "the input cannot be used as it is; one line on standard error says what, where and "
        "what to do"
    ),
    "130": (
        "it was interrupted; a worker that is told to stop ends with 128 plus the signal's "
        "number (143 for SIGTERM)"
    ),
}
INTRODUCTION = """\
# Commands

Every command with its options and their defaults, as `checkwise COMMAND --help` prints them. An
option that is *repeatable* may be given several times. A name in capitals stands for a value.

Every command takes `--debug`, which shows a traceback before the line of an error. `checkwise
--version` prints the version. `eval "$(_CHECKWISE_COMPLETE=bash_source checkwise)"` sets up
completion in bash; `zsh_source` and `fish_source` do it in those shells.
Results go to standard output, warnings and errors to standard error. [JSON](json.md) describes what
`--json` prints.
"""


def page() -> str:
    """The whole page."""
    there = commands()
    parts = [INTRODUCTION, markdown(("exit code", "meaning"), list(EXIT_CODES.items()))]
    for before, groups in (("", COMMANDS), ("study ", STUDY_COMMANDS)):
        for title, lines in groups.items():
            named = [f"{before}{name}" for name, _, _ in lines if f"{before}{name}" in there]
            if named:
                parts.append(f"## {title if not before else f'Studies: {title.lower()}'}\n")
                parts += [section(name, there[name]) for name in named]
    return "\n".join(parts)


def section(name: str, command: click.Command) -> str:
    """A command: how it is called, what it does, its options under their headings."""
    context = click.Context(command)
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    call = " ".join(["checkwise", name, *map(_argument, arguments), "[OPTIONS]"])
    said = inspect.cleandoc(command.help or "").replace("\b\n", "")
    lines = [f"### {name}\n", f"```sh\n{call}\n```\n", f"{_plain(said)}\n"]
    rows = [_row(p, *(p.get_help_record(context) or ("", ""))) for p in _options(command)]
    if rows:
        lines.append(markdown(("option", "default", "meaning"), rows))
    return "\n".join(lines)


def _options(command: click.Command) -> list[Option]:
    """The options in the order of the help."""
    found = [p for p in command.params if isinstance(p, Option)]
    headings = list(dict.fromkeys(option.under for option in found))
    headings.sort(key=lambda heading: heading == OUTPUT)
    return sorted(found, key=lambda option: headings.index(option.under))


def _argument(argument: click.Argument) -> str:
    name = (argument.metavar or argument.name or "").upper().rstrip(".…")
    name += "…" if argument.nargs == -1 else ""
    return name if argument.required else f"[{name}]"


def _row(option: Option, names: str, text: str) -> tuple[str, str, str]:
    default = "; ".join(m["default"] or "required" for m in NOTE.finditer(text))
    return f"`{KIND.sub(_kind, names)}`", _plain(default), _plain(NOTE.sub("", text))


def _kind(found: re.Match[str]) -> str:
    return KINDS[found[1]]


def _plain(text: str) -> str:
    """Markdown that shows the text as it is."""
    return re.sub(r"(`[^`]*`)|([|*_<>])", lambda m: m[1] or f"\\{m[2]}", text)
