"""``compare`` and ``report`` as a user meets them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.stats

from checkwise.cli import printing
from checkwise.cli.command import names as listed
from checkwise.records import RunKey
from checkwise.store import write_text
from checkwise.study import Cohort
from tests.cli.calls import answer, heard, otherwise, refusal, run, said
from tests.refusals import names
from tests.study.cohorts import tiny_runs, write_cohort


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_cohort(tmp_path / "tiny", tiny_runs())


def test_compare_prints_the_table_and_what_it_means(folder: Path) -> None:
    lines = said("study", "compare", folder).splitlines()
    nll = next(line for line in lines if "target NLL" in line)
    assert nll.split() == ["ac-nc", "target", "NLL", "3", "−0.133", "[−0.300,", "0.000]", "2/1/0"]
    accuracy = next(line for line in lines if "target accuracy" in line)
    assert accuracy.split()[-1] == "33%"
    text = "\n".join(lines)
    assert "development data; 1 unfinished and 0 diverged runs left out" in text
    assert lines[0].startswith("No difference shown: NLL −0.133 [−0.300, 0.000], accuracy +0.33 ")
    assert "by unit" not in text
    assert "\nac-nc: not registered before held-out results were opened" in text


def test_units_stand_beside_only_where_they_are_asked_for(folder: Path) -> None:
    text = said("study", "compare", folder, "--units")
    nll = next(line for line in text.splitlines() if "target NLL" in line)
    assert nll.split()[-2:] == ["2/1/0", "−0.100"]  # the median
    assert "\nThere are too few blocks (2), draws (1), splits (2) and domains (1) to say" in text


def test_the_table_has_at_most_fifteen_lines_and_eight_columns(folder: Path) -> None:
    rules = "ac-nc,ac-nll,ac-ece,pure-nll,pure-cwece,last,ac-early,ac-mean,ac-cwece"
    _, head, rest = said("study", "compare", folder, "--rules", rules).split("\n\n")
    header, *lines = head.splitlines()
    assert len(lines) == 15
    assert len(re.split(r"\s{2,}", header.strip())) <= 8
    assert {line.split()[2] for line in lines} == {"NLL", "accuracy"}
    assert rest.startswith("21 lines more: --units")
    assert rest.count("not registered") == 1  # the same is true of all of them
    assert run("study", "compare", folder, "--rules", rules, "--units") == 0
    assert len(heard().out.split("\n\n")[1].splitlines()) == 1 + 36


@pytest.mark.parametrize("width", [80, 200])
def test_no_number_is_cut(width: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "WIDE", width)
    table = said("study", "compare", folder, "--rules", "ac-nc,pure-nll").split("\n\n")[1]
    assert max(len(line) for line in table.splitlines()) <= width
    assert "…" not in table
    words = table.split()
    assert words.count("pure-nll") == 4
    assert words.count("[−0.300,") >= 1


def test_a_table_too_wide_for_any_terminal_is_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "WIDE", 40)
    table = said("study", "compare", folder, "--by", "algorithm").split("\n\n")[0]
    assert "…" not in table
    assert "algorithm" in table.split()


def test_json_is_stable_and_strict(folder: Path) -> None:
    assert (
        run("study", "compare", folder, "--rules", "ac-nc,ac-mean", "--by", "algorithm", "--json")
        == 0
    )

    def refuse(name: str) -> Any:
        raise AssertionError(name)

    found = json.loads(heard().out, parse_constant=refuse)
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


def test_every_row_has_its_intervals_by_unit(folder: Path, tmp_path: Path) -> None:
    assert run("study", "compare", folder, "--json", "--out", tmp_path / "t.csv") == 0
    rows = json.loads(heard().out)["contrasts"]
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


def test_the_tolerance_reaches_the_rule(folder: Path) -> None:
    found = answer("study", "compare", folder, "--delta-pp", "0.4")
    assert {row["mean"] for row in found["contrasts"]} == {0.0}


REFUSED = {
    "study compare STUDY --rules source-acc": "source-acc",
    "study compare STUDY --rules best": "'best' … `checkwise rules`",
    "study compare STUDY --rules source-ac": "'source-ac' … source-acc",
    "study compare STUDY --delta-pp wide": "delta_pp … 'wide'",
    "study compare STUDY --role evaluation": "development",
    "study compare STUDY --metrics ''": "--metrics … one",
    "study compare STUDY --out table.xlsx": "-o … table.xlsx",
    "study report STUDY --tables OUT --only ''": "--only … at least one",
}


def test_bad_input_is_one_line(folder: Path, tmp_path: Path) -> None:
    assert not otherwise(REFUSED, STUDY=folder, OUT=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_records_are_not_written_over(folder: Path) -> None:
    """Neither the files of a study, nor a folder among them."""
    inside = next((folder / "runs").iterdir())
    records = ["cohort.json", "registrations.jsonl", "derived/x.json"]
    records += [f"runs/{inside.name}/{name}" for name in ("run.json", "heldout/x.json")]
    for place in records:
        (folder / place).parent.mkdir(exist_ok=True)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for place, command in product(records, ("compare", "report")):
        said = refusal("study", command, folder, "-o", folder / place)
        assert "which records a run" in said
    for place in (
        "",
        "runs",
        "runs/new",
        *(f"runs/{inside.name}{x}" for x in ("", "/new", "/heldout")),
    ):
        for option in ("--tables", "--figures"):
            said = refusal("study", "report", folder, option, folder / place)
            assert f"{folder / place} is a study's or a run's" in said
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("option", "name", "file"),
    [("--tables", "paper", "paper.csv")]
    + [("--tables", "main", f"all/{file}") for file in ("main.csv", "tables.md")]
    + [("--figures", "tolerance", f"tolerance.{kind}") for kind in ("pdf", "png")],
)
def test_a_link_to_a_record_is_not_written_through(
    folder: Path, tmp_path: Path, option: str, name: str, file: str
) -> None:
    out = tmp_path / "out"
    (out / file).parent.mkdir(parents=True)
    journal = next(folder.glob("runs/*/source.jsonl"))
    before = journal.read_bytes()
    (out / file).symlink_to(journal)
    assert f"{file}, which is a link to a run's records" in refusal(
        "study", "report", folder, option, out, "--only", name
    )
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


MARGINS = {
    "accuracy=0.5": "gap_pp, source_accuracy",
    "target_banana=0.5": "'target_banana'",
    "target_accuracy=-0.5": "0",
    "target_accuracy=0": "0",
    "target_accuracy=nan": "nan … target_accuracy",
    "target_accuracy=inf --only main": "inf … target_accuracy",
}


def test_a_margin_that_means_nothing_is_refused_at_once(folder: Path, tmp_path: Path) -> None:
    report = "study report STUDY --tables OUT --margin"
    lines = {f"{report} {margin}": said for margin, said in MARGINS.items()}
    assert not otherwise(lines, STUDY=folder, OUT=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not (folder / "registrations.jsonl").exists()  # nothing was opened


def test_results_may_lie_beside_the_records(folder: Path) -> None:
    for _ in range(2):
        assert run("study", "compare", folder, "--out", folder / "table.json") == 0
    assert run("select", folder / "runs", "--out", folder / "runs" / "choices.csv") == 0


def test_a_folder_without_a_cohort_is_one_line(tmp_path: Path) -> None:
    assert "cohort.json" in refusal("study", "compare", tmp_path)


def test_report_writes_the_page_of_a_cohort(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "new" / "report.html"
    assert str(page) in said("study", "report", folder, "-o", page, "--rules", "ac-nll")
    assert "ac-nll" in page.read_text("utf-8")


@pytest.mark.parametrize("command", ["report", "compare"])
def test_a_pipe_is_not_replaced(command: str, folder: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    assert f"Expected a file to write, but {pipe} is a pipe: choose" in refusal(
        "study", command, folder, "-o", pipe
    )
    assert pipe.is_fifo()


def test_report_writes_the_target_of_a_link(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.html"
    link.symlink_to(tmp_path / "page.html")
    assert run("study", "report", folder, "-o", link) == 0
    assert link.is_symlink()
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("what", ["a table", "the folder of a run", "a folder of runs"])
def test_a_page_of_a_run_is_that_of_select(what: str, folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "run.csv"
    write_text(table, "step,accuracy,nll,cwece,n\n100,0.9,0.7,0.02,1000\n200,0.895,0.4,0.01,1000\n")
    runs = folder / "runs"
    places = {"a table": table, "the folder of a run": next(runs.iterdir())}
    path = places.get(what, runs)
    assert names(
        f"checkwise select {path} --page",
        refusal("study", "report", path, "-o", tmp_path / "run.html"),
    )
    assert not (tmp_path / "run.html").exists()


REPORTS = {
    "study report STUDY": "-o … --tables … --figures",
    "study report STUDY --tables OUT/t --open": "-o … --open",
    "study report STUDY STUDY -o OUT/p.html": "-o … 2",
    "study report STUDY --tables OUT/t --figures OUT/f --only main": "--only … --figures",
    "study report STUDY -o OUT/p.html --only main": "'main'",
    "study report STUDY -o OUT/p.html --tables OUT/t --weights sample": "--weights",
    "study report STUDY -o OUT/p.html --tables OUT/t --rules ac-mean": "ac-mean",
}


def test_a_report_that_cannot_be_opens_nothing(folder: Path, tmp_path: Path) -> None:
    assert not otherwise(REPORTS, STUDY=folder, OUT=tmp_path)
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
    assert listed(" a, b ,") == ("a", "b")


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


def test_many_places_are_the_unit(tmp_path: Path) -> None:
    folder = places(tmp_path / "places", 7)
    (row,) = answer("study", "compare", folder, "--metrics", "target_nll")["contrasts"]
    assert (row["over"], row["places"]["places"]) == ("places", 7)
    assert (row["low"], row["high"]) == (row["places"]["low"], row["places"]["high"])
    assert row["places"]["new_low"] < row["low"] < row["mean"] < row["high"]
    assert len(row["over_runs"]) == 2
    text = said("study", "compare", folder, "--units")
    assert "7 places" in text
    assert "95%, a new place" in text
    assert "At a new place of the same kind, expect target NLL" in text
    out = tmp_path / "rows.csv"
    assert run("study", "compare", folder, "-o", out) == 0
    assert {"place_low", "place_new_high", "run_low", "over"} <= {*pandas.read_csv(out)}


def test_few_places_are_the_unit_and_single_runs_stand_beside(tmp_path: Path) -> None:
    text = said("study", "compare", places(tmp_path / "places", 4), "--units")
    assert "95% over runs" in text
    assert " 4 domains " in text
    assert "There are only 4 held-out domains" in text
    changes = np.array([0.0, 0.1, 0.2, 0.3])  # as `places` writes them
    half = scipy.stats.t(3).ppf(0.975) * changes.std(ddof=1) * np.sqrt(1 + 1 / 4)
    low, high = (f"{end:.3f}".replace("-", "−") for end in (0.15 - half, 0.15 + half))
    assert "95%, a new place" in text
    assert (
        f"At a new place of the same kind, expect target NLL to change by +0.150 [{low}, {high}] "
        "(95%, from 4 domains;" in text
    )


def test_two_places_say_nothing_of_a_new_one(tmp_path: Path) -> None:
    assert "new place" not in said("study", "compare", places(tmp_path / "places", 2), "--units")


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
    tmp_path: Path, metrics: str, lines: list[str]
) -> None:
    folder = places(tmp_path / "places", 4)
    text = said("study", "compare", folder, "--metrics", metrics, "--units")
    assert re.findall(r"^(.+?) [+−]?[0-9.]+(?: points)?, by unit: ", text, re.MULTILINE) == lines
    answers = re.findall(r"^[A-Z][\w ]+: (\w+) [+−]?\d", text, re.MULTILINE)
    assert [f"target {answer}" for answer in answers] == lines[:1]
    assert ("are not independent" in text) == bool(lines)


def test_seeds_that_no_two_runs_share_are_single_runs(tmp_path: Path) -> None:
    folder = places(tmp_path / "places", 4)
    text = said("study", "compare", folder, "--metrics", "target_nll", "--units")
    (line,) = [line for line in text.splitlines() if "by unit" in line]
    interval = scipy.stats.ttest_1samp([0.0, 0.1, 0.2, 0.3], 0).confidence_interval(0.95)
    low, high = (f"{end:.3f}".replace("-", "−") for end in interval)
    assert line == (
        f"target NLL +0.150, by unit: 4 single runs [{low}, {high}], 4 domains [{low}, {high}]."
    )
    # The percentile interval of four runs is above zero, Student's is not.
    assert f"No difference shown: NLL +0.150 [{low}, {high}]." in text
