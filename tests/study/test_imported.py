"""Cohorts made of other people's logs and tables."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import checkwise as cw
from checkwise.errors import CheckwiseWarning, InputError
from checkwise.readers import Request
from checkwise.study import check_unchanged, import_cohort
from checkwise.study.folder import open_cohort, pack, unpack, verify
from checkwise.study.folder.registration import read_log
from checkwise.study.sweep.progress import cohort_status
from tests.readers import samples
from tests.refusals import refused
from tests.study.cohorts import demo_like, tiny_runs, write_cohort
from tests.study.sweeps import domainbed_sweep, read_jsonl, tidy_rows, write_jsonl

TOLERANCE = 0.005 + 1e-9


def imported(path: Path, out: Path, **asked: Any) -> cw.study.Cohort:
    import_cohort(path, out, Request(**asked))
    return cw.study.Cohort.open(out)


def of_rows(folder: Path, rows: list[dict[str, Any]], **asked: Any) -> cw.study.Cohort:
    """A cohort of a table with these rows."""
    return imported(write_jsonl(folder / "table.jsonl", rows), folder / "cohort", **asked)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return domainbed_sweep(tmp_path_factory.mktemp("sweep") / "runs")


def test_accuracy_differences_are_those_of_the_raw_logs(sweep: Path, tmp_path: Path) -> None:
    expected = []
    for log in sweep.rglob("results.jsonl"):
        table = pd.read_json(log, lines=True)
        target = table["args"].iloc[0]["test_envs"][0]
        sources = [f"env{env}_out_acc" for env in range(4) if env != target]
        mean = table[sources].to_numpy().mean(axis=1)
        best = int(mean.argmax())
        early = int(np.flatnonzero(mean >= mean.max() - TOLERANCE)[0])
        held = table[f"env{target}_in_acc"].to_numpy()
        expected.append(100 * (held[early] - held[best]))
    cohort = imported(sweep, tmp_path / "cohort")
    (row,) = cohort.contrasts(["source-acc", "ac-early"], metrics=["target_accuracy"])
    assert row.n == 16
    assert row.mean == pytest.approx(np.mean(expected), abs=1e-12)
    assert row.wins == sum(change > 0 for change in expected)
    assert len(set(expected)) > 5  # the rules do differ


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_our_own_cohort_comes_back_from_a_table(kind: str, tmp_path: Path) -> None:
    own = demo_like(tmp_path / "own", runs_per_algorithm=3)
    rows = tidy_rows(own)
    file = tmp_path / f"table.{kind}"
    if kind == "jsonl":
        write_jsonl(file, rows)
    elif kind == "csv":
        pd.DataFrame(rows).to_csv(file, index=False)
    else:
        pd.DataFrame(rows).to_parquet(file)
    rules = ["source-acc", "ac-nc", "ac-nll", "ac-early", "ac-random", "ac-mean"]
    again = imported(file, tmp_path / "again")
    for was, is_now in zip(
        cw.study.Cohort.open(own).contrasts(rules), again.contrasts(rules), strict=True
    ):
        for fact in ("rule", "metric", "n", "mean", "low", "high", "median", "wins", "missing"):
            assert getattr(is_now, fact) == getattr(was, fact), (was.rule, was.metric, fact)
        assert repr(is_now.units) == repr(was.units)  # nan included


def test_a_table_agrees_with_pandas(tmp_path: Path) -> None:
    rows = tidy_rows(demo_like(tmp_path / "own", runs_per_algorithm=2))
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "table.csv", index=False)
    changes = []
    for _, run in frame.groupby(["algorithm", "held_out", "trial_seed"]):
        source = run[run["role"] == "source"].groupby("step")[["correct", "nll"]].mean()
        target = run[run["role"] == "target"].set_index("step")["nll"].to_dict()
        near = source[source["correct"] >= source["correct"].max() - 5]  # of 1000
        changes.append(target[near["nll"].idxmin()] - target[source["correct"].idxmax()])
    cohort = imported(tmp_path / "table.csv", tmp_path / "cohort")
    (row,) = cohort.contrasts(["source-acc", "ac-nll"], metrics=["target_nll"])
    assert row.n == len(changes) == 10
    assert row.mean == pytest.approx(np.mean(changes), abs=1e-12)


def test_choices_are_those_of_the_logs_themselves(sweep: Path, tmp_path: Path) -> None:
    import_cohort(sweep, tmp_path / "cohort", Request())
    for rule in ("source-acc", "ac-early", "ac-random"):
        raw, again = (
            {key: cw.select(run, rule).step for key, run in cw.load_runs(place).items()}
            for place in (sweep, tmp_path / "cohort")
        )
        assert raw == again


def test_extended_records_keep_names_counts_and_metrics(tmp_path: Path) -> None:
    log = samples.write_lines(tmp_path / "log.jsonl", map(samples.extended, samples.STEPS))
    import_cohort(log, tmp_path / "cohort", Request())
    ((key, run),) = cw.load_runs(tmp_path / "cohort").items()
    raw = cw.load(log)
    assert run.digest == raw.digest
    assert run.counts is not None
    assert run.notes == raw.notes
    (journal,) = cw.study.Cohort.open(tmp_path / "cohort").held_out(key).values()
    logged = [
        next(
            entry
            for entry in samples.extended(step)["per_domain_calibration"]
            if entry["domain_index"] == samples.TARGET and entry["split"] == "in"
        )
        for step in samples.STEPS
    ]
    assert journal["cwece"].tolist() == [entry["classwise_ece"] for entry in logged]
    assert journal["n"].tolist() == [100, 100, 100]
    worst = journal["worst_class_accuracy"]  # the class without examples does not count
    assert worst.tolist() == pytest.approx([0.4 - (2 + s / 100) / 100 - 0.1 for s in samples.STEPS])


def test_swad_logs_keep_the_loss_that_is_a_mean_over_domains(tmp_path: Path) -> None:
    log = samples.write_lines(tmp_path / "log.jsonl", samples.swad_file())
    cohort = imported(log, tmp_path / "cohort")
    assert cohort.usual_rule == "ac-nll"
    assert cohort.main_metrics == ("target_accuracy",)
    raw = {key: cw.select(run, "ac-nll").step for key, run in cw.load_runs(log).items()}
    chosen = cohort.select("ac-nll")
    assert sorted(chosen["step"]) == sorted(raw.values())
    held = cohort.evaluate("source-acc")["target_accuracy"]
    assert held.tolist() == [0.4] * 3  # env{i}_in, as SWAD reports


def test_it_verifies_packs_and_says_how_far_it_is(sweep: Path, tmp_path: Path) -> None:
    import_cohort(sweep, tmp_path / "cohort", Request())
    assert verify(tmp_path / "cohort") == []
    assert {run.state for run in cohort_status(open_cohort(tmp_path / "cohort"))} == {"finished"}
    assert pack(tmp_path / "cohort", tmp_path / "cohort.tar.xz") == 16
    unpack(tmp_path / "cohort.tar.xz", tmp_path / "back")
    assert cw.study.Cohort.open(tmp_path / "back").imported
    journal = next((tmp_path / "cohort").rglob("heldout/*.jsonl"))
    journal.write_text(journal.read_text().replace("0.6", "0.9"))
    (fault,) = verify(tmp_path / "cohort")
    assert fault.kind == "damaged"
    assert fault.do.endswith("or import its log again into a new folder")


def test_runs_know_their_file_and_their_hyperparameters(sweep: Path, tmp_path: Path) -> None:
    import_cohort(sweep, tmp_path / "cohort", Request())
    config = json.loads(
        (tmp_path / "cohort" / "runs" / "PACS-ERM-env2-h1-t0" / "run.json").read_text()
    )["config"]
    assert config["imported"]["file"] == "210f00d/results.jsonl"
    assert len(config["imported"]["sha256"]) == 64
    assert config["hparams"] == {"lr": 2e-4, "nonlinear": False}


def test_importing_leaves_no_mark_and_opening_does(sweep: Path, tmp_path: Path) -> None:
    cohort = imported(sweep, tmp_path / "cohort")
    cohort.select("ac-early")
    assert read_log(tmp_path / "cohort") == []
    cohort.compare(["source-acc", "ac-early"], metrics=["target_accuracy"])
    assert [entry["kind"] for entry in read_log(tmp_path / "cohort")] == ["opened"]


@pytest.mark.parametrize("poison", [0.0, math.nan, None])
def test_source_journals_do_not_depend_on_the_target(
    sweep: Path, tmp_path: Path, poison: float | None
) -> None:
    other = tmp_path / "poisoned"
    for log in sweep.rglob("results.jsonl"):
        records = read_jsonl(log)
        for record in records:
            target = record["args"]["test_envs"][0]
            record[f"env{target}_in_acc"] = record[f"env{target}_out_acc"] = poison
        records[0][f"env{target}_in_acc"] = 0.5  # so that there is something to import
        place = other / log.parent.name
        place.mkdir(parents=True)
        (place / "done").touch()
        write_jsonl(place / "results.jsonl", records)
    for path, out in ((sweep, "clean"), (other, "absurd")):
        import_cohort(path, tmp_path / out, Request())
    for journal in (tmp_path / "clean").rglob("source.jsonl"):
        twin = tmp_path / "absurd" / journal.relative_to(tmp_path / "clean")
        assert twin.read_bytes() == journal.read_bytes()
    clean, absurd = (cw.study.Cohort.open(tmp_path / name) for name in ("clean", "absurd"))
    assert clean.select("ac-early").equals(absurd.select("ac-early"))


KILLED = """
import os, sys
from pathlib import Path
from checkwise.readers.request import Request
from checkwise.study.imported import import_cohort
path, out, runs = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
import_cohort(path, out, Request(), progress=lambda done, _: done >= runs and os._exit(9))
"""


@pytest.mark.parametrize("runs", [1, 16])
def test_a_killed_import_leaves_nothing_that_looks_whole(
    sweep: Path, tmp_path: Path, runs: int
) -> None:
    out = tmp_path / "cohort"
    command = [sys.executable, "-c", KILLED, str(sweep), str(out), str(runs)]
    assert subprocess.run(command).returncode == 9
    assert not out.exists()
    import_cohort(sweep, out, Request())
    assert verify(out) == []
    assert [place.name for place in tmp_path.iterdir()] == ["cohort"]


def test_what_is_there_is_never_overwritten(sweep: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with refused("exists"):
        import_cohort(sweep, tmp_path / "full", Request())
    with refused("outside"):
        import_cohort(sweep, sweep / "cohort", Request())
    import_cohort(sweep, tmp_path / "cohort", Request())
    with refused("exists"):
        import_cohort(sweep, tmp_path / "cohort", Request())


def test_a_cohort_is_used_again_while_its_files_stay(tmp_path: Path) -> None:
    sweep = domainbed_sweep(tmp_path / "runs")
    import_cohort(sweep, tmp_path / "cohort", Request())
    check_unchanged(tmp_path / "cohort", sweep, Request())
    with refused("differs: --held-out"):
        check_unchanged(tmp_path / "cohort", sweep, Request(held_out=("env0",)))
    log = next(sweep.rglob("results.jsonl"))
    log.write_text(log.read_text().replace('"loss": 1.0', '"loss": 2.0'))
    with refused("differs: changed since … study import"):
        check_unchanged(tmp_path / "cohort", sweep, Request())
    own = write_cohort(tmp_path / "own", tiny_runs())
    with refused("differs"):
        check_unchanged(own, sweep, Request())


def rows_of_two_runs() -> list[dict[str, Any]]:
    """Two runs; sketch is the target of the first, sketch and photo are those of the second."""
    return [
        {
            "algorithm": algorithm,
            "step": step,
            "domain": domain,
            "role": "target" if domain in targets else "source",
            "accuracy": 0.5 + step / 1000,
            "nll": 1.0 - step / 1000,
        }
        for algorithm, targets in (("ERM", ("sketch",)), ("IRM", ("photo", "sketch")))
        for step in (0, 100, 200)
        for domain in ("art", "cartoon", "photo", "sketch")
    ]


def test_roles_name_the_held_out_domains_of_every_run(tmp_path: Path) -> None:
    cohort = of_rows(tmp_path, rows_of_two_runs())
    held_out = {key.algorithm: key.held_out for key in cohort.runs}
    assert held_out == {"ERM": ("sketch",), "IRM": ("photo", "sketch")}
    assert len(cohort.evaluate("source-acc")) == 3


def test_the_caller_names_the_target_of_a_table(tmp_path: Path) -> None:
    rows = [{k: v for k, v in row.items() if k != "role"} for row in rows_of_two_runs()]
    with refused("missing: --held-out"):
        of_rows(tmp_path, rows)
    cohort = of_rows(tmp_path, rows, held_out=("sketch",))
    assert {key.held_out for key in cohort.runs} == {("sketch",)}


def test_a_source_that_the_caller_leaves_out_is_no_target(tmp_path: Path) -> None:
    rows = rows_of_two_runs()
    for row in rows:
        row["held_out"] = "sketch" if row["algorithm"] == "ERM" else "photo+sketch"
    cohort = of_rows(tmp_path, rows, held_out=("cartoon",))
    held_out = {key.algorithm: key.held_out for key in cohort.runs}
    assert held_out == {"ERM": ("sketch",), "IRM": ("photo", "sketch")}
    assert {run.domains for run in cohort.runs.values()} == {("art", "photo"), ("art",)}


@pytest.mark.parametrize("gap", [None, math.nan, "no row"])
def test_a_run_without_a_target_value_is_missing_in_the_comparison(
    tmp_path: Path, gap: float | str | None
) -> None:
    rows = rows_of_two_runs()
    last = next(r for r in reversed(rows) if r["domain"] == "sketch")  # what source-acc takes
    if gap == "no row":
        rows.remove(last)
    else:
        last["accuracy"] = gap
    cohort = of_rows(tmp_path, rows)
    (row,) = cohort.contrasts(["source-acc", "ac-early"], metrics=["target_accuracy"])
    assert (row.n, row.missing) == (1, 1)
    assert verify(tmp_path / "cohort") == []


def test_targets_may_have_fewer_metrics_than_sources(tmp_path: Path) -> None:
    rows = rows_of_two_runs()
    for row in rows:
        if row["role"] == "target":
            del row["nll"]
    cohort = of_rows(tmp_path, rows)
    assert (cohort.usual_rule, cohort.main_metrics) == ("ac-nll", ("target_accuracy",))
    with refused("missing: target_nll"):
        cohort.contrasts(["source-acc", "ac-nll"])
    assert read_log(tmp_path / "cohort") == []  # refused before anything was opened


def test_of_a_step_that_was_logged_twice_the_last_record_counts(tmp_path: Path) -> None:
    again = samples.domainbed(100, env2_in_acc=0.25, env0_out_acc=0.99)
    records = [*map(samples.domainbed, samples.STEPS), again]
    cohort = imported(samples.write_lines(tmp_path / "log.jsonl", records), tmp_path / "cohort")
    found = cohort.evaluate("source-acc")
    assert found[["step", "target_accuracy"]].to_numpy().tolist() == [[100, 0.25]]


def with_target(rows: list[dict[str, Any]], **cells: Any) -> list[dict[str, Any]]:
    """The rows with other cells in the first row of a target."""
    first = next(i for i, row in enumerate(rows) if row["role"] == "target")
    return [{**row, **cells} if i == first else row for i, row in enumerate(rows)]


def twice(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*rows, next(row for row in rows if row["role"] == "target")]


def named_like_a_source(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = [{**row, "domain": "all"} for row in rows if row["domain"] != "photo"]
    return [row for row in rows if row["algorithm"] == "ERM"][::2]


def sharing_a_folder(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "dataset": d} for row in rows for d in ("a b", "a_b")]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (twice, "ambiguous"),
        (named_like_a_source, "ambiguous: 'all'"),
        (partial(with_target, algorithm=""), "missing"),  # rows of a target without a run
        (sharing_a_folder, "ambiguous: 'a b' … 'a_b'"),
    ],
)
def test_rows_that_do_not_say_whose_they_are_are_refused(
    tmp_path: Path, changed: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], expected: str
) -> None:
    with refused(expected):
        of_rows(tmp_path, changed(rows_of_two_runs()))


def test_a_table_without_domains_has_one_target(tmp_path: Path) -> None:
    rows = [
        {"step": step, "role": role, "accuracy": 0.5 + step / 1000}
        for step in (0, 100)
        for role in ("source", "target")
    ]
    cohort = of_rows(tmp_path, rows)
    assert [key.held_out for key in cohort.runs] == [("target",)]


def test_names_of_files_stay_inside_the_cohort(tmp_path: Path) -> None:
    rows = [
        {**row, "algorithm": "../../ERM", "domain": row["domain"].replace("sketch", "../../../x")}
        for row in rows_of_two_runs()
        if row["algorithm"] == "ERM"
    ]
    (tmp_path / "in").mkdir()
    table = write_jsonl(tmp_path / "in" / "table.jsonl", rows)
    imported(table, tmp_path / "in" / "cohort").evaluate("source-acc")
    assert [place.name for place in tmp_path.iterdir()] == ["in"]
    assert {place.name for place in (tmp_path / "in").iterdir()} == {"table.jsonl", "cohort"}


def test_predictions_and_own_runs_are_refused(tmp_path: Path) -> None:
    folder = samples.predictions_folder(tmp_path / "predictions")
    own = write_cohort(tmp_path / "own", tiny_runs())
    for path in (folder, own):
        with refused("unsupported"):
            import_cohort(path, tmp_path / "cohort", Request())


@pytest.mark.parametrize("labels", [{}, {"dataset": "Pets", "trial_seed": 3}])
def test_a_table_and_its_cohort_draw_the_same_checkpoint(
    tmp_path: Path, labels: dict[str, Any]
) -> None:
    rows = [
        {**labels, "step": step, "domain": domain, "role": role, "accuracy": 0.9}
        for step in range(50)
        for domain, role in (("photo", "source"), ("sketch", "target"))
    ]
    table = write_jsonl(tmp_path / "table.jsonl", rows)
    import_cohort(table, tmp_path / "cohort", Request())
    for seed in range(5):
        raw, again = (cw.select(cw.load(p), "ac-random", seed=seed).step
                      for p in (table, tmp_path / "cohort"))  # fmt: skip
        assert raw == again


def counted_rows() -> list[dict[str, Any]]:
    return [
        {**row, "n": 1000, "correct": round(row["accuracy"] * 1000)} for row in rows_of_two_runs()
    ]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"n": 10**30}, "held-out: a whole number"),
        ({"correct": 10**30}, "held-out: a whole number … correct"),
        ({"n": 0}, "held-out: at least 1"),
        ({"n": 731, "correct": 773, "accuracy": None}, "differs"),
        ({"n": 1000, "correct": 773}, "differs"),
        ({"accuracy": 77.3}, "held-out: 0 … 1 … accuracy … divide by 100"),
        ({"nll": -77.625}, "held-out: nll"),
        ({"accuracy": "77.625x"}, "held-out: accuracy"),
    ],
)
def test_impossible_target_values_are_refused_and_not_shown(
    tmp_path: Path, cells: dict[str, Any], message: str
) -> None:
    with refused(message) as error:
        of_rows(tmp_path, with_target(counted_rows(), **cells))
    assert "sketch, step 0 of" in str(error.value)
    assert not any(value in str(error.value) for value in ("77", "731", "00000"))
    assert not (tmp_path / "cohort").exists()


def test_target_counts_that_fit_are_imported(tmp_path: Path) -> None:
    cohort = of_rows(tmp_path, counted_rows())
    key = next(key for key in cohort.runs if key.algorithm == "ERM")
    assert cohort.held_out(key)["sketch"]["correct"].tolist() == [500, 600, 700]


def test_it_says_which_target_rows_the_column_held_out_leaves_out(tmp_path: Path) -> None:
    rows = [{**row, "held_out": "sketch"} for row in rows_of_two_runs()]
    with pytest.warns(CheckwiseWarning, match="3 rows of photo with the role of a target are left"):
        of_rows(tmp_path, rows)


def test_it_says_which_metrics_only_the_target_has(tmp_path: Path) -> None:
    rows = rows_of_two_runs()
    for row in rows:
        if row["role"] == "target":
            row["ece"] = 0.1
    with pytest.warns(CheckwiseWarning, match="ece of held-out domains"):
        of_rows(tmp_path, rows)


def test_a_folder_with_logs_and_their_cohort_has_every_run_once(tmp_path: Path) -> None:
    logs = domainbed_sweep(tmp_path / "around" / "runs")
    import_cohort(logs, tmp_path / "around" / "runs.cohort", Request())
    with pytest.warns(CheckwiseWarning, match=r"16 runs in .*runs.cohort are left out"):
        assert len(cw.load_runs(tmp_path / "around")) == 16
    shutil.rmtree(logs)
    assert len(cw.load_runs(tmp_path / "around")) == 16  # the cohort alone is read


def test_opening_a_folder_of_logs_as_a_cohort_names_the_command(sweep: Path) -> None:
    with pytest.raises(InputError, match=f"checkwise study import {sweep}"):
        cw.study.Cohort.open(sweep)


def test_of_two_imports_at_once_the_later_is_told_to_try_again(sweep: Path, tmp_path: Path) -> None:
    def other(done: int, _: int) -> None:
        if done == 1:
            import_cohort(sweep, tmp_path / "cohort", Request())

    with refused("exists"):
        import_cohort(sweep, tmp_path / "cohort", Request(), progress=other)
    assert verify(tmp_path / "cohort") == []


def test_the_journal_of_a_training_is_no_table(tmp_path: Path) -> None:
    with cw.LiveSelector("source-acc", journal=tmp_path / "run" / "checkwise.jsonl") as live:
        live.add(1, {"val": {"accuracy": 0.5, "n": 100}})
    for path in (tmp_path / "run", tmp_path / "run" / "checkwise.jsonl"):
        with refused("missing: held-out domains"):
            import_cohort(path, tmp_path / "study", Request())
