"""Commands on sweeps and tables that other tools wrote."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.cli.calls import answer, heard, refusal, run
from tests.refusals import names
from tests.study.cohorts import demo_like
from tests.study.sweeps import domainbed_sweep, tidy_rows


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return domainbed_sweep(tmp_path / "runs")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = tidy_rows(demo_like(tmp_path / "own", runs_per_algorithm=2))
    pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def test_a_registration_before_the_first_comparison_is_on_time(sweep: Path, tmp_path: Path) -> None:
    registered = answer("study", "register", sweep)
    assert (registered["state"], registered["choice"]["rule"]) == ("before", "ac-early")
    assert registered["choice"]["metrics"] == ["target_accuracy"]
    found = answer("study", "compare", sweep)
    assert found["imported"] is True
    assert found["registered"]["ac-early"]["state"] == "before"
    assert [row["metric"] for row in found["contrasts"]] == ["target_accuracy"]
    assert answer("study", "register", sweep, "--rule", "ac-random")["state"] == "late"
    assert (tmp_path / "runs.cohort" / "cohort.json").is_file()


def test_it_says_where_it_imports_to_and_that_values_lay_open(sweep: Path) -> None:
    assert run("study", "compare", sweep) == 0
    printed = heard()
    assert f"{sweep} is imported into {sweep}.cohort (16 runs)." in printed.err
    assert "cannot show that nobody looked there first" in printed.out
    assert "ac-early is compared because the runs lack metrics that ac-nc needs" in printed.out
    assert run("study", "compare", sweep) == 0
    assert "was imported before" in heard().err


def test_files_that_changed_are_refused_with_what_to_do(sweep: Path, tmp_path: Path) -> None:
    assert run("study", "compare", sweep) == 0
    log = next(sweep.rglob("results.jsonl"))
    log.write_text(log.read_text().replace('"loss": 1.0', '"loss": 2.0'))
    assert "checkwise study import" in refusal("study", "compare", sweep)
    assert run("study", "import", sweep, "-o", tmp_path / "new") == 0


def test_a_rule_without_its_metrics_names_them_and_opens_nothing(sweep: Path) -> None:
    for command in (
        ["study", "compare", sweep, "--rules", "ac-nc"],
        ["study", "register", sweep, "--rule", "ac-nc"],
    ):
        assert names("ac-nc … nll, cwece", refusal(*command))
    assert "'target_nll'" in refusal("study", "register", sweep, "--metrics", "target_nll")
    assert not (sweep.with_name("runs.cohort") / "registrations.jsonl").exists()


def test_a_table_compares_like_the_cohort_it_came_from(table: Path, tmp_path: Path) -> None:
    own, again = (answer("study", "compare", path) for path in (tmp_path / "own", table))
    for row in (*own["contrasts"], *again["contrasts"]):
        del row["seconds"]
    assert again["contrasts"] == own["contrasts"]


def test_tables_figures_and_report(table: Path, sweep: Path, tmp_path: Path) -> None:
    tables, figures = tmp_path / "t", tmp_path / "f"
    assert run("study", "report", table, "--tables", tables, "--only", "main,kendall") == 0
    assert (tables / "all" / "main.md").is_file()
    assert run("study", "report", table, "--figures", figures, "--only", "kendall") == 0
    assert run("study", "report", table, "-o", tmp_path / "table.html") == 0
    assert run("study", "report", sweep, "--tables", tmp_path / "s") == 0  # says what it leaves out
    main = pd.read_csv(tmp_path / "s" / "all" / "main.csv")
    assert set(main["rule"]) == {"source-acc", "ac-early"}
    assert set(main["measure"]) == {"gap_pp", "target_accuracy"}
    paper = pd.read_csv(tmp_path / "s" / "paper.csv")
    assert list(paper["rule"]) == ["ac-early", "ac-mean"]


def test_import_says_what_it_read(sweep: Path, tmp_path: Path) -> None:
    words = ("study", "import", sweep, "--out", tmp_path / "c", "--role", "development")
    assert run(*words) == 0
    printed = heard().out
    assert "16 runs imported into" in printed
    assert "note (16 of 16 runs): this log has accuracies only" in printed
    found = answer("study", "compare", tmp_path / "c")
    assert (found["cohort"], found["role"]) == ("runs", "development")
    assert run("study", "import", sweep, "--out", tmp_path / "c") == 2
    assert run("study", "import", sweep, "--out", tmp_path / "d", "--role", "test") == 2


@pytest.fixture
def unmarked(tmp_path: Path) -> Path:
    """A table of one run that does not say which of its domains is the target."""
    rows = [
        {"step": s, "domain": d, "accuracy": 0.9 - s / 10000, "nll": 1 - s / 1000, "cwece": 0.02}
        for s in (100, 200, 300)
        for d in ("art", "photo", "sketch")
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "run.csv", index=False)
    return tmp_path / "run.csv"


def test_the_report_of_an_imported_table_keeps_its_target_held_out(
    unmarked: Path, tmp_path: Path
) -> None:
    assert run("study", "import", unmarked, "--held-out", "sketch") == 0
    assert run("study", "report", unmarked, "-o", tmp_path / "page.html") == 0
    assert "was imported before" in heard().err
    assert "unseen" in (tmp_path / "page.html").read_text()


def test_what_an_import_holds_out_is_not_read_as_a_source(unmarked: Path, tmp_path: Path) -> None:
    assert run("select", unmarked) == 0
    assert run("study", "import", unmarked, "--held-out", "sketch") == 0
    link = tmp_path / "link.csv"
    link.symlink_to(unmarked)
    for path in (unmarked, link):
        for command in (["select", path], ["select", path, "--copy-to", tmp_path / "w"]):
            heard()
            assert run(*command) == 2
            told = " ".join(heard().err.split())
            assert names("sketch … --held-out sketch", told)
        assert run("select", path, "--held-out", "sketch") == 0
    assert run("select", f"{unmarked}.cohort") == 0


def test_paths_that_can_have_no_cohort_beside_them_are_read_as_ever(
    unmarked: Path, tmp_path: Path
) -> None:
    longest = unmarked.rename(tmp_path / f"{'a' * 251}.csv")
    assert run("select", longest) == 0
    (tmp_path / "loop").symlink_to("loop")
    assert run("select", tmp_path / "loop") == 2
    assert "There is no file or folder" in " ".join(heard().err.split())


def test_columns_that_mark_the_target_are_asked_for_again(tmp_path: Path) -> None:
    rows = [
        {"step": step, "domain": domain, "kind": kind, "accuracy": 0.9}
        for step in (100, 200)
        for domain, kind in (("art", "source"), ("sketch", "target"))
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "run.csv", index=False)
    assert run("study", "import", tmp_path / "run.csv", "--column", "role=kind") == 0
    assert run("select", tmp_path / "run.csv") == 2
    assert "--column role=kind" in " ".join(heard().err.split())


def test_another_import_of_opened_files_says_that_they_were_opened(
    sweep: Path, tmp_path: Path
) -> None:
    assert run("study", "import", sweep, "-o", tmp_path / "a") == 0
    assert "was opened on" not in heard().err
    assert run("study", "compare", sweep) == 0
    heard()
    assert run("study", "import", sweep, "-o", tmp_path / "b") == 0
    told = " ".join(heard().err.split())
    assert "runs.cohort, made of the same files, was opened on" in told


def test_a_link_has_the_cohort_of_what_it_leads_to(sweep: Path, tmp_path: Path) -> None:
    assert run("study", "compare", sweep) == 0
    (tmp_path / "link").symlink_to(sweep)
    assert answer("study", "register", tmp_path / "link")["state"] == "late"


def test_what_is_neither_cohort_nor_log_is_refused_as_before(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for path in (tmp_path / "notes.txt", tmp_path / "absent", tmp_path):
        assert "cohort.json" in refusal("study", "compare", path)
