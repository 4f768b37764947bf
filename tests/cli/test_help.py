"""The list of commands is whole, and pages and messages name only commands that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkwise.cli.entry import COMMANDS, STUDY_COMMANDS, Lines, commands
from tests.cli.calls import ran, said

ROOT = Path(__file__).parents[2]
ALL = commands()
LAST = {name.split()[-1] for name in ALL}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
# In code spans, in lines of code blocks, and after the colon that ends an advice.
CALL = re.compile(
    r"(?:`|^\$? ?|: |python -m )checkwise ((?:study )?[a-z][a-z-]*)\b([^`\n]*)", re.MULTILINE
)
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")
LISTED = re.compile(r"`([a-z]+)`(?:(?:, | and | or |, and )`([a-z]+)`)+")


def options(command: str) -> set[str]:
    return {name for option in ALL[command].params for name in option.opts} | {"--help", "--debug"}


def calls(path: Path) -> Iterator[tuple[str, str]]:
    """Every command that a file tells somebody to type, and what follows it on the line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = text.replace("``", "`")
        text = re.sub(r'"\s*\n\s*f?"', "", text)  # a message that goes on in the next line
    for name, rest in CALL.findall(text):
        yield name, rest.split(" # ")[0]


def test_commands_and_options_that_are_named_exist() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: checkwise {command}{rest}"
        for path in (*PAGES, *SOURCES)
        for command, rest in calls(path)
        if command != "study"
        and (command not in ALL or not options(command).issuperset(OPTION.findall(rest)))
    ]
    assert not wrong


def test_a_list_that_begins_with_two_commands_holds_only_commands() -> None:
    wrong = []
    for page in PAGES:
        if page.parent.name == "study":  # those list tables by name
            continue
        for found in LISTED.finditer(page.read_text(encoding="utf-8")):
            named = re.findall(r"`([a-z]+)`", found[0])
            if len(named) > 2 and LAST.issuperset(named[:2]) and not LAST.issuperset(named):
                wrong.append(f"{page.relative_to(ROOT)}: {found[0]}")
    assert not wrong


def test_the_search_finds_what_is_there() -> None:
    named = [call for path in (*PAGES, *SOURCES) for call in calls(path)]
    assert len(named) > 80
    assert {name for name, _ in named} >= {"select", "deploy", "study run", "study compare"}
    assert sum("--" in rest for _, rest in named) > 20


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_of_the_help_is_cut(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words, groups in (([], COMMANDS), (["study"], STUDY_COMMANDS)):
        check_help(said(*words, "--help"), groups, width)


def check_help(text: str, groups: Lines, width: int) -> None:
    assert "..." not in text.replace("[ARGS]...", "")
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.startswith("  ")]
    for group in groups.values():
        for name, _, line in group:
            assert [name, line] in lines


def test_the_help_of_select_fits_one_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    usual, whole = (said("select", asked).splitlines() for asked in ("--help", "--help-all"))
    for lines in (usual, whole):
        headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
        assert headings == ["Choose:", "Read the log:", "Find the files:", "Output:", "Examples:"]
        assert lines[-1].startswith("https://")
    assert len(usual) <= 35
    named = {name for name in options("select") if name.startswith("-")}
    assert named - {"--debug"} <= {
        name for line in whole for name in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", line)
    }


def test_every_command_is_in_one_group() -> None:
    for groups in (COMMANDS, STUDY_COMMANDS):
        listed = [name for group in groups.values() for name, _, _ in group]
        assert len(listed) == len(set(listed))


def test_the_surface_is_small() -> None:
    assert len([name for name in ALL if not name.startswith("study ")]) <= 9
    assert len([name for name in ALL if name.startswith("study ")]) <= 10


def test_without_a_command_the_help_is_shown() -> None:
    for words, lines in (((), COMMANDS), (("study",), STUDY_COMMANDS)):
        code, out, err = ran(*words)
        assert (code, err) == (0, "")
        for heading, group in lines.items():
            assert f"{heading}:" in out.splitlines()
            assert all(text in out for *_, text in group)
