"""Write docs/commands.md, the reference of every command, from the command line's own help.

python docs/build/commands.py
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import typer

from checkwise.cli.main import COMMANDS, app
from page import markdown

PAGE = Path(__file__).parents[1] / "commands.md"
NOTE = re.compile(r"\s*\[(default: (?P<default>[^\]]*)|(?P<required>required))\]")
# What kind of value an option takes, however the installed typer writes it.
KIND = re.compile(r"<(?:list\[)?(\w+)(?: range)?\]?>|\b(TEXT|INTEGER|FLOAT|PATH)\b")
KINDS = {
    "str": "TEXT",
    "int": "NUMBER",
    "INTEGER": "NUMBER",
    "float": "NUMBER",
    "FLOAT": "NUMBER",
    "path": "PATH",
}
EXIT_CODES = {
    "0": "the command did what it says",
    "1": (
        "runs failed or are left (`sweep`, `work`, `lodo`, `demo`), `verify` found faults, "
        "`doctor` found something wrong; or checkwise itself has a fault"
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

Every command takes `--debug`, which shows a traceback where it would print one line. `checkwise
--version` prints the version. `checkwise --install-completion` sets up completion in your shell.
Results go to standard output, warnings and errors to standard error. [JSON](json.md) describes what
`--json` prints.
"""


def page() -> str:
    """The whole page."""
    group: Any = typer.main.get_command(app)
    parts = [INTRODUCTION, markdown(("exit code", "meaning"), list(EXIT_CODES.items()))]
    for title, commands in COMMANDS.items():
        parts.append(f"## {title}\n")
        parts += [section(name, group.commands[name]) for name, _, _ in commands]
    return "\n".join(parts)


def section(name: str, command: Any) -> str:
    """A command: how it is called, what it does, its arguments and options."""
    context = command.make_context(name, ["--help"], resilient_parsing=True)
    records = [(p, *p.get_help_record(context)) for p in command.params if not p.hidden]
    arguments = [p for p, _, _ in records if p.param_type_name == "argument"]
    call = " ".join(["checkwise", name, *map(_argument, arguments), "[OPTIONS]"])
    said = inspect.cleandoc(command.help or "").replace("\b\n", "")
    lines = [f"### {name}\n", f"```sh\n{call}\n```\n", f"{_plain(said)}\n"]
    rows = [_row(p, names, text) for p, names, text in records if names != "--help"]
    if rows:
        lines.append(markdown(("argument or option", "default", "meaning"), rows))
    return "\n".join(lines)


def _argument(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper().strip("{}")
    name += "…" if argument.nargs == -1 else ""
    return name if argument.required else f"[{name}]"


def _row(parameter: Any, names: str, text: str) -> tuple[str, str, str]:
    default = "; ".join(m["default"] or "required" for m in NOTE.finditer(text))
    shown = (
        _argument(parameter) if parameter.param_type_name == "argument" else KIND.sub(_kind, names)
    )
    return f"`{shown}`", _plain(default), _plain(NOTE.sub("", text))


def _kind(found: re.Match[str]) -> str:
    name = found[1] or found[2]
    return KINDS.get(name, name)


def _plain(text: str) -> str:
    """Markdown that shows the text as it is."""
    return re.sub(r"(`[^`]*`)|([|*_<>])", lambda m: m[1] or f"\\{m[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
