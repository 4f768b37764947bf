"""The command line as a user meets it: answers, JSON, files, and one line when something is off."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import checkwise as cw
from checkwise.cli import main, printing
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


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_one_run_is_answered_with_reasons(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("select", table) == 0
    said = capsys.readouterr().out
    assert "ac-nc chose step 200" in said
    assert "0.50 points below the best of 3 checkpoints" in said


def several(table: Path) -> Path:
    """Two equal runs in one table."""
    lines = table.read_text().splitlines()
    rows = [f"{name},{line}" for name in ("a", "b") for line in lines[1:]]
    path = table.with_name("runs.csv")
    path.write_text("\n".join([f"run,{lines[0]}", *rows]) + "\n")
    return path


def test_several_runs_get_a_row_each_and_a_summary(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = several(table)
    assert run("select", path) == 0
    said = capsys.readouterr().out
    assert "2 runs: mean gap 0.50 points" in said
    assert "ac-nc differs from source-acc in 2" in said
    found = answer(capsys, "select", path)
    assert [entry["selection"]["step"] for entry in found["runs"]] == [200, 200]


def test_json_is_strict_and_stable(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "select", table)
    assert found["step"] == 200
    assert found["params"]["q"] == "inf"
    assert found["feasible_steps"] == [100, 200]
    assert found["schema"] == 1
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
def test_options_reach_the_rule(
    table: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], step: int
) -> None:
    assert answer(capsys, "select", table, *options)["step"] == step


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
        ("--q", "1"),
        ("--pareto",),
        ("--weights", "sample"),
        ("--weights", "photo=3,art=1"),
        ("--worst-domain",),
    ],
)
def test_options_about_norm_and_domains_change_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    path = tmp_path / "domains.csv"
    path.write_text(DOMAINS)
    assert answer(capsys, "select", path, "--delta-pp", "2")["step"] == 100
    assert answer(capsys, "select", path, "--delta-pp", "2", *options)["step"] == 300


def without(table: Path, *columns: str) -> Path:
    """The table with fewer columns."""
    path = table.with_name(f"no-{'-'.join(columns)}.csv")
    pandas.read_csv(table).drop(columns=list(columns)).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("gone", "rule", "step"),
    [((), "ac-nc", 200), (("cwece",), "ac-nll", 200), (("cwece", "nll"), "source-acc", 100)],
)
def test_every_command_uses_the_best_rule_that_the_table_allows(
    table: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    gone: tuple[str, ...],
    rule: str,
    step: int,
) -> None:
    path = without(table, *gone)
    assert run("select", path) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"Rule: {rule}{', because' if gone else '.'}")
    found = answer(capsys, "select", path)
    assert (found["rule"], found["step"]) == (rule, step)
    assert (found["rule_reason"] is None) == (not gone)
    assert run("report", path, "-o", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text()
    assert f"{rule} chose step {step}" in page
    assert (f"Rule: {rule}, because" in page) == bool(gone)
    named = pandas.read_csv(path).assign(path=str(table))
    named.to_csv(path, index=False)
    assert run("export", path, "-o", tmp_path / "best.pt") == 0
    assert json.loads((tmp_path / "best.pt.json").read_text())["rule"] == rule


def test_runs_with_different_data_are_counted_by_rule(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without(table, "cwece")
    without(table, "cwece", "nll")
    folder = table.parent / "runs"
    for number, file in enumerate(sorted(table.parent.glob("*.csv"))):
        (folder / str(number)).mkdir(parents=True)
        records = pandas.read_csv(file)
        records.to_json(folder / str(number) / "results.jsonl", orient="records", lines=True)
    assert run("select", folder) == 0
    said = capsys.readouterr().out
    assert "1 of 3 runs: Rule: ac-nll, because there is no cwece" in said
    assert "1 of 3 runs: Rule: source-acc, because there is accuracy alone" in said
    assert "1 of 3 runs: Rule: ac-nc." in said
    rules = [entry["selection"]["rule"] for entry in answer(capsys, "select", folder)["runs"]]
    assert sorted(rules) == ["ac-nc", "ac-nll", "source-acc"]
    assert run("select", folder, "--rule", "ac-nc") == 2


@pytest.mark.parametrize(
    "options",
    [
        ("--delta-pp", "1", "--param", "delta_pp=3"),
        ("--param", "delta_pp=1", "--param", "delta_pp=3"),
    ],
)
def test_a_parameter_given_twice_is_refused(
    table: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    assert run("select", table, *options) == 2
    assert "`delta_pp`" in capsys.readouterr().err


def test_results_are_written_to_files(table: Path, tmp_path: Path) -> None:
    assert run("select", table, "--out", tmp_path / "a.json") == 0
    assert json.loads((tmp_path / "a.json").read_text())["step"] == 200
    assert run("select", table, "--out", tmp_path / "a.csv") == 0
    assert (tmp_path / "a.csv").read_text().startswith("rank,step,accuracy,gap_pp,feasible,score")
    assert run("select", table, "--out", tmp_path / "a.txt") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("select", "nowhere"), "nothing at nowhere"),
        (("select",), "Missing argument"),
        (("select", "TABLE", "--rule", "best"), "one of the rules source-acc"),
        (("select", "TABLE", "--delta-pp", "wide"), "a number for --delta-pp, but got 'wide'"),
        (("select", "TABLE", "--delta-pp", "-1"), "delta_pp of 0 or more"),
        (("select", "TABLE", "--q", "3"), "--q 1, 2 or inf, but got '3'"),
        (("select", "TABLE", "--weights", "size"), "weights 'equal', 'sample'"),
        (("select", "TABLE", "--weights", "x=1"), "a weight for each of validation"),
        (("select", "TABLE", "--weights", "sample", "--worst-domain"), "has no weights"),
        (("select", "TABLE", "--held-out", "sketch"), "held-out domain 'sketch'"),
        (("select", "TABLE", "--rule", "ac-ece"), "needs ece"),
        (("select", "TABLE", "--rule", "wald"), "checkwise: Rule wald needs ece"),
        (("select", "TABLE", "--rule", "ac"), "needs the parameter 'objectives'"),
        (("select", "TABLE", "--rule", "source-acc", "--q", "1"), "no parameter 'q'"),
        (("select", "TABLE", "--param", "x"), "--param NAME=VALUE"),
        *(
            (
                ("select", "TABLE", "--rule", "ac-random", "--param", f"seed={seed}"),
                "Expected `seed`",
            )
            for seed in ("x", "", "1.5", "-1", "true")
        ),
        (("select", "TABLE", "--plugin", "absent.py"), "cannot be loaded"),
        (("select", "TABLE", "--alpha", "2"), "`alpha` to be a number above 0 and below 1"),
        *(
            (("select", "TABLE", *given), "`alpha` of at least 1e-300, but got 9.99989e-321")
            for given in (
                ("--alpha", "1e-320", "--json"),
                ("--alpha", "1e-320", "--tolerance", "paired"),
            )
        ),
        *(
            (("select", "TABLE", *given), "Expected --objectives to name metrics")
            for given in (
                ("--objectives", ""),
                ("--rule", "ac", "--objectives", " , "),
                ("--rule", "ac", "--objectives", "nll,"),
            )
        ),
        (("select", "TABLE", "--wat"), "No such option"),
        (("select", "TABLE", "--out", "TABLE"), "which is the input"),
        (("select", "TABLE", "--out", "nowhere/a.json"), "the folder of nowhere/a.json to exist"),
        (("select", "TABLE", "--weights", "a=1,a=2"), "names 'a' twice"),
        (("report", "TABLE", "-o", "TABLE"), "which is the input"),
        (("verify", "TABLE"), "is a file: name the folder"),
        (("compare", "TABLE"), "results on held-out domains beside source validation"),
        (("metrics", "nowhere.npz"), "nowhere.npz"),
        (("metrics", "TABLE"), "Expected an .npz"),
        (("export", "TABLE", "-o", "x"), "names no file for it"),
        (("export", "TABLE", "-o", "."), ". is a folder: choose another"),
        (("report", "TABLE", "-o", "-"), "got '-': results are not written to a standard stream"),
        (("export", "TABLE", "-o", "nowhere/x"), "the folder of nowhere/x to exist"),
        (("export", "TABLE", "-o", "TABLE", "--force"), "which is the input"),
        (("compare", ".", "--out", "nowhere/a.csv"), "the folder of nowhere/a.csv to exist"),
        (("pack", ".", "-o", "nowhere/a.tar.xz"), "the folder of nowhere/a.tar.xz to exist"),
        (("select", "TABLE", "b.csv"), "Expected one PATH, but got b.csv as well: give `checkw"),
        (("compare", "a", "b", "c"), "Expected one COHORT, but got b c as well"),
        (("rules", "x"), "Expected options only, but got x: leave"),
        (("figures", ".", "--out", "TABLE"), "run.csv is a file: choose another"),
        (("tables", ".", "--out", "TABLE/deep"), "run.csv is a file: choose another"),
        (("unpack", "TABLE", "--out", "TABLE"), "Expected a new folder, but"),
        (("unpack", ".", "--out", "nowhere"), "but . is a folder: name the .tar.xz file"),
        (("fly",), "No such command"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    table: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(table.parent)
    words = [word.replace("TABLE", str(table)) for word in arguments]
    assert run(*words) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert "Traceback" not in said


def test_a_standard_stream_is_no_file_to_write(table: Path) -> None:
    with refused("value"):
        printing.refuse_to_overwrite(table, Path("/dev/stdout"))


def test_a_packed_cohort_has_to_be_unpacked(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = table.with_name("study.tar.xz")
    packed.write_bytes(b"packed")
    assert run("select", packed) == 2
    assert f"`checkwise unpack {packed} --out FOLDER`" in capsys.readouterr().err


def test_a_rule_of_ones_own_comes_with_the_command_line(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert json.loads(done.stdout)["step"] == 100, done.stderr


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
    width: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(printing, "WIDE", width)
    assert run("select", predictions(tmp_path / "run"), "--no-guard") == 0
    shown, _, _ = capsys.readouterr().out.partition("\n\n")
    table, _, without = shown.partition("… and ")
    ranking = table[table.index("\nrank ") + 1 :]
    assert max(len(line) for line in ranking.splitlines()) <= width
    assert {"rank", "step", "accuracy", "gap", "score", "nll", "cwece"} <= set(table.split())
    assert ("worst_class_accuracy" in table) == (width == 200)
    assert ("worst_class_accuracy (--out FILE.csv" in without) == (width == 60)
    nll = {f"{value:.4g}" for value in cw.load(tmp_path / "run").values["nll"][:, 0]}
    assert nll <= set(table.split())


def test_export_copies_the_chosen_weights_and_says_why(tmp_path: Path) -> None:
    folder = predictions(tmp_path / "run")
    best = tmp_path / "best.safetensors"
    assert run("export", folder, "-o", best) == 0
    why = json.loads((tmp_path / "best.safetensors.json").read_text())
    assert best.read_bytes() == bytes([why["step"] // 100])
    assert why["guard"]["acted"]
    assert f"Use step {why['step']}" in why["explanation"]
    best.write_bytes(b"precious")
    assert run("export", folder, "-o", best) == 2
    assert best.read_bytes() == b"precious"
    assert run("export", folder, "-o", best, "--force") == 0


def test_export_does_not_replace_a_checkpoint_behind_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = predictions(tmp_path / "run")
    kept = {Path(path): Path(path).read_bytes() for path in cw.load(folder).paths or () if path}
    assert len(kept) > 1
    for place in kept:
        for name in ("best.pt", "other.pt.json"):
            link = tmp_path / name
            link.symlink_to(place)
            assert (
                run("export", folder, "-o", tmp_path / name.removesuffix(".json"), "--force") == 2
            )
            assert f"{link}, which is a checkpoint of the run" in capsys.readouterr().err
            link.unlink()
    assert kept == {path: path.read_bytes() for path in kept}


def test_export_says_which_weights_are_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,accuracy,path\n1,0.5,gone.pt\n")
    assert run("export", path, "--rule", "source-acc", "-o", tmp_path / "best.pt") == 2
    assert "gone.pt" in capsys.readouterr().err


def test_metrics_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = predictions(tmp_path / "run") / "step-000100" / "photo.npz"
    found = answer(capsys, "metrics", file, "--per-class")
    with np.load(file) as saved:
        report = cw.metrics.evaluate(logits=saved["logits"], labels=saved["labels"])
    assert found["nll"] == report.nll
    assert len(found["per_class"]["count"]) == 3
    assert run("metrics", file) == 0
    assert "50 examples, 3 classes, from logits" in capsys.readouterr().out


def test_huge_values_do_not_push_the_names_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "a.npz", logits=np.array([[0.0, 1e300]]), labels=np.array([0]))
    assert run("metrics", tmp_path / "a.npz") == 0
    assert ["nll", "1.0000e+300"] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_a_warning_is_one_line_without_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    probs = np.full((4, 2), 0.5)
    np.savez(tmp_path / "a.npz", logits=probs, labels=np.array([0, 1, 0, 1]))
    assert run("metrics", tmp_path / "a.npz") == 0
    said = capsys.readouterr().err
    assert said.startswith("checkwise: warning: ")
    assert said.count("\n") == 1


def test_debug_shows_the_traceback(table: Path) -> None:
    with pytest.raises(cw.InputError):
        main(["select", "nowhere", "--debug"])


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
def test_saturated_validation_has_one_answer_before_the_table(
    seeds: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.csv").write_text(saturated_rows(seeds))
    with pytest.raises(SystemExit) as stop:
        main(["select", str(tmp_path / "run.csv")])
    assert stop.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert "--no-guard" in lines[1]
    assert sum("guard" in line for line in lines) == 1
    for option, step in ((), "100"), (("--no-guard",), "300"):
        with pytest.raises(SystemExit) as stop:
            main(["select", str(tmp_path / "run.csv"), "--json", *option])
        assert stop.value.code == 0
        record = json.loads(capsys.readouterr().out)
        for chosen in [one["selection"] for one in record["runs"]] if seeds > 1 else [record]:
            assert (chosen["rule"], str(chosen["step"])) == ("ac-nc", step)
            without = {"acted": True, "errors": 2, "examples": 258, "without": 300}
            assert chosen["guard"] == (None if option else without)
