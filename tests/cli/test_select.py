"""The command line as a user meets it: answers, JSON, files, and one line when something is off."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas
import pytest

import checkwise as cw
from checkwise.cli import places, printing
from checkwise.cli.handover import take
from tests.cli.calls import answer, heard, otherwise, refusal, run, said, selection
from tests.refusals import refused

TABLE = """step,accuracy,nll,cwece,n
100,0.900,0.70,0.020,1000
200,0.895,0.40,0.010,1000
300,0.850,0.35,0.008,1000
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "run.csv"
    path.write_text(TABLE)
    return path


def test_the_answer_comes_first_then_what_it_costs_and_gains_then_why(table: Path) -> None:
    first, accuracy, nll, cwece, why, *rest = said("select", table).splitlines()
    assert first == "Use step 200."
    assert accuracy.split()[:3] == ["accuracy", "89.50%", "0.50"]
    assert "90.00% at step 100" in accuracy
    assert nll.split()[:3] == ["NLL", "0.4", "43%"]
    assert cwece.split()[:4] == ["soft", "CwECE", "0.01", "50%"]
    assert why.startswith("2 of 3 checkpoints are within 0.5 points")
    assert "5 of 1000 validation examples" in "\n".join(rest)


def test_the_path_stands_in_the_first_line(table: Path) -> None:
    named = pandas.read_csv(table).assign(path=["a.pt", "b.pt", "c.pt"])
    named.to_csv(table, index=False)
    assert said("select", table).splitlines()[0] == "Use step 200: b.pt"


def test_a_step_has_the_number_that_files_would_carry(tmp_path: Path) -> None:
    log = tmp_path / "training.log"
    log.write_text(
        "epoch,accuracy,loss,val_accuracy,val_loss\n0,1,0,0.7,0.9\n1,1,0,0.9,0.4\n2,1,0,0.8,0.5\n"
    )
    text = said("select", log)
    assert text.startswith("Use step 1 (2 in names of checkpoints).")
    assert "Read val_accuracy and val_loss." in text
    assert "NLL" not in text  # the log says loss
    assert selection(log)["step"] == 1


def test_table_and_verbose_show_what_the_answer_leaves_out(table: Path) -> None:
    short, ranked, long = (said("select", table, *more) for more in ((), ("--table",), ("-v",)))
    assert "rank" not in short
    assert [line.split()[1] for line in ranked[ranked.index("rank") :].splitlines()[1:4]] == [
        "200",
        "100",
        "300",
    ]
    for text in ("(ac-nc)", "accuracy bound that helps"):
        assert text in long
        assert text not in short
    assert "--table" in short


@pytest.mark.parametrize(
    ("accuracy", "nll", "named"),
    [
        ("0.8941", "0.30", True),  # 0.59 below, a quarter less
        ("0.8939", "0.30", False),  # 0.61: too far
        ("0.8941", "0.37", False),  # 7.5%: no more than noise
        ("0.8950", "0.30", False),  # within, so it is the answer
    ],
)
def test_a_near_miss_is_named_with_the_option_that_takes_it(
    tmp_path: Path, accuracy: str, nll: str, named: bool
) -> None:
    path = tmp_path / "run.csv"
    path.write_text(f"step,accuracy,nll\n1,0.9,0.7\n2,0.896,0.40\n3,{accuracy},{nll}\n")
    text = said("select", path)
    assert ("--delta-pp 0.6" in text) == named
    if named:
        assert "Step 3 is 0.59 points below the best, just outside, with 25% less NLL" in text
        assert selection(path, "--delta-pp", "0.6")["step"] == 3


def test_the_only_near_best_checkpoint_is_simply_the_most_accurate(table: Path) -> None:
    text = said("select", table, "--delta-pp", "0.1")
    assert text.startswith("Use step 100.")
    assert "simply the most accurate" in text


def several(table: Path) -> Path:
    """Two equal runs in one table."""
    lines = table.read_text().splitlines()
    rows = [f"{name},{line}" for name in ("a", "b") for line in lines[1:]]
    path = table.with_name("runs.csv")
    path.write_text("\n".join([f"run,{lines[0]}", *rows]) + "\n")
    return path


def test_several_runs_get_a_row_each_and_what_to_do(table: Path) -> None:
    path = several(table)
    *rows, last = [line.split() for line in said("select", path).splitlines()]
    assert [row[:3] for row in rows[1:3]] == [["*", "a", "200"], ["b", "200", "89.50"]]
    assert last[:1] == ["*"]
    assert "--best" in last
    found = answer("select", path)
    assert [entry["selection"]["step"] for entry in found["runs"]] == [200, 200]
    assert "best" not in found


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """Three logs of one validation set; the second has the lowest loss near the best accuracy."""
    rows = {"a": (0.900, 0.50), "b": (0.898, 0.30), "c": (0.850, 0.20)}
    paths = []
    for name, (accuracy, nll) in rows.items():
        path = tmp_path / name / "log.csv"
        path.parent.mkdir()
        path.write_text(
            f"step,accuracy,nll,cwece,path\n1,0.5,1,0.1,{name}1\n2,{accuracy},{nll},0.01,{name}2\n"
        )
        paths.append(path)
    return paths


def test_several_paths_are_as_many_runs(logs: list[Path]) -> None:
    text = said("select", *logs)
    for path in logs:
        assert str(path) in text
        assert f"{path.parent.name}2" in text
    (marked,) = [line for line in text.splitlines()[1:4] if line.startswith("*")]
    assert str(logs[1]) in marked
    found = answer("select", *logs)
    assert [entry["source"] for entry in found["runs"]] == list(map(str, logs))
    assert said("select", logs[0], logs[0]).startswith("Use step 2: a2")


def test_best_is_the_same_rule_among_the_choices(logs: list[Path], tmp_path: Path) -> None:
    first, among, *_ = said("select", *logs, "--best").splitlines()
    assert first == "Use step 2: b2"
    assert "3 runs" in among
    assert str(logs[1]) in among
    found = answer("select", *logs, "--best")
    assert (found["best"], len(found["runs"])) == (1, 3)
    assert answer("select", *logs, "--best", "--delta-pp", "0.1")["best"] == 0
    assert answer("select", *logs, "--best", "--rule", "source-acc")["best"] == 0
    other = tmp_path / "other.csv"
    other.write_text("step,domain,accuracy,nll,cwece\n1,art,0.9,0.1,0.1\n")
    assert "--best" in refusal("select", *logs, other, "--best")
    assert "*" not in said("select", *logs, other)


@pytest.mark.parametrize("asked", [("--page", "p.html"), ("--open",), ("--copy-to", "x")])
def test_what_is_about_one_run_is_refused_for_several(
    logs: list[Path], asked: tuple[str, ...]
) -> None:
    assert run("select", *logs, *asked) == 2
    refusal = heard().err
    assert asked[0] in refusal
    assert ("checkwise study report" in refusal) == (asked[0] != "--copy-to")
    assert "--run" not in refusal
    assert "path alone" in refusal


def test_a_run_of_several_paths_is_that_of_its_path(logs: list[Path], table: Path) -> None:
    assert "one path" in refusal("select", *logs, several(table), "--run", "b")


@pytest.mark.parametrize("words", [(), ("--best",)])
def test_one_bad_log_does_not_take_the_answer_for_the_others(
    logs: list[Path], words: tuple[str, ...]
) -> None:
    logs[0].write_text("step,accuracy,nll\n1,0.5,")
    held_out = logs[2].parent / "test.csv"
    held_out.write_text("step,test_accuracy,test_loss\n1,0.9,0.3\n2,0.91,0.2\n")
    bad = (logs[0], held_out, "nowhere.csv")
    assert run("select", *logs, *bad[1:], *words, "--json") == 1
    out, err = heard()
    found = json.loads(out)
    assert [entry["source"] for entry in found["runs"]] == list(map(str, logs[1:]))
    assert [entry["source"] for entry in found["left_out"]] == list(map(str, bad))
    for path, entry, line in zip(bad, found["left_out"], err.splitlines(), strict=True):
        assert str(path) in line
        assert entry["error"] in line
    assert "left_out" not in answer("select", *logs[1:], *words)
    assert run("select", logs[1], held_out) == 1
    assert str(logs[1]) in heard().out
    assert "test" in refusal("select", held_out, logs[0])


def test_the_table_of_every_run_stands_under_its_name(logs: list[Path]) -> None:
    lines = said("select", *logs, "--table").splitlines()
    for path in logs:
        at = lines.index(str(path))
        assert lines[at + 1].split()[:3] == ["rank", "step", "accuracy"]
        assert [line.split()[:2] for line in lines[at + 2 : at + 4]] == [["1", "2"], ["2", "1"]]


def test_what_can_be_written_is_written_before_what_fails_is_said(
    table: Path, tmp_path: Path
) -> None:
    choice, page, copy = tmp_path / "choice.json", tmp_path / "p.html", tmp_path / "copy.pt"
    assert run("select", table, "-o", choice, "--copy-to", copy, "--page", page) == 2
    out, err = heard()
    assert take(choice).selection.step == 200
    assert (page.exists(), copy.exists()) == (True, False)
    assert str(choice) in out
    assert str(page) in out
    assert "step 200" in err


def test_a_page_is_written_about_one_run(table: Path, tmp_path: Path) -> None:
    page = tmp_path / "deep" / "page.html"
    assert str(page) in said("select", table, "--page", page, "--delta-pp", "5")
    assert "Use step 300." in page.read_text()


def test_json_is_strict_and_has_one_shape(table: Path) -> None:
    one, many = answer("select", table), answer("select", several(table))
    assert one["schema"] == many["schema"] == 2
    assert [list(entry) for entry in (*one["runs"], *many["runs"])] == [
        ["run", "source", "selection"]
    ] * 3
    assert one["runs"][0]["source"] == str(table)
    found = one["runs"][0]["selection"]
    assert found == {**json.loads(cw.select(cw.load(table)).to_json())}
    assert found["step"] == 200
    assert found["params"]["q"] == "inf"
    assert found["feasible_steps"] == [100, 200]
    assert found["guard"] == {"acted": False, "errors": 100, "examples": 1000, "without": 200}
    for name in ("rule", "score", "accuracy", "gap_pp", "path"):
        assert name in found


@pytest.mark.parametrize(
    ("options", "step"),
    [
        (("--rule", "source-acc"), 100),
        (("--delta-pp", "0.4"), 100),
        (("--delta-pp", "5"), 300),
        (("--rule", "pure-nll"), 300),
        (("--rule", "ac", "--objectives", "nll", "--delta-pp", "10"), 300),
    ],
)
def test_options_reach_the_rule(table: Path, options: tuple[str, ...], step: int) -> None:
    assert selection(table, *options)["step"] == step


# Step 100 is chosen with δ 2, and every one of the options below leads elsewhere.
DOMAINS = """step,domain,accuracy,nll,cwece,n
100,art,0.860,0.50,0.04,50
100,photo,0.885,0.70,0.03,200
200,art,0.820,0.70,0.02,50
200,photo,0.885,0.80,0.05,200
300,art,0.860,0.60,0.03,50
300,photo,0.860,0.40,0.04,200
400,art,0.840,0.80,0.05,50
400,photo,0.870,0.70,0.04,200
500,art,0.860,0.80,0.04,50
500,photo,0.855,0.80,0.01,200
"""


@pytest.mark.parametrize(
    "options",
    [
        ("--param", "q=1"),
        ("--param", "pareto=true"),
        ("--weights", "sample"),
        ("--weights", "photo=3,art=1"),
        ("--weights", "worst"),
    ],
)
def test_options_about_norm_and_domains_change_the_answer(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "domains.csv"
    path.write_text(DOMAINS)
    assert selection(path, "--delta-pp", "2")["step"] == 100
    assert selection(path, "--delta-pp", "2", *options)["step"] == 300


def without(table: Path, *columns: str) -> Path:
    """The table with fewer columns."""
    path = table.with_name(f"no-{'-'.join(columns)}.csv")
    pandas.read_csv(table).drop(columns=list(columns)).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("gone", "rule", "step"),
    [((), "ac-nc", 200), (("cwece",), "ac-nll", 200), (("cwece", "nll"), "source-acc", 100)],
)
def test_answer_page_and_copy_use_the_best_rule_that_the_table_allows(
    table: Path, tmp_path: Path, gone: tuple[str, ...], rule: str, step: int
) -> None:
    path = without(table, *gone)
    text = said("select", path)
    assert text.startswith(f"Use step {step}.")
    assert ("not compared" in text) == bool(gone)
    found = selection(path)
    assert (found["rule"], found["step"]) == (rule, step)
    assert (found["rule_reason"] is None) == (not gone)
    assert run("select", path, "--page", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text()
    assert f"Use step {step}." in page
    assert ("not compared" in page) == bool(gone)
    named = pandas.read_csv(path).assign(path=str(table))
    named.to_csv(path, index=False)
    assert run("select", path, "--copy-to", tmp_path / "best.pt") == 0
    assert json.loads((tmp_path / "best.pt.json").read_text())["rule"] == rule


def test_runs_with_different_data_are_counted_by_rule(table: Path) -> None:
    without(table, "cwece")
    without(table, "cwece", "nll")
    folder = table.parent / "runs"
    for number, file in enumerate(sorted(table.parent.glob("*.csv"))):
        (folder / str(number)).mkdir(parents=True)
        records = pandas.read_csv(file)
        records.to_json(folder / str(number) / "results.jsonl", orient="records", lines=True)
    text = said("select", folder)
    assert "Calibration was not compared: there is no cwece. (1 of 3 runs)" in text
    assert "Probabilities were not compared: there is accuracy alone. (1 of 3 runs)" in text
    assert {"ac-nc", "ac-nll", "source-acc"} <= set(text.split())
    assert "*" not in text  # they were chosen by different rules
    rules = [entry["selection"]["rule"] for entry in answer("select", folder)["runs"]]
    assert sorted(rules) == ["ac-nc", "ac-nll", "source-acc"]
    assert run("select", folder, "--rule", "ac-nc") == 2


def test_results_are_written_to_files(table: Path, tmp_path: Path) -> None:
    assert run("select", table, "-o", tmp_path / "choice.json") == 0
    (entry,) = json.loads((tmp_path / "choice.json").read_text())["runs"]
    assert entry["selection"]["step"] == 200
    assert run("select", table, "-o", tmp_path / "a.csv") == 0
    assert (tmp_path / "a.csv").read_text().startswith("rank,step,accuracy,gap_pp,feasible,score")
    assert run("select", table, "-o", tmp_path / "a.txt") == 2


def test_a_choice_is_handed_over_from_one_path(logs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "choice.json"
    for paths in (logs, [several(logs[0])]):
        assert run("select", *paths, "-o", out) == 2
        printed, refusal = heard()
        assert (printed, out.exists()) == ("", False)
        assert "--best" in refusal
        assert ("--run" in refusal) == (len(paths) == 1)
    assert run("select", *logs, "--best", "-o", out) == 0
    assert json.loads(out.read_text())["asked"]["path"] == str(logs[1])
    assert run("select", *logs, "-o", tmp_path / "runs.csv") == 0
    assert list(pandas.read_csv(tmp_path / "runs.csv")["source"]) == list(map(str, logs))


REFUSED = {
    "select nowhere": "no file or folder 'nowhere'",
    "select": "Missing argument",
    "select TABLE --rule best": "one of the rules source-acc",
    "select TABLE --delta-pp wide": "delta_pp … wide",
    "select TABLE --delta-pp -1": "delta_pp of 0 or more",
    "select TABLE --param q=3": "1, 2 or inf, but got 3",
    "select TABLE --weights size": "weights 'equal', 'sample'",
    "select TABLE --weights x=1": "a weight for each of validation",
    "select TABLE --held-out sketch": "held-out domain 'sketch'",
    "select TABLE --rule ac-ece": "needs ece",
    "select TABLE --rule wald": "checkwise: Rule wald needs ece",
    "select TABLE --rule ac": "needs the parameter 'objectives'",
    "select TABLE --rule source-acc --param q=1": "no parameter 'q'",
    "select TABLE --param x": "--param NAME=VALUE",
    "select TABLE --rule ac-random --param seed=x": "Expected `seed`",
    "select TABLE --rule ac-random --param seed=": "Expected `seed`",
    "select TABLE --rule ac-random --param seed=1.5": "Expected `seed`",
    "select TABLE --rule ac-random --param seed=-1": "Expected `seed`",
    "select TABLE --rule ac-random --param seed=true": "Expected `seed`",
    "select TABLE --plugin absent.py": "cannot be loaded",
    "select TABLE --param tolerance=paired --param alpha=2": "`alpha` … above 0 and below 1",
    "select TABLE --param alpha=0.1": "no alpha with tolerance 'fixed'",
    "select TABLE --param tolerance=paired --param alpha=1e-320": "`alpha` of at least 1e-300",
    "select TABLE --objectives ''": "Expected objectives with commas between",
    "select TABLE --rule ac --objectives ' , '": "Expected objectives with commas between",
    "select TABLE --rule ac --objectives nll,": "Expected objectives with commas between",
    "select TABLE --wat": "No such option",
    "select TABLE --out TABLE": "which is the input",
    "select TABLE --out nowhere/a.json": "the folder of nowhere/a.json to exist",
    "select TABLE --weights a=1,a=2": "names 'a' twice",
    "study report TABLE -o TABLE": "which is the input",
    "study status TABLE --verify": "is a file: name the folder",
    "study compare TABLE": "results on held-out domains beside source validation",
    "metrics nowhere.npz": "nowhere.npz",
    "metrics TABLE": "Expected an .npz",
    "select TABLE --copy-to x": "names no file for it",
    "select TABLE --copy-to .": ". is a folder: choose another",
    "study report TABLE -o -": "got '-': name a file",
    "select TABLE --copy-to nowhere/x": "the folder of nowhere/x to exist",
    "select TABLE --copy-to TABLE --force": "run.csv",
    "study compare . --out nowhere/a.csv": "the folder of nowhere/a.csv to exist",
    "study pack . -o nowhere/a.tar.xz": "the folder of nowhere/a.tar.xz to exist",
    "select a.csv b.csv": "a.csv",
    "study compare a b c": "Got unexpected extra arguments (b c)",
    "rules x": "Got unexpected extra argument (x)",
    "study report . --figures TABLE": "run.csv is a file: choose another",
    "study report . --tables TABLE/deep": "run.csv is a file: choose another",
    "study unpack TABLE --out TABLE": "Expected a new folder, but",
    "study unpack . --out nowhere": "but . is a folder: name the .tar.xz file",
    "fly": "No such command",
    "select TABLE --delta-pp 1 --param delta_pp=3": "--delta-pp",
    "select TABLE --param delta_pp=1 --param delta_pp=3": "`delta_pp`",
}


def test_bad_input_is_one_line_and_exit_code_2(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    assert not otherwise(REFUSED, TABLE=table)


def test_a_standard_stream_is_no_file_to_write(table: Path) -> None:
    with refused("value"):
        places.check_file(Path("/dev/stdout"), table)


def test_a_packed_cohort_has_to_be_unpacked(table: Path) -> None:
    packed = table.with_name("study.tar.xz")
    packed.write_bytes(b"packed")
    assert f"`checkwise study unpack {packed} --out FOLDER`" in refusal("select", packed)


def test_a_rule_of_ones_own_comes_with_the_command_line(table: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "house_rules.py"
    plugin.write_text(
        "import checkwise as cw\n"
        "@cw.rule('house-latest', constrained=True)\n"
        "def latest(table, *, delta_pp=0.5, back=1):\n"
        "    'The latest feasible checkpoint.'\n"
        "    return table['step'][table.within(delta_pp)][-back]\n"
    )
    code = (
        "from checkwise.cli import main; main(["
        f"'select', {str(table)!r}, '--plugin', {str(plugin)!r}, '--rule', 'house-latest', "
        "'--param', 'back=2', '--json'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert json.loads(done.stdout)["runs"][0]["selection"]["step"] == 100, done.stderr


def predictions(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 50)
    for step, skill in ((100, 3.0), (200, 1.0)):
        here = folder / f"step-{step:06d}"
        here.mkdir(parents=True)
        logits = skill * np.eye(3)[labels] + rng.normal(size=(50, 3))
        np.savez(here / "photo.npz", logits=logits, labels=labels)
        (here / "weights.safetensors").write_bytes(bytes([step // 100]))
    return folder


@pytest.mark.parametrize("width", [60, 200])
def test_metrics_that_do_not_fit_are_named_and_no_number_is_cut(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "WIDE", width)
    text = said("select", predictions(tmp_path / "run"), "--no-guard", "--table")
    ranked, _, without = text[text.index("\nrank ") + 1 :].partition("Without ")
    rows = ranked.partition("More:")[0].partition("Next:")[0].splitlines()
    assert max(map(len, rows)) <= width
    assert {"rank", "step", "accuracy", "below", "score", "NLL", "CwECE"} <= set(rows[0].split())
    assert ("worst-class" in rows[0]) == (width == 200)
    assert ("worst-class accuracy: -o FILE.csv" in without) == (width == 60)
    nll = {f"{value:.4g}" for value in cw.load(tmp_path / "run").values["nll"][:, 0]}
    assert nll <= set(ranked.split())


def test_the_chosen_weights_are_copied_with_the_reason(tmp_path: Path) -> None:
    folder = predictions(tmp_path / "run")
    best = tmp_path / "best.safetensors"
    assert run("select", folder, "--copy-to", best) == 0
    why = json.loads((tmp_path / "best.safetensors.json").read_text())
    assert best.read_bytes() == bytes([why["step"] // 100])
    assert why["guard"]["acted"]
    assert f"Use step {why['step']}" in why["explanation"]
    best.write_bytes(b"precious")
    assert run("select", folder, "--copy-to", best) == 2
    assert best.read_bytes() == b"precious"
    assert run("select", folder, "--copy-to", best, "--force") == 0


def test_a_copy_does_not_replace_a_checkpoint_behind_a_link(tmp_path: Path) -> None:
    folder = predictions(tmp_path / "run")
    kept = {Path(path): Path(path).read_bytes() for path in cw.load(folder).paths or () if path}
    assert len(kept) > 1
    for place in kept:
        for name in ("best.pt", "other.pt.json"):
            link = tmp_path / name
            link.symlink_to(place)
            assert (
                run("select", folder, "--copy-to", tmp_path / name.removesuffix(".json"), "--force")
                == 2
            )
            assert str(link) in heard().err
            link.unlink()
    assert kept == {path: path.read_bytes() for path in kept}


def test_a_copy_says_which_weights_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,accuracy,path\n1,0.5,gone.pt\n")
    assert "gone.pt" in refusal(
        "select", path, "--rule", "source-acc", "--copy-to", tmp_path / "best.pt"
    )


def test_metrics_of_a_file(tmp_path: Path) -> None:
    file = predictions(tmp_path / "run") / "step-000100" / "photo.npz"
    found = answer("metrics", file, "--per-class")
    with np.load(file) as saved:
        report = cw.metrics.evaluate(logits=saved["logits"], labels=saved["labels"])
    assert found["nll"] == report.nll
    assert len(found["per_class"]["count"]) == 3
    text = said("metrics", file)
    assert "50 examples, 3 classes, from logits" in text
    rows = dict(re.split(r"\s{2,}", line.strip())[:2] for line in text.splitlines()[2:])
    for shown, name in {"soft ECE": "ece", "soft CwECE": "cwece", "ECE": "hard_ece"}.items():
        assert float(rows[shown].split()[0]) == pytest.approx(100 * found[name], abs=1e-4)


def test_huge_values_do_not_push_the_names_away(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", logits=np.array([[0.0, 1e300]]), labels=np.array([0]))
    assert run("metrics", tmp_path / "a.npz") == 0
    assert ["nll", "1.0000e+300"] in [line.split() for line in heard().out.splitlines()]


def test_a_warning_is_one_line_without_python(tmp_path: Path) -> None:
    probs = np.full((4, 2), 0.5)
    np.savez(tmp_path / "a.npz", logits=probs, labels=np.array([0, 1, 0, 1]))
    assert run("metrics", tmp_path / "a.npz") == 0
    refusal = heard().err
    assert refusal.startswith("checkwise: warning: ")
    assert refusal.count("\n") == 1


def test_debug_shows_the_traceback() -> None:
    assert run("select", "nowhere", "--debug") == 2
    assert "Traceback" in heard().err


def saturated_rows(seeds: int) -> str:
    """Two errors in 258 at the best checkpoint, for one run or several."""
    lines = ["trial_seed,step,accuracy,nll,cwece,n"]
    lines += [
        f"{seed},{step},{(258 - wrong) / 258!r},{nll},0.01,258"
        for seed in range(seeds)
        for step, wrong, nll in ((100, 2, 0.3), (200, 2, 0.2), (300, 2, 0.1))
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seeds", [1, 3])
def test_saturated_validation_has_one_answer(seeds: int, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(saturated_rows(seeds))
    text = said("select", path)
    assert text.count("--no-guard") == 1
    if seeds == 1:
        assert text.startswith("Use step 100.")
        assert "2 errors in 258" in text
        assert "--no-guard: step 300" in text
    for option, step in ((), 100), (("--no-guard",), 300):
        for entry in answer("select", path, *option)["runs"]:
            chosen = entry["selection"]
            assert (chosen["rule"], chosen["step"]) == ("ac-nc", step)
            assert (chosen["score"] is None) == (not option)
            without = {"acted": True, "errors": 2, "examples": 258, "without": 300}
            assert chosen["guard"] == (None if option else without)


@pytest.mark.parametrize("option", ["--out", "--page", "--copy-to"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_nothing_that_was_read_is_written_over(
    option: str, force: list[str], tmp_path: Path
) -> None:
    """Neither the log, nor a checkpoint, nor a journal, of any run, nor through a link."""
    for name in ("one", "two"):
        folder = tmp_path / name
        (folder / "checkpoints").mkdir(parents=True)
        rows = ["epoch,step,val_acc,val_loss"]
        for epoch in range(3):
            rows.append(f"{epoch},{100 * epoch + 99},{0.8 + epoch / 100},{1 / (epoch + 1)}")
            weights = f"epoch={epoch}-step={100 * epoch + 100}.ckpt"
            (folder / "checkpoints" / weights).write_bytes(b"weights")
        (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "one" / "metrics.csv")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    last = "checkpoints/epoch=2-step=300.ckpt"
    targets = ["one/metrics.csv", f"one/{last}", "two/metrics.csv", f"two/{last}", "link.csv"]
    assert run("select", *(tmp_path / name for name in ("one", "two")), "--best") == 0
    runs = [tmp_path / "one", tmp_path / "two"]
    for target in targets:
        assert target.split("/")[-1] in refusal(
            "select", *runs, "--best", option, tmp_path / target, *force
        )
    assert before == {path: path.read_bytes() for path in before}


def test_another_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text("step,accuracy,nll\n1,0.8,0.5\n2,0.9,0.4\n")
    mine = tmp_path / "mine.json"
    mine.write_text('{"mine": 1}')
    assert run("select", tmp_path / "run.csv", "-o", mine) == 2
    assert mine.read_text() == '{"mine": 1}'
    for _ in range(2):  # an earlier answer may be replaced
        assert run("select", tmp_path / "run.csv", "-o", tmp_path / "choice.json") == 0
        assert run("select", tmp_path / "run.csv", "--page", tmp_path / "page.html") == 0
        assert run("select", tmp_path / "run.csv", "-o", tmp_path / "table.csv") == 0
    assert run("select", tmp_path / "run.csv", "-o", mine, "--force") == 0
    same = ["-o", tmp_path / "x.json", "--page", tmp_path / "x.json"]
    assert run("select", tmp_path / "run.csv", *same) == 2


@pytest.mark.parametrize("command", ["select", "prune", "deploy"])
def test_an_empty_path_is_not_this_folder(command: str, tmp_path: Path) -> None:
    assert run(command, "", *(["-o", tmp_path / "m"] if command == "deploy" else [])) == 2


@pytest.mark.parametrize(
    "name", ["checkpoint-{}.pt", "weights/my model_step{}.ckpt", "notes-{}.txt"]
)
def test_files_that_look_like_checkpoints_come_with_the_option_that_takes_them(
    name: str, tmp_path: Path
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("step,val_accuracy,val_loss\n100,0.8,0.6\n200,0.9,0.4\n300,0.85,0.5\n")
    (tmp_path / "weights").mkdir()
    for step in (100, 200, 300):
        (tmp_path / name.format(step)).touch()
    text = said("select", log)
    assert text.startswith("Use step 200.\n")
    (line,) = [line for line in text.splitlines() if "--checkpoints" in line]
    if name.endswith("txt"):
        assert "{step}" not in line
        return
    count, _, typed = line.partition(" ")
    assert count == "3"
    option = shlex.split(typed[typed.index("--checkpoints") :])
    assert said("select", log, *option).startswith(f"Use step 200: {tmp_path / name.format(200)}\n")
    assert said("select", tmp_path, *option).startswith("Use step 200: ")


def test_json_has_the_call_and_what_the_trainer_calls_its_best(tmp_path: Path) -> None:
    trees = tmp_path / "evals.json"
    curves = {"mlogloss": [1.0, 0.6, 0.4, 0.5], "merror": [0.5, 0.4, 0.2, 0.2]}
    trees.write_text(json.dumps({"valid": curves}))
    found = selection(trees)
    assert found["call"] == "predict(…, iteration_range=(0, 3))"
    assert found["call"] in said("select", trees).splitlines()[0]
    rows = [
        {"step": step, "epoch": step / 100, "eval_accuracy": accuracy, "eval_loss": loss}
        for step, accuracy, loss in ((100, 0.9, 0.5), (200, 0.904, 0.8))
    ]
    state = {"best_model_checkpoint": "out/checkpoint-200", "log_history": rows}
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    found = selection(tmp_path / "trainer_state.json")
    assert found["own_best"] == {"name": "checkpoint-200", "step": 200}


def test_options_of_select_and_foreign_json_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"a": 1}')
    lines = {
        "prune RUN --delta-pp 1": "--delta-pp … checkwise select … prune choice.json",
        "deploy RUN --held-out art -o OUT": "--held-out … checkwise select … deploy choice.json",
        "prune RUN --keep-lats 1": "--keep-last",
        "deploy JSON -o OUT": "choice.json … other.json",
    }
    if find_spec("torch") is None:
        lines = {line: said for line, said in lines.items() if not line.startswith("deploy")}
    json_file, out = tmp_path / "other.json", tmp_path / "out"
    assert not otherwise(lines, RUN=tmp_path, OUT=out, JSON=json_file)
