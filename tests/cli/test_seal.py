"""A cohort is marked as opened by what shows held-out results, and by nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import checkwise
from checkwise.cli import main
from checkwise.store.heldout import read_heldout
from checkwise.store.layout import inner_path
from checkwise.store.registration import LOG, OPENED, read_log, register
from checkwise.study import Cohort
from checkwise.tables import TABLES
from tests.refusals import refused
from tests.study.cohorts import tiny_runs, write_cohort
from tests.study.test_methods import pair, save_logits


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


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
    "compare COHORT --metrics target_banana",
    "compare COHORT --metrics target_nll,banana_nll",
    "compare COHORT --metrics ,",
    "compare COHORT --rules source-acc,banana",
    "compare COHORT --rules source-acc",
    "compare COHORT --rules ac-nc,ac-nc",
    "compare COHORT --rules ac-nc,swad",
    "compare COHORT --rules ac-nc,lodo-acc",
    "compare COHORT --rules ac-nc,wald",
    "compare COHORT --reference banana",
    "compare COHORT --by banana",
    "compare COHORT --by algorithm,banana",
    "compare COHORT --scope banana",
    "compare COHORT --role evaluation",
    "compare COHORT --role banana",
    "compare COHORT --delta-pp wide",
    "compare COHORT --delta-pp -1",
    "compare COHORT --q 0",
    "compare COHORT --out TMP/none/table.csv",
    "compare COHORT --out TMP/table.xlsx",
    "compare COHORT --out COHORT/cohort.json",
    "compare COHORT --out /proc/table.csv",
    f"compare COHORT --out TMP/{'x' * 240}.csv",
    "compare COHORT --plugin TMP/none.py",
    "compare COHORT --banana",
    "compare COHORT COHORT",
    "tables COHORT",
    "tables COHORT --out COHORT",
    "tables COHORT --out /proc/out",
    "tables COHORT --out TMP/astray --only main",
    "tables COHORT --out TMP/out --only banana",
    "tables COHORT --out TMP/out --only main,banana",
    "tables COHORT --out TMP/out --only main,equivalence",
    "tables COHORT --out TMP/out --only ,",
    "tables COHORT --out TMP/out --only swad",
    "tables COHORT --out TMP/out --rule ac",
    "tables COHORT --out TMP/out --rule wald --only main",
    "tables COHORT --out TMP/out --rule ac-nc --reference ac-nc",
    "tables COHORT --out TMP/out --weights sample",
    "figures COHORT --out TMP/out --rule ac",
    "figures COHORT --out TMP/out --only learning-rate",
    "figures COHORT --out TMP/out --only occlusion",
    "figures COHORT --out TMP/out --only tolerance --rule pure-nll",
    "tables COHORT --out TMP/out --margin target_accuracy=0",
    "tables COHORT --out TMP/out --margin banana=1",
    "tables COHORT --out TMP/out --margin target_accuracy",
    "tables COHORT --out TMP/out --role evaluation",
    "tables COHORT TMP/none --out TMP/out",
    "tables COHORT --out TMP/linked --only main",
    "figures COHORT --out TMP/out --only banana",
    "figures COHORT --out TMP/out --only kendall,banana",
    "figures COHORT --out TMP/out --run banana",
    "figures COHORT --out COHORT/runs",
    "figures COHORT --out /proc/out",
    "figures COHORT TMP/none --out TMP/out",
    "report COHORT",
    "report COHORT -o COHORT/cohort.json",
    "report COHORT -o TMP",
    "report COHORT -o /proc/page.html",
    "report COHORT -o /proc/out/page.html",
    "report COHORT -o TMP/page.html --rules banana",
    "report COHORT -o TMP/page.html --rules ac-nc,banana",
    "report COHORT -o TMP/page.html --rules ac-nc,swad",
    "report COHORT -o TMP/page.html --rules ac-mean",
    "report COHORT -o TMP/page.html --rules source-acc",
    "report COHORT -o TMP/page.html --reference banana",
    "report COHORT -o TMP/page.html --delta-pp wide",
    "report COHORT -o TMP/page.html --role evaluation",
    "derive COHORT --method banana",
    "derive COHORT --method ,",
    "derive COHORT --method swad --delta-pp 1",
    "derive COHORT --method swad --data banana",
    "swad COHORT --mode banana",
    "swad COHORT --no-bn --minibatches 3",
    "lodo COHORT --executor banana",
    "lodo COHORT --algorithm banana",
    "calibrate COHORT --calibrator banana",
    "calibrate COHORT --rule banana",
    "calibrate COHORT --delta-pp wide",
    "calibrate COHORT --data banana",
    "calibrate COHORT -o /proc/fitted.json",
    "calibrate RUN --variant banana",
    "calibrate TMP/none",
    "preregister COHORT --rule banana",
    "verify COHORT --registered banana",
    "pack COHORT -o TMP/x.zip",
]


@pytest.mark.parametrize("line", REFUSED)
def test_a_refused_command_leaves_the_log_as_it_is(
    line: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(folder, {"rule": "ac-nc"})
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "main.md").symlink_to(folder / "cohort.json")
    (tmp_path / "astray").mkdir()
    (tmp_path / "astray" / "main.md").symlink_to("/proc/main.md")
    before = (folder / LOG).read_bytes()
    one = next((folder / "runs").iterdir())
    words = line.replace("COHORT", str(folder)).replace("TMP", str(tmp_path))
    assert run(*words.replace("RUN", str(one)).split()) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert (folder / LOG).read_bytes() == before


def test_trying_the_output_place_leaves_nothing_there(folder: Path, tmp_path: Path) -> None:
    names = sorted(place.name for place in tmp_path.iterdir())
    page = tmp_path / "new" / "deep" / "page.html"
    assert run("report", folder, "-o", page, "--rules", "banana") == 2
    assert run("tables", folder, "--out", tmp_path / "out", "--role", "evaluation") == 2
    assert sorted(place.name for place in tmp_path.iterdir()) == names


SHOWING = [
    "compare COHORT",
    "compare COHORT --json",
    "compare COHORT --rules ac-nc+ts",
    "compare COHORT --rules ac-nc+ts-oracle",
    "tables COHORT --out TMP/out",
    *(f"tables COHORT --out TMP/out --only {name}" for name in ("main", "regret", "risk-coverage")),
    "figures COHORT --out TMP/out --only kendall",
    "figures COHORT --out TMP/out --only reliability",
    "report COHORT -o TMP/page.html",
    "calibrate COHORT",
    "calibrate COHORT --json",
    "calibrate RUN --oracle",
    "calibrate LINK",
]


@pytest.mark.parametrize("line", SHOWING)
def test_what_shows_held_out_results_leaves_one_mark(
    line: str, folder: Path, tmp_path: Path
) -> None:
    one = next((folder / "runs").iterdir())
    (tmp_path / "link").symlink_to(one)
    places = {"COHORT": folder, "RUN": one, "LINK": tmp_path / "link", "TMP": tmp_path}
    words = line
    for name, place in places.items():
        words = words.replace(name, str(place))
    assert run(*words.split()) == 0
    assert [entry["kind"] for entry in read_log(folder)] == [OPENED]


@pytest.mark.parametrize(
    "line",
    [
        "select COHORT",
        "select RUN",
        "status COHORT",
        "verify COHORT",
        "pack COHORT -o TMP/packed.tar.xz",
        "figures COHORT --out TMP/out --only trajectory",
        "report RUN -o TMP/run.html",
        "lodo COHORT --dry-run",
    ],
)
def test_what_shows_none_leaves_no_mark(line: str, folder: Path, tmp_path: Path) -> None:
    one = next((folder / "runs").iterdir())
    words = line.replace("COHORT", str(folder)).replace("RUN", str(one))
    run(*words.replace("TMP", str(tmp_path)).split())
    assert not (folder / LOG).exists()


@pytest.mark.parametrize("options", [[], ["--oracle"], ["--json"]])
def test_a_run_outside_a_cohort_shows_source_results_only(
    options: list[str], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lone = tmp_path / "lone"
    shutil.copytree(next((folder / "runs").iterdir()), lone)
    assert run("calibrate", lone, *options) == 0
    shown = capsys.readouterr().out
    assert "source" in shown
    assert 'sketch": {"before' not in shown
    assert "held-out domains" not in shown
    assert "not deployable" not in shown
    assert shown.count("Held-out results are shown only for a run inside its cohort") == 1
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
    assert run("compare", inner) == 0
    for cohort in (inner, outer):
        assert [entry["kind"] for entry in read_log(cohort)] == [OPENED]
    assert not (other / LOG).exists()


def test_opening_a_cohort_leaves_its_inner_runs_closed(folder: Path) -> None:
    inner = with_logits(inner_path(folder))
    assert run("compare", folder) == 0
    assert not (inner / LOG).exists()


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_of_held_out_results_leaves_a_mark(
    name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("tables", folder, "--out", tmp_path / "out", "--only", name)
    text = (tmp_path / "out" / f"{name}.md").read_text() if code == 0 else ""
    if "target" in text.lower():
        assert [entry["kind"] for entry in read_log(folder)] == [OPENED]


def test_a_held_out_journal_that_cannot_be_read_leaves_no_mark(folder: Path) -> None:
    next(folder.glob("runs/*/heldout/*.jsonl")).write_text("{}\n")
    first = next(iter(Cohort.open(folder).runs))
    (folder / "runs" / str(first) / "heldout" / "sketch.jsonl").write_text("no journal\n")
    assert run("compare", folder) == 2
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
    for command in (["compare", folder], ["calibrate", folder]):
        done = restrained(*command)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert "copy the cohort to a folder that is" in done.stderr
        assert str(folder / LOG) in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_cohort_that_cannot_be_written_but_has_its_mark_is_shown(tmp_path: Path) -> None:
    folder = with_logits(tmp_path / "tiny")
    Cohort.open(folder).compare()
    (folder / LOG).chmod(0o444)
    folder.chmod(0o555)
    done = restrained("compare", folder)
    assert done.returncode == 0, done.stderr
    assert "ac-nc" in done.stdout
