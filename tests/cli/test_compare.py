"""``compare`` and ``report`` as a user meets them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.stats

from checkwise.cli import main, options, printing
from checkwise.records import RunKey
from checkwise.store import write_text
from checkwise.study import Cohort
from tests.refusals import names
from tests.study.cohorts import tiny_runs, write_cohort


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_cohort(tmp_path / "tiny", tiny_runs())


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_compare_prints_the_table_and_what_it_means(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("study", "compare", folder) == 0
    lines = capsys.readouterr().out.splitlines()
    nll = next(line for line in lines if "target NLL" in line)
    assert nll.split() == [
        "ac-nc",
        "target",
        "NLL",
        "3",
        "−0.133",
        "[−0.300,",
        "0.000]",
        "2/1/0",
    ]
    accuracy = next(line for line in lines if "target accuracy" in line)
    assert accuracy.split()[-1] == "33%"
    text = "\n".join(lines)
    assert "development data; 1 unfinished and 0 diverged runs left out" in text
    assert lines[0].startswith("No difference shown: NLL −0.133 [−0.300, 0.000], accuracy +0.33 ")
    assert "by unit" not in text
    assert "\nac-nc: not registered before held-out results were opened" in text


def test_units_stand_beside_only_where_they_are_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("study", "compare", folder, "--units") == 0
    text = capsys.readouterr().out
    nll = next(line for line in text.splitlines() if "target NLL" in line)
    assert nll.split()[-2:] == ["2/1/0", "−0.100"]  # the median
    assert "\nThere are too few blocks (2), draws (1), splits (2) and domains (1) to say" in text


def test_the_table_has_at_most_fifteen_lines_and_eight_columns(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = "ac-nc,ac-nll,ac-ece,pure-nll,pure-cwece,last,ac-early,ac-mean,ac-cwece"
    assert run("study", "compare", folder, "--rules", rules) == 0
    _, head, rest = capsys.readouterr().out.split("\n\n")
    header, *lines = head.splitlines()
    assert len(lines) == 15
    assert len(re.split(r"\s{2,}", header.strip())) <= 8
    assert {line.split()[2] for line in lines} == {"NLL", "accuracy"}
    assert rest.startswith("21 lines more: --units")
    assert rest.count("not registered") == 1  # the same is true of all of them
    assert run("study", "compare", folder, "--rules", rules, "--units") == 0
    assert len(capsys.readouterr().out.split("\n\n")[1].splitlines()) == 1 + 36


@pytest.mark.parametrize("width", [80, 200])
def test_no_number_is_cut(
    width: int,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(printing, "WIDE", width)
    assert run("study", "compare", folder, "--rules", "ac-nc,pure-nll") == 0
    table = capsys.readouterr().out.split("\n\n")[1]
    assert max(len(line) for line in table.splitlines()) <= width
    assert "…" not in table
    words = table.split()
    assert words.count("pure-nll") == 4
    assert words.count("[−0.300,") >= 1


def test_a_table_too_wide_for_any_terminal_is_whole(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "WIDE", 40)
    assert run("study", "compare", folder, "--by", "algorithm") == 0
    table = capsys.readouterr().out.split("\n\n")[0]
    assert "…" not in table
    assert "algorithm" in table.split()


def test_json_is_stable_and_strict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run("study", "compare", folder, "--rules", "ac-nc,ac-mean", "--by", "algorithm", "--json")
        == 0
    )

    def refuse(name: str) -> Any:
        raise AssertionError(name)

    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert {k: found[k] for k in ("schema", "cohort", "role", "reference", "runs")} == {
        "schema": 2,
        "cohort": "tiny",
        "role": "development",
        "reference": "source-acc",
        "runs": 3,
    }
    assert len(found["contrasts"]) == 2 * 2 * 4
    alone = [row for row in found["contrasts"] if row["algorithm"] == "IRM"]
    assert {row["low"] for row in alone} == {None}


def test_every_row_has_its_intervals_by_unit(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("study", "compare", folder, "--json", "--out", tmp_path / "t.csv") == 0
    rows = json.loads(capsys.readouterr().out)["contrasts"]
    nll = next(row for row in rows if row["metric"] == "target_nll")
    groups = {unit: found["groups"] for unit, found in nll["units"].items()}
    assert groups == {"block": 2, "draw": 1, "trial": 2, "domain": 1, "block_domain": 1}
    assert nll["units"]["draw"] == {"groups": 1, "low": None, "high": None, "p": None}
    seeds = {name: nll[f"seed_{name}"] for name in ("groups", "low", "high")}
    assert seeds == {name: nll["units"]["block"][name] for name in seeds}
    written = pandas.read_csv(tmp_path / "t.csv").set_index("metric").loc["target_nll"]
    frame = Cohort.open(folder).compare().set_index("metric").loc["target_nll"]
    for table in (written, frame):
        assert (table["trial_low"], table["seed_high"]) == pytest.approx(
            (nll["units"]["trial"]["low"], nll["seed_high"])
        )
        assert pandas.isna(table["domain_low"])


def test_the_table_can_be_written(folder: Path, tmp_path: Path) -> None:
    assert run("study", "compare", folder, "--out", tmp_path / "t.csv") == 0
    table = pandas.read_csv(tmp_path / "t.csv").set_index("metric")
    expected = Cohort.open(folder).compare(["ac-nc"]).set_index("metric")
    assert table["mean"].to_dict() == expected["mean"].to_dict()
    assert run("study", "compare", folder, "--out", tmp_path / "t.json") == 0
    assert json.loads((tmp_path / "t.json").read_text())["schema"] == 2


def test_the_tolerance_reaches_the_rule(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("study", "compare", folder, "--delta-pp", "0.4", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["mean"] for row in found["contrasts"]} == {0.0}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rules", "source-acc"), "source-acc"),
        (("--rules", "best"), "'best' … `checkwise rules`"),
        (("--rules", "source-ac"), "'source-ac' … source-acc"),
        (("--delta-pp", "wide"), "--delta-pp … 'wide'"),
        (("--role", "evaluation"), "development"),
        (("--metrics", ""), "--metrics … one"),
        (("--out", "table.xlsx"), "-o … table.xlsx"),
    ],
)
def test_bad_input_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert run("study", "compare", folder, *arguments) == 2
    complaint = capsys.readouterr().err
    assert names(said, complaint)
    assert complaint.count("\n") == 1


def test_tables_have_to_be_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("study", "report", folder, "--tables", tmp_path / "out", "--only", "") == 2
    assert names("--only … one table", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "place",
    ["cohort.json", "registrations.jsonl", "derived/x.json", "RUN/run.json", "RUN/heldout/x.json"],
)
@pytest.mark.parametrize("command", ["compare", "report"])
def test_records_are_not_written_over(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, place: str
) -> None:
    run_folder = next(path for path in (folder / "runs").iterdir())
    out = folder / place.replace("RUN", f"runs/{run_folder.name}")
    out.parent.mkdir(exist_ok=True)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert run("study", command, folder, "-o", out) == 2
    assert "which records a run" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("option", ["--tables", "--figures"])
@pytest.mark.parametrize("place", ["", "runs", "runs/new", "RUN", "RUN/new", "RUN/heldout"])
def test_folders_of_results_are_not_among_the_records(
    folder: Path, capsys: pytest.CaptureFixture[str], option: str, place: str
) -> None:
    run_folder = next(path for path in (folder / "runs").iterdir())
    out = folder / place.replace("RUN", f"runs/{run_folder.name}")
    before = sorted(folder.rglob("*"))
    assert run("study", "report", folder, option, out) == 2
    assert f"{out} is a study's or a run's" in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("option", "name", "file"),
    [("--tables", "paper", "paper.csv")]
    + [("--tables", "main", f"all/{file}") for file in ("main.csv", "tables.md")]
    + [("--figures", "tolerance", f"tolerance.{kind}") for kind in ("pdf", "png")],
)
def test_a_link_to_a_record_is_not_written_through(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    name: str,
    file: str,
) -> None:
    out = tmp_path / "out"
    (out / file).parent.mkdir(parents=True)
    journal = next(folder.glob("runs/*/source.jsonl"))
    before = journal.read_bytes()
    (out / file).symlink_to(journal)
    assert run("study", "report", folder, option, out, "--only", name) == 2
    assert f"{file}, which is a link to a run's records" in capsys.readouterr().err
    assert journal.read_bytes() == before
    assert [path for path in out.rglob("*") if not path.is_dir()] == [out / file]
    (out / file).unlink()
    (out / file).symlink_to(tmp_path / "elsewhere")
    assert run("study", "report", folder, option, out, "--only", name) == 0
    assert (tmp_path / "elsewhere").stat().st_size > 0


def test_tables_may_lie_in_a_folder_of_their_own_in_the_cohort(folder: Path) -> None:
    for name in ("results", "derived"):
        assert run("study", "report", folder, "--tables", folder / name, "--only", "paper") == 0
        assert (folder / name / "paper.md").is_file()


@pytest.mark.parametrize("only", [(), ("--only", "main")])
@pytest.mark.parametrize(
    ("margin", "said"),
    [
        ("accuracy=0.5", "gap_pp, source_accuracy"),
        ("target_banana=0.5", "'target_banana'"),
        ("target_accuracy=-0.5", "0"),
        ("target_accuracy=0", "0"),
        ("target_accuracy=nan", "nan … target_accuracy"),
        ("target_accuracy=inf", "inf … target_accuracy"),
    ],
)
def test_a_margin_that_means_nothing_is_refused_at_once(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    only: tuple[str, ...],
    margin: str,
    said: str,
) -> None:
    out = tmp_path / "out"
    assert run("study", "report", folder, "--tables", out, "--margin", margin, *only) == 2
    assert names(said, capsys.readouterr().err)
    assert not out.exists()
    assert not (folder / "registrations.jsonl").exists()  # nothing was opened


def test_results_may_lie_beside_the_records(folder: Path) -> None:
    for _ in range(2):
        assert run("study", "compare", folder, "--out", folder / "table.json") == 0
    assert run("select", folder / "runs", "--out", folder / "runs" / "choices.csv") == 0


def test_a_folder_without_a_cohort_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("study", "compare", tmp_path) == 2
    assert "cohort.json" in capsys.readouterr().err


def test_report_writes_the_page_of_a_cohort(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "new" / "report.html"
    assert run("study", "report", folder, "-o", page, "--rules", "ac-nll") == 0
    assert str(page) in capsys.readouterr().out
    assert "ac-nll" in page.read_text("utf-8")


@pytest.mark.parametrize("command", ["report", "compare"])
def test_a_pipe_is_not_replaced(
    command: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    assert run("study", command, folder, "-o", pipe) == 2
    assert f"Expected a file to write, but {pipe} is a pipe: choose" in capsys.readouterr().err
    assert pipe.is_fifo()


def test_report_writes_the_target_of_a_link(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.html"
    link.symlink_to(tmp_path / "page.html")
    assert run("study", "report", folder, "-o", link) == 0
    assert link.is_symlink()
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("what", ["a table", "the folder of a run", "a folder of runs"])
def test_a_page_of_a_run_is_that_of_select(
    what: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "run.csv"
    write_text(table, "step,accuracy,nll,cwece,n\n100,0.9,0.7,0.02,1000\n200,0.895,0.4,0.01,1000\n")
    runs = folder / "runs"
    places = {"a table": table, "the folder of a run": next(runs.iterdir())}
    path = places.get(what, runs)
    assert run("study", "report", path, "-o", tmp_path / "run.html") == 2
    assert names(f"checkwise select {path} --page", capsys.readouterr().err)
    assert not (tmp_path / "run.html").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "-o … --tables … --figures"),
        (("--tables", "T", "--open"), "-o … --open"),
        (("again", "-o", "P"), "-o … 2"),
        (("--tables", "T", "--figures", "F", "--only", "main"), "--only … --figures"),
        (("-o", "P", "--only", "main"), "'main'"),
        (("-o", "P", "--tables", "T", "--weights", "sample"), "--weights"),
        (("-o", "P", "--tables", "T", "--rules", "ac-mean"), "ac-mean"),
    ],
)
def test_a_report_that_cannot_be_opens_nothing(
    words: tuple[str, ...],
    said: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"T": tmp_path / "t", "F": tmp_path / "f", "P": tmp_path / "p.html", "again": folder}
    assert run("study", "report", folder, *(places.get(word, word) for word in words)) == 2
    assert names(said, capsys.readouterr().err)
    assert not (folder / "registrations.jsonl").exists()


def test_one_report_has_the_page_tables_and_figures(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--tables", out, "--figures", out, "-o", out / "page.html", "--rules", "ac-nll,ac-nc"]
    only = ["--only", "paper,main,tolerance"]
    assert run("study", "report", folder, *words, *only) == 0
    written = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    tables = {"paper", "all/main", "all/tolerance"}
    assert written == {
        *("page.html", "all/tables.md", "tolerance.pdf", "tolerance.png"),
        *(f"{name}.{kind}" for name in tables for kind in ("md", "csv", "tex")),
    }


def test_the_table_for_a_paper_has_a_row_a_rule_and_one_interval_a_metric(
    folder: Path, tmp_path: Path
) -> None:
    assert run("study", "report", folder, "--tables", tmp_path, "--only", "paper") == 0
    found = pandas.read_csv(tmp_path / "paper.csv")
    assert list(dict.fromkeys(found["rule"])) == ["ac-nc", "ac-nll", "ac-mean"]
    assert len(found) == 3 * 4
    for row in Cohort.open(folder).contrasts(["ac-nc", "ac-nll", "ac-mean"]):
        (cell,) = found[(found["rule"] == row.rule) & (found["measure"] == row.metric)].itertuples()
        assert (cell.value, cell.low, cell.high) == pytest.approx((row.mean, row.low, row.high))
    header = (tmp_path / "paper.md").read_text().partition("\n| ")[2].partition("\n")[0]
    assert header.count("|") <= 8


def test_names_are_split_at_commas() -> None:
    assert options.names(" a, b ,") == ["a", "b"]
    assert options.names(None) == []


def places(path: Path, count: int) -> Path:
    """A run for each of so many held-out places, with a change of its own."""
    runs = [
        replace(
            tiny_runs()[0],
            key=RunKey("traps", "ERM", (f"place{i}",), 1, i),
            target={"nll": (2.0, 2.0 + 0.1 * i, 1.0), "cwece": (0.1, 0.1, 0.1)},
        )
        for i in range(count)
    ]
    return write_cohort(path, runs)


def test_many_places_are_the_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = places(tmp_path / "places", 7)
    assert run("study", "compare", folder, "--metrics", "target_nll", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["contrasts"]
    assert (row["over"], row["places"]["places"]) == ("places", 7)
    assert (row["low"], row["high"]) == (row["places"]["low"], row["places"]["high"])
    assert row["places"]["new_low"] < row["low"] < row["mean"] < row["high"]
    assert len(row["over_runs"]) == 2
    assert run("study", "compare", folder, "--units") == 0
    said = capsys.readouterr().out
    assert "7 places" in said
    assert "95%, a new place" in said
    assert "At a new place of the same kind, expect target NLL" in said
    out = tmp_path / "rows.csv"
    assert run("study", "compare", folder, "-o", out) == 0
    assert {"place_low", "place_new_high", "run_low", "over"} <= {*pandas.read_csv(out)}


def test_few_places_are_the_unit_and_single_runs_stand_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("study", "compare", places(tmp_path / "places", 4), "--units") == 0
    said = capsys.readouterr().out
    assert "95% over runs" in said
    assert " 4 domains " in said
    assert "There are only 4 held-out domains" in said
    changes = np.array([0.0, 0.1, 0.2, 0.3])  # as `places` writes them
    half = scipy.stats.t(3).ppf(0.975) * changes.std(ddof=1) * np.sqrt(1 + 1 / 4)
    low, high = (f"{end:.3f}".replace("-", "−") for end in (0.15 - half, 0.15 + half))
    assert "95%, a new place" in said
    assert (
        f"At a new place of the same kind, expect target NLL to change by +0.150 [{low}, {high}] "
        "(95%, from 4 domains;" in said
    )


def test_two_places_say_nothing_of_a_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("study", "compare", places(tmp_path / "places", 2), "--units") == 0
    assert "new place" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("metrics", "lines"),
    [
        ("target_nll", ["target NLL"]),
        ("target_accuracy,gap_pp", ["target accuracy"]),
        ("target_ece", ["target ECE"]),
        ("target_cwece,target_nll", ["target NLL", "target CwECE"]),
        ("gap_pp", []),
    ],
)
def test_the_deciding_units_of_every_target_metric_shown_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], metrics: str, lines: list[str]
) -> None:
    folder = places(tmp_path / "places", 4)
    assert run("study", "compare", folder, "--metrics", metrics, "--units") == 0
    said = capsys.readouterr().out
    assert re.findall(r"^(.+?) [+−]?[0-9.]+(?: points)?, by unit: ", said, re.MULTILINE) == lines
    answers = re.findall(r"^[A-Z][\w ]+: (\w+) [+−]?\d", said, re.MULTILINE)
    assert [f"target {answer}" for answer in answers] == lines[:1]
    assert ("are not independent" in said) == bool(lines)


def test_seeds_that_no_two_runs_share_are_single_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = places(tmp_path / "places", 4)
    assert run("study", "compare", folder, "--metrics", "target_nll", "--units") == 0
    said = capsys.readouterr().out
    (line,) = [line for line in said.splitlines() if "by unit" in line]
    interval = scipy.stats.ttest_1samp([0.0, 0.1, 0.2, 0.3], 0).confidence_interval(0.95)
    low, high = (f"{end:.3f}".replace("-", "−") for end in interval)
    assert line == (
        f"target NLL +0.150, by unit: 4 single runs [{low}, {high}], 4 domains [{low}, {high}]."
    )
    # The percentile interval of four runs is above zero, Student's is not.
    assert f"No difference shown: NLL +0.150 [{low}, {high}]." in said
