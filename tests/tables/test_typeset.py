"""Tables as Markdown, CSV and LaTeX, and the command that writes them."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest

from checkwise.cli import main
from checkwise.study.tables import Table, latex, markdown
from checkwise.study.tables.table import Cell
from checkwise.study.tables.typeset import column_title, shown_cell, tex, wide
from tests.study.cohorts import tiny_runs, write_cohort

CELLS = (
    Cell(("PACS", "ac_nc|x"), "target_accuracy", 1.234, 36, "development", 100, -0.5, 2.0, 7),
    Cell(("PACS", "ac_nc|x"), "target_nll", -0.00001, 35, "development"),
    Cell(("PACS", "ac_nc|x"), "whd", 0.5, 9, "development", 100, unit="blocks"),
)
TABLE = Table("made-up", "A & B", ("dataset", "rule"), CELLS, note="Mind η.", signed=True)


def test_numbers_are_signed_and_never_negative_zero() -> None:
    assert shown_cell(CELLS[0], signed=True) == "+1.23 [−0.50, 2.00]"
    assert shown_cell(CELLS[1], signed=True) == "0.0000"
    assert shown_cell(Cell((), "eligible", 2.5, 2, "development"), signed=True) == "2.50"


def test_rows_show_their_n_and_role() -> None:
    found = wide(TABLE)
    assert found.header == ("dataset", "rule", "Target acc.", "Target NLL", "WHD", "runs", "role")
    assert found.rows[0][-2:] == ("35–36", "development")


def test_markdown_keeps_its_columns_whatever_names_hold() -> None:
    lines = markdown(TABLE).splitlines()
    assert lines[4].count("|") - lines[4].count("\\|") == 8
    assert "ac_nc\\|x" in lines[4]
    assert "10,000 with seed 7" in lines[-1]
    assert lines[-1].endswith("Mind η.")


def test_latex_escapes_names_and_uses_booktabs() -> None:
    found = latex(TABLE)
    assert r"\caption{A \& B." in found
    assert r"ac\_nc$|$x" in found
    assert r"\toprule" in found
    assert found.count(r"\\") == 2
    assert tex("50% of {x}") == r"50\% of \{x\}"


def test_titles_are_words() -> None:
    assert column_title("target_nll_median") == "Target NLL median"
    assert column_title("range_source_cwece") == "Source range of CwECE"
    assert column_title("risk_80") == "Error at 80% coverage (%)"


def test_the_command_writes_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_cohort(tmp_path / "tiny", tiny_runs())
    out = tmp_path / "tables"
    with pytest.raises(SystemExit) as stop:
        main(["study", "report", str(path), "--tables", str(out), "--only", "paper,main,losses"])
    assert stop.value.code == 0
    assert "3 tables of 3 runs (tiny)" in capsys.readouterr().out
    assert {str(file.relative_to(out)) for file in out.rglob("*.*")} == {
        "all/tables.md",
        *(
            f"{name}.{kind}"
            for name in ("paper", "all/main", "all/losses")
            for kind in ("md", "csv", "tex")
        ),
    }
    frame = pandas.read_csv(out / "all" / "main.csv")
    assert {"n", "scale", "seed", "role"} <= set(frame)


def test_a_margin_is_a_metric_and_a_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_cohort(tmp_path / "tiny", tiny_runs())
    with pytest.raises(SystemExit) as stop:
        main(
            ["study", "report", str(path), "--tables", str(tmp_path / "t"), "--margin", "accuracy"]
        )
    assert stop.value.code == 2
    assert "METRIC=SIZE" in capsys.readouterr().err


def test_figures_are_drawn_by_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_cohort(tmp_path / "tiny", tiny_runs())
    with pytest.raises(SystemExit) as stop:
        main(
            ["study", "report", str(path), "--figures", str(tmp_path / "f"), "--only", "trajectory"]
        )
    assert stop.value.code == 0
    assert (tmp_path / "f" / "trajectory.png").is_file()
    with pytest.raises(SystemExit) as stop:
        main(["study", "report", str(path), "--figures", str(tmp_path / "f"), "--run", "nope"])
    assert stop.value.code == 2
    assert "PACS-ERM-sketch-h0-t0" in capsys.readouterr().err
