"""Names out of others' files reach terminals, spreadsheets and Markdown as mere text."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.cli import main, printing
from checkwise.cli.printing import csv_text
from checkwise.metrics import is_number
from checkwise.study.tables import Table, typeset
from checkwise.study.tables.table import Cell
from checkwise.words import is_plain, printable
from tests.command_server import checkwise
from tests.refusals import refused
from tests.study.cohorts import tiny_runs, write_cohort

HOSTILE = (
    "\x1b[31mred\x1b]0;title\x07",
    "two\nlines",
    "nul\0",
    "half\udc80",
    "[red]markup[/red]",
    "=cmd|' /C calc'!A0",
    "@SUM(1)",
    "+1+1",
    "-2+3",
    "\ttab",
    "a|b",
    "[click](https://example.org)",
    "![x](https://example.org/x.png)",
    "<script>alert(1)</script>",
    "`code`",
    "*bold*",
    "$x_1 & \\input{/etc/passwd}%",
    "\u202edesrever",
    "\u2028line",
    "e\u0301",
    "x" * 4000,
)


def run(*arguments: Any, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "checkwise", *map(os.fsencode, map(str, arguments))],
        capture_output=True,
        cwd=cwd,
        env={**os.environ, **env},
        timeout=120,
        check=False,
    )


def forked(*arguments: Any) -> tuple[int, bytes, bytes]:
    """The same in a fork of a process that has imported others' packages."""
    code, out, error = checkwise(arguments)
    return code, out.encode(errors="surrogateescape"), error.encode(errors="surrogateescape")


def checked(output: bytes) -> str:
    """The text, if it is UTF-8 without anything that a terminal obeys."""
    text = output.decode()
    assert printable(text, keep="\n") == text
    return text


def test_the_terminal_gets_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    for name in HOSTILE:
        screen = printing.console()
        screen.print(f"note: {name}")
        screen.print(printing.table(("run", name), [(name, "1")], left=("run",)))
        said = capsys.readouterr().out
        checked(said.encode())
        if name.startswith("[red]"):
            assert said.count("[red]markup[/red]") == 3


def test_no_cell_of_a_csv_is_a_formula() -> None:
    for name in (name for name in HOSTILE if "\udc80" not in name):
        text = csv_text([{"run": name, name: -0.5, "shown": "-0.5"}])
        header, row = csv.reader(io.StringIO(text, newline=""))
        assert not row[0].startswith(("=", "+", "-", "@", "\t", "\r"))
        assert not header[1].startswith(("=", "+", "-", "@", "\t", "\r"))
        assert row[0].removeprefix("'") == name
        assert row[1:] == ["-0.5", "-0.5"]


def test_markdown_and_latex_show_names_as_they_are() -> None:
    for name in HOSTILE:
        cell = Cell(row=(name,), measure="target_nll", value=0.5, n=1, role="evaluation")
        table = Table("main", name, ("domain",), (cell,), note=name)
        lines = typeset.markdown(table).split("\n")
        checked("\n".join(lines).encode())
        assert len(lines) == 8
        row = lines[4]
        assert row.replace("\\|", "").count("|") == 5
        for mark in ("](", "<script", "://"):
            assert mark not in "\n".join(lines)
        assert "\\input" not in typeset.latex(table)
        checked(typeset.latex(table).encode())


def rows(domain: str, algorithm: str = "ERM") -> list[dict[str, Any]]:
    return [
        {"step": t, "accuracy": 0.8, "nll": 1 / (t + 1), "cwece": 0.1, "domain": domain,
         "algorithm": algorithm, "dataset": "mine"}
        for t in range(3)
    ]  # fmt: skip


def test_a_hostile_name_is_refused_or_read() -> None:
    """A domain or metric is refused where it cannot be printed on a line, and read elsewhere."""
    facts: dict[str, Any] = {"steps": [1], "values": {"accuracy": [[0.5]]}}
    for name in filter(is_plain, HOSTILE):
        assert cw.Trajectory(domains=[name], **facts).digest
        assert cw.RunKey(name, name, (name,), 0, 0).dataset == name
    for name in (name for name in HOSTILE if not is_plain(name)):
        with refused("value"):
            cw.Trajectory(domains=[name], **facts)
        with refused("value"):
            cw.Trajectory(steps=[1], domains=["v"], values={"accuracy": [[0.5]], name: [[0.5]]})
        with refused("value"):
            cw.RunKey("PACS", name, (), 0, 0)


@pytest.mark.usefixtures("commands")
def test_select_prints_hostile_names_as_text(tmp_path: Path) -> None:
    table = tmp_path / "runs.jsonl"
    outputs: tuple[list[Any], ...] = ([], ["--json"], ["--out", tmp_path / "out.csv"])
    for extra in outputs:
        for name in (HOSTILE[0], HOSTILE[3], HOSTILE[5], HOSTILE[11]):
            table.write_text("".join(json.dumps(row) + "\n" for row in rows(name, name)))
            code, printed, error = forked("select", table, *extra)
            assert code == (0 if is_plain(name) else 2), error
            checked(printed)
            assert checked(error).count("\n") <= 1


@pytest.mark.usefixtures("commands")
def test_file_names_that_are_no_text_do_not_stop_a_command(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/run-\xff\x1b[31m"))
    odd.mkdir()
    (odd / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows("photo")))
    for arguments in (
        ["select", odd / "log.jsonl"],
        ["select", odd / "log.jsonl", "--json"],
        ["select", tmp_path],
        ["select", odd],
        ["select", odd / "absent"],
        ["study", "report", odd / "log.jsonl", "-o", odd / "page.html"],
        ["study", "status", odd, "--verify"],
    ):
        code, printed, error = forked(*arguments)
        assert code in (0, 2), error
        assert b"Traceback" not in error
        checked(printed)
        checked(error)


def test_an_encoding_without_the_characters_does_not_stop_a_command(tmp_path: Path) -> None:
    table = tmp_path / "log.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows("Zürich 雪")))
    done = run("select", table, "--rule", "ac-nll", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr


def hostile_cohort(path: Path) -> Path:
    """The tiny cohort, its algorithms called what an attacker would call them."""
    names = {"ERM": "=cmd|' /C calc'!A0", "IRM": "[x](https://a.example) <b>\u202e`[red]"}
    runs = [
        replace(run, key=replace(run.key, algorithm=names.get(run.key.algorithm, "@SUM(1)|*x*")))
        for run in tiny_runs()
    ]
    return write_cohort(path, runs, name="\u202e[red]|=1+1")


def test_names_of_a_cohort_are_text_in_everything_that_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cohort = hostile_cohort(tmp_path / "cohort")
    for arguments in (
        ["study", "status", cohort, "--verify"],
        ["select", cohort],
        ["select", cohort, "--out", tmp_path / "chosen.csv"],
        ["study", "compare", cohort, "--by", "algorithm", "--out", tmp_path / "compared.csv"],
        ["study", "report", cohort, "--tables", tmp_path / "tables"],
        ["study", "report", cohort, "-o", tmp_path / "page.html"],
    ):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert ended.value.code in (0, 1) or arguments[0] == "status", said.err
        checked(said.out.encode())
        checked(said.err.encode())
    for path in [*tmp_path.glob("*.csv"), *(tmp_path / "tables").rglob("*.csv")]:
        for row in csv.reader(io.StringIO(path.read_text(), newline="")):
            for cell in row:
                assert not cell.startswith(("=", "+", "-", "@")) or is_number(cell), (path, cell)
    for path in (tmp_path / "tables").rglob("*.md"):
        text = checked(path.read_bytes())
        assert "](https" not in text
        assert "<b>" not in text
    for path in (tmp_path / "tables").rglob("*.tex"):
        checked(path.read_bytes())
    assert "<b>\u202e" not in (tmp_path / "page.html").read_text()
