"""The list of commands is whole, and pages and messages name only commands that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from checkwise.cli import app, main
from checkwise.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
GROUP: Any = typer.main.get_command(app)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
# In code spans, in lines of code blocks, and after the colon that ends an advice.
CALL = re.compile(
    r"(?:`|^\$? ?|: |python -m )checkwise ([a-z][a-z-]*)\b([^`\n]*)",
    re.MULTILINE,
)
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")
LISTED = re.compile(r"`([a-z]+)`(?:(?:, | and | or |, and )`([a-z]+)`)+")


def options(command: str) -> set[str]:
    return {name for option in GROUP.commands[command].params for name in option.opts} | {
        "--help",
        "--debug",
    }


def calls(path: Path) -> Iterator[tuple[str, str]]:
    """Every command that a file tells somebody to type, and what follows it on the line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = text.replace("``", "`")
        text = re.sub(r'"\s*\n\s*f?"', "", text)  # a message that goes on in the next line
    for name, rest in CALL.findall(text):
        yield name, rest.split(" # ")[0]


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_that_are_named_exist(path: Path) -> None:
    for command, rest in calls(path):
        assert command in GROUP.commands, f"checkwise {command}{rest}"
        for option in OPTION.findall(rest):
            assert option in options(command), f"checkwise {command}{rest}"


GUIDES = [page for page in PAGES if page.parent.name != "study"]  # those list tables by name


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_list_that_begins_with_two_commands_holds_only_commands(page: Path) -> None:
    for found in LISTED.finditer(page.read_text(encoding="utf-8")):
        names = re.findall(r"`([a-z]+)`", found[0])
        if len(names) > 2 and all(name in GROUP.commands for name in names[:2]):
            assert set(names) <= set(GROUP.commands), found[0]


def test_the_search_finds_what_is_there() -> None:
    named = [call for path in (*PAGES, *SOURCES) for call in calls(path)]
    assert len(named) > 80
    assert {name for name, _ in named} >= {"select", "sweep", "compare", "unpack", "calibrate"}
    assert sum("--" in rest for _, rest in named) > 20


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_of_the_help_is_cut(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert "..." not in said.replace("[ARGS]...", "")
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= width
    lines = [line.split(maxsplit=1) for line in said.splitlines() if line.startswith("  ")]
    for commands in COMMANDS.values():
        for name, _, line in commands:
            assert [name, line] in lines


def test_every_command_is_in_one_group() -> None:
    listed = [name for commands in COMMANDS.values() for name, _, _ in commands]
    assert sorted(listed) == sorted(set(listed)) == sorted(GROUP.commands)
