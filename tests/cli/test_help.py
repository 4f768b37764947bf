"""The list of commands is whole, and pages and messages name only commands that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkwise.cli import main
from checkwise.cli.entry import COMMANDS, STUDY_COMMANDS, Lines, commands

ROOT = Path(__file__).parents[2]
ALL = commands()
LAST = {name.split()[-1] for name in ALL}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
# In code spans, in lines of code blocks, and after the colon that ends an advice.
CALL = re.compile(
    r"(?:`|^\$? ?|: |python -m )checkwise ((?:study )?[a-z][a-z-]*)\b([^`\n]*)",
    re.MULTILINE,
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


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_that_are_named_exist(path: Path) -> None:
    for command, rest in calls(path):
        if command == "study":
            continue
        assert command in ALL, f"checkwise {command}{rest}"
        for option in OPTION.findall(rest):
            assert option in options(command), f"checkwise {command}{rest}"


GUIDES = [page for page in PAGES if page.parent.name != "study"]  # those list tables by name


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_list_that_begins_with_two_commands_holds_only_commands(page: Path) -> None:
    for found in LISTED.finditer(page.read_text(encoding="utf-8")):
        names = re.findall(r"`([a-z]+)`", found[0])
        if len(names) > 2 and all(name in LAST for name in names[:2]):
            assert set(names) <= LAST, found[0]


def test_the_search_finds_what_is_there() -> None:
    named = [call for path in (*PAGES, *SOURCES) for call in calls(path)]
    assert len(named) > 80
    assert {name for name, _ in named} >= {"select", "deploy", "study run", "study compare"}
    assert sum("--" in rest for _, rest in named) > 20


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_of_the_help_is_cut(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words, groups in (([], COMMANDS), (["study"], STUDY_COMMANDS)):
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        check_help(capsys.readouterr().out, groups, width)


def check_help(said: str, groups: Lines, width: int) -> None:
    assert "..." not in said.replace("[ARGS]...", "")
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= width
    lines = [line.split(maxsplit=1) for line in said.splitlines() if line.startswith("  ")]
    for group in groups.values():
        for name, _, line in group:
            assert [name, line] in lines


def test_the_help_of_select_fits_one_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    whole: dict[str, list[str]] = {}
    for asked in ("--help-all", "--help"):
        with pytest.raises(SystemExit):
            main(["select", asked])
        whole[asked] = said = capsys.readouterr().out.splitlines()
        assert {"Choose:", "Read the log:", "Find the files:", "Output:", "Examples:"} <= set(said)
        assert said[-1].startswith("https://")
    assert len(whole["--help"]) <= 35
    told = {name for line in whole["--help-all"] for name in OPTION.findall(line)}
    assert told >= {name for name in options("select") if name.startswith("--")} - {"--debug"}


def test_every_command_is_in_one_group() -> None:
    for groups in (COMMANDS, STUDY_COMMANDS):
        listed = [name for group in groups.values() for name, _, _ in group]
        assert len(listed) == len(set(listed))


def test_the_surface_is_small() -> None:
    assert len([name for name in ALL if not name.startswith("study ")]) <= 9
    assert len([name for name in ALL if name.startswith("study ")]) <= 10


@pytest.mark.parametrize(("words", "lines"), [((), COMMANDS), (("study",), STUDY_COMMANDS)])
def test_without_a_command_the_help_is_shown(
    words: tuple[str, ...], lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words])
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (0, "")
    for heading, group in lines.items():
        assert f"{heading}:" in out.splitlines()
        assert all(said in out for *_, said in group)
