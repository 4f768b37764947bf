"""A cohort is marked as opened by what shows held-out results, and by nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import checkwise
from checkwise.store import inner_path
from checkwise.study import Cohort
from checkwise.study.folder import LOG, OPENED, register
from checkwise.study.folder import sealed_results as read_heldout
from checkwise.study.folder.registration import read_log
from checkwise.study.tables import TABLES
from tests.cli.calls import ran, run
from tests.refusals import refused
from tests.study.cohorts import tiny_runs, write_cohort
from tests.study.test_methods import pair, save_logits


def with_logits(folder: Path) -> Path:
    write_cohort(folder, tiny_runs()[:3])
    for place in (folder / "runs").iterdir():
        for step in (100, 200):
            save_logits(place, step, {"art": pair(3, 6), "photo": pair(3, 7)}, "source")
            save_logits(place, step, {"sketch": pair(3, 5)}, "heldout/sketch")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_logits(tmp_path / "tiny")


REFUSED = [
    "study compare COHORT --metrics target_banana",
    "study compare COHORT --metrics target_nll,banana_nll",
    "study compare COHORT --metrics ,",
    "study compare COHORT --rules source-acc,banana",
    "study compare COHORT --rules source-acc",
    "study compare COHORT --rules ac-nc,ac-nc",
    "study compare COHORT --rules ac-nc,swad",
    "study compare COHORT --rules ac-nc,lodo-acc",
    "study compare COHORT --rules ac-nc,wald",
    "study compare COHORT --reference banana",
    "study compare COHORT --by banana",
    "study compare COHORT --by algorithm,banana",
    "study compare COHORT --scope banana",
    "study compare COHORT --role evaluation",
    "study compare COHORT --role banana",
    "study compare COHORT --delta-pp wide",
    "study compare COHORT --delta-pp -1",
    "study compare COHORT --param q=0",
    "study compare COHORT --out TMP/none/table.csv",
    "study compare COHORT --out TMP/table.xlsx",
    "study compare COHORT --out COHORT/cohort.json",
    "study compare COHORT --out /proc/table.csv",
    f"study compare COHORT --out TMP/{'x' * 240}.csv",
    "study compare COHORT --plugin TMP/none.py",
    "study compare COHORT --banana",
    "study compare COHORT COHORT",
    "study report COHORT --tables",
    "study report COHORT --tables COHORT",
    "study report COHORT --tables /proc/out",
    "study report COHORT --tables TMP/astray --only main",
    "study report COHORT --tables TMP/out --only banana",
    "study report COHORT --tables TMP/out --only main,banana",
    "study report COHORT --tables TMP/out --only main,equivalence",
    "study report COHORT --tables TMP/out --only ,",
    "study report COHORT --tables TMP/out --only swad",
    "study report COHORT --tables TMP/out --rules ac",
    "study report COHORT --tables TMP/out --rules wald --only main",
    "study report COHORT --tables TMP/out --rules ac-nc --reference ac-nc",
    "study report COHORT --tables TMP/out --weights sample",
    "study report COHORT --figures TMP/out --rules ac",
    "study report COHORT --figures TMP/out --only learning-rate",
    "study report COHORT --figures TMP/out --only occlusion",
    "study report COHORT --figures TMP/out --only tolerance --rules pure-nll",
    "study report COHORT --tables TMP/out --margin target_accuracy=0",
    "study report COHORT --tables TMP/out --margin banana=1",
    "study report COHORT --tables TMP/out --margin target_accuracy",
    "study report COHORT --tables TMP/out --role evaluation",
    "study report COHORT TMP/none --tables TMP/out",
    "study report COHORT --tables TMP/linked --only main",
    "study report COHORT --figures TMP/out --only banana",
    "study report COHORT --figures TMP/out --only kendall,banana",
    "study report COHORT --figures TMP/out --run banana",
    "study report COHORT --figures COHORT/runs",
    "study report COHORT --figures /proc/out",
    "study report COHORT TMP/none --figures TMP/out",
    "study report COHORT",
    "study report COHORT -o COHORT/cohort.json",
    "study report COHORT -o TMP",
    "study report COHORT -o /proc/page.html",
    "study report COHORT -o /proc/out/page.html",
    "study report COHORT -o TMP/page.html --rules banana",
    "study report COHORT -o TMP/page.html --rules ac-nc,banana",
    "study report COHORT -o TMP/page.html --rules ac-nc,swad",
    "study report COHORT -o TMP/page.html --rules ac-mean",
    "study report COHORT -o TMP/page.html --rules source-acc",
    "study report COHORT -o TMP/page.html --reference banana",
    "study report COHORT -o TMP/page.html --delta-pp wide",
    "study report COHORT -o TMP/page.html --role evaluation",
    "study derive COHORT --method banana",
    "study derive COHORT --method ,",
    "study derive COHORT --method swad --param delta_pp=1",
    "study derive COHORT --method swad --data banana",
    "study derive COHORT --method swad-banana",
    "study derive COHORT --method swad-nobn --param minibatches=3",
    "study derive COHORT --method lodo,swad",
    "study derive COHORT --method lodo --executor banana",
    "study register COHORT --rule banana",
    "study register COHORT --digest banana",
    "study pack COHORT -o TMP/x.zip",
]


def test_a_refused_command_leaves_the_log_as_it_is(folder: Path, tmp_path: Path) -> None:
    register(folder, {"rule": "ac-nc"})
    (tmp_path / "linked" / "all").mkdir(parents=True)
    (tmp_path / "linked" / "all" / "main.md").symlink_to(folder / "cohort.json")
    (tmp_path / "astray" / "all").mkdir(parents=True)
    (tmp_path / "astray" / "all" / "main.md").symlink_to("/proc/main.md")
    before = (folder / LOG).read_bytes()
    one = next((folder / "runs").iterdir())
    wrong = []
    for line in REFUSED:
        words = line.replace("COHORT", str(folder)).replace("TMP", str(tmp_path))
        code, _, error = ran(*words.replace("RUN", str(one)).split())
        if (code, error.count("\n"), (folder / LOG).read_bytes()) != (2, 1, before):
            wrong.append(f"{line}: {code}: {error}")
            (folder / LOG).write_bytes(before)
    assert not wrong


def test_trying_the_output_place_leaves_nothing_there(folder: Path, tmp_path: Path) -> None:
    names = sorted(place.name for place in tmp_path.iterdir())
    page = tmp_path / "new" / "deep" / "page.html"
    assert run("study", "report", folder, "-o", page, "--rules", "banana") == 2
    assert run("study", "report", folder, "--tables", tmp_path / "out", "--role", "evaluation") == 2
    assert sorted(place.name for place in tmp_path.iterdir()) == names


SHOWING = [
    "study compare COHORT",
    "study compare COHORT --json",
    "study compare COHORT --rules ac-nc+ts",
    "study compare COHORT --rules ac-nc+ts-oracle",
    "study report COHORT --tables TMP/out",
    *(
        f"study report COHORT --tables TMP/out --only {name}"
        for name in ("main", "regret", "risk-coverage")
    ),
    "study report COHORT --figures TMP/out --only kendall",
    "study report COHORT --figures TMP/out --only reliability",
    "study report COHORT -o TMP/page.html",
]


def test_what_shows_held_out_results_leaves_one_mark(folder: Path, tmp_path: Path) -> None:
    for line in SHOWING:
        words = line.replace("COHORT", str(folder)).replace("TMP", str(tmp_path))
        assert run(*words.split()) == 0, line
        assert [entry["kind"] for entry in read_log(folder)] == [OPENED], line
        (folder / LOG).unlink()


def test_what_shows_none_leaves_no_mark(folder: Path, tmp_path: Path) -> None:
    one = next((folder / "runs").iterdir())
    for line in (
        "select COHORT",
        "select RUN",
        "study status COHORT",
        "study status COHORT --verify",
        "study pack COHORT -o TMP/packed.tar.xz",
        "study report COHORT --figures TMP/out --only trajectory",
        "select RUN --page TMP/run.html",
    ):
        words = line.replace("COHORT", str(folder)).replace("RUN", str(one))
        run(*words.replace("TMP", str(tmp_path)).split())
        assert not (folder / LOG).exists(), line


def test_a_run_outside_a_cohort_shows_no_held_out_results(folder: Path, tmp_path: Path) -> None:
    lone = tmp_path / "lone"
    shutil.copytree(next((folder / "runs").iterdir()), lone)
    with refused("missing"):
        read_heldout(lone, "sketch")


@pytest.mark.parametrize("linked", [False, True], ids=["beside", "a link"])
def test_opening_inner_runs_marks_their_outer_cohort_too(linked: bool, tmp_path: Path) -> None:
    outer = write_cohort(tmp_path / "all", tiny_runs()[:3])
    place = outer
    if linked:
        (tmp_path / "links").mkdir()
        place = tmp_path / "links" / "study"
        place.symlink_to(outer)
    other = write_cohort(tmp_path / "other", tiny_runs()[:3])
    inner = with_logits(inner_path(place))
    assert run("study", "compare", inner) == 0
    for cohort in (inner, outer):
        assert [entry["kind"] for entry in read_log(cohort)] == [OPENED]
    assert not (other / LOG).exists()


def test_opening_a_cohort_leaves_its_inner_runs_closed(folder: Path) -> None:
    inner = with_logits(inner_path(folder))
    assert run("study", "compare", folder) == 0
    assert not (inner / LOG).exists()


def test_a_table_of_held_out_results_leaves_a_mark(folder: Path, tmp_path: Path) -> None:
    of_targets = 0
    for name in TABLES:
        code = run("study", "report", folder, "--tables", tmp_path, "--only", name)
        place = tmp_path if name == "paper" else tmp_path / "all"
        text = (place / f"{name}.md").read_text() if code == 0 else ""
        if "target" in text.lower():
            of_targets += 1
            assert [entry["kind"] for entry in read_log(folder)] == [OPENED], name
        (folder / LOG).unlink(missing_ok=True)
    assert of_targets > 5


def test_a_held_out_journal_that_cannot_be_read_leaves_no_mark(folder: Path) -> None:
    next(folder.glob("runs/*/heldout/*.jsonl")).write_text("{}\n")
    first = next(iter(Cohort.open(folder).runs))
    (folder / "runs" / str(first) / "heldout" / "sketch.jsonl").write_text("no journal\n")
    assert run("study", "compare", folder) == 2
    assert not (folder / LOG).exists()


def restrained(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command without the power of root to write where permissions forbid it."""
    command = [sys.executable, "-m", "checkwise", *map(str, arguments)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("permissions do not stop root, and there is no setpriv to give that up")
        drop = "-dac_override"
        command = ["setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}", *command]
    source = str(Path(checkwise.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": source}
    return subprocess.run(command, capture_output=True, text=True, env=env)


@pytest.mark.parametrize("kept", ["nothing", "a registration"])
def test_a_cohort_that_cannot_be_marked_shows_nothing(tmp_path: Path, kept: str) -> None:
    folder = with_logits(tmp_path / "tiny")
    if kept == "a registration":
        register(folder, {"rule": "ac-nc"})
        (folder / LOG).chmod(0o444)
    folder.chmod(0o555)
    page = tmp_path / "page.html"
    for command in (["compare", folder], ["report", folder, "-o", page]):
        done = restrained("study", *command)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert "copy the study to a folder that is" in done.stderr
        assert str(folder / LOG) in done.stderr
        assert done.stderr.count("\n") == 1
    assert not page.exists()


def test_a_cohort_that_cannot_be_written_but_has_its_mark_is_shown(tmp_path: Path) -> None:
    folder = with_logits(tmp_path / "tiny")
    Cohort.open(folder).compare()
    (folder / LOG).chmod(0o444)
    folder.chmod(0o555)
    done = restrained("study", "compare", folder)
    assert done.returncode == 0, done.stderr
    assert "ac-nc" in done.stdout
