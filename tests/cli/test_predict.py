"""``checkwise predict``: outputs of checkpoints by a user's function, as if saved by hand."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from tests.cli.calls import heard, otherwise, run
from tests.cli.predict_functions import DOMAINS, STEPS, checkpoints, plain_outputs, train
from tests.refusals import names


def predict(folder: Path, function: str | Path, out: Path, *more: str, domains: str = "a") -> int:
    words = ("--function", str(function), "--domains", domains, "-o", str(out), *more)
    return run("predict", folder, *words)


def outputs_in(out: Path) -> dict[str, bytes]:
    return {str(f.relative_to(out)): f.read_bytes() for f in sorted(out.glob("step-*/*.npz"))}


def said() -> str:
    error = heard().err
    assert error.count("\n") == 1, error
    assert error.startswith("checkwise: ")
    return error


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("trained")
    return folder, train(folder)


@pytest.mark.parametrize(("kind", "name"), [("weights", "outputs"), ("states", "outputs_as_dict")])
def test_the_choice_is_that_of_the_same_outputs_in_memory(
    kind: str, name: str, trained: tuple[Path, Any], tmp_path: Path
) -> None:
    folder, outputs = trained
    out = tmp_path / "predictions"
    function = folder / f"evaluate.py:{name}"
    assert predict(folder / kind, function, out, domains="plain,dim") == 0
    read = cw.load(out)
    expected = cw.Trajectory.from_predictions(outputs)
    assert read.steps.tolist() == list(STEPS)
    assert read.domains == DOMAINS
    for name, values in expected.values.items():
        # The same network in another process, whose threads may add in another order.
        np.testing.assert_allclose(read.values[name], values, atol=1e-5)
    choice = cw.select(expected)
    heard()
    assert run("select", out, "--json") == 0
    (entry,) = json.loads(heard().out)["runs"]
    answer = entry["selection"]
    assert answer["step"] == choice.step
    names = {"weights": f"step-{choice.step:06d}.safetensors", "states": f"model_{choice.step}.pt"}
    assert Path(answer["path"]).samefile(folder / kind / names[kind])
    assert run("select", out, "--copy-to", tmp_path / "best") == 0
    assert (tmp_path / "best").read_bytes() == Path(answer["path"]).read_bytes()


def test_bfloat16_is_read(trained: tuple[Path, Any], tmp_path: Path) -> None:
    folder, outputs = trained
    function = folder / "evaluate.py:outputs_in_bfloat16"
    assert predict(folder / "weights", function, tmp_path / "out", domains="plain") == 0
    with np.load(tmp_path / "out" / f"step-{STEPS[-1]:06d}" / "plain.npz") as saved:
        logits, _ = outputs[STEPS[-1]]["plain"]
        assert saved["logits"].dtype == np.float32
        np.testing.assert_allclose(saved["logits"], logits, rtol=2**-8, atol=1e-3)
    assert cw.load(tmp_path / "out").steps.tolist() == list(STEPS)


def test_the_number_of_workers_changes_no_byte(tmp_path: Path) -> None:
    folder = checkpoints(tmp_path / "run", {step: step / 3 for step in range(1, 13)})
    function = tmp_path / "plain.py:outputs"
    for workers in ("1", "2"):
        out = tmp_path / workers
        assert predict(folder, function, out, "--workers", workers, domains="a,b") == 0
    assert len(outputs_in(tmp_path / "1")) == 24
    assert outputs_in(tmp_path / "1") == outputs_in(tmp_path / "2")


def test_every_checkpoint_is_evaluated_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    monkeypatch.setenv("CALLS", str(calls))
    folder, out = checkpoints(tmp_path / "run"), tmp_path / "out"
    function = tmp_path / "plain.py:outputs"
    assert predict(folder, function, out) == 0
    assert calls.read_text().splitlines() == [f"model_{step}.pt a" for step in (1, 2, 3, 4)]
    (folder / "model_5.pt").write_text("9")
    shutil.rmtree(out / "step-000002")
    (out / "step-000003" / "a.npz").write_bytes((out / "step-000003" / "a.npz").read_bytes()[:-9])
    calls.unlink()
    assert predict(folder, function, out, domains="a,b") == 0
    again = [f"model_{step}.pt a" for step in (2, 3, 5)]
    assert sorted(calls.read_text().splitlines()) == sorted(
        [*again, *(f"model_{step}.pt b" for step in range(1, 6))]
    )
    heard()
    assert predict(folder, function, out, "--json", domains="b") == 0
    facts = json.loads(heard().out)
    assert (facts["written"], facts["missing"], facts["failed"]) == (0, 0, [])
    assert cw.load(out).domains == ("a", "b")


def test_killed_at_any_instant_and_run_again_gives_the_same_files(tmp_path: Path) -> None:
    folder = checkpoints(tmp_path / "run", {step: float(step) for step in range(1, 17)})
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    function = str(tmp_path / "plain.py:slow")
    assert predict(folder, function, whole, domains="a,b") == 0
    words = ["predict", folder, "--function", function, "--domains", "a,b", "-o", killed]
    command = [sys.executable, "-m", "checkwise", *map(str, words), "--workers", "2"]
    draw, counts = random.Random(0), []
    for _ in range(4):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        before = len(outputs_in(killed))
        # Wait for the work to begin, then for any instant of it.
        while len(outputs_in(killed)) == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        counts.append(len(outputs_in(killed)))
    assert counts[0] < 32  # it was killed in the midst of work
    assert predict(folder, function, killed, domains="a,b") == 0
    assert outputs_in(killed) == outputs_in(whole)
    assert [f for f in killed.rglob("*") if f.name.startswith(".")] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    folder = checkpoints(tmp_path / "run", {step: float(step) for step in range(1, 200)})
    out = tmp_path / "out"
    words = ["predict", folder, "--function", tmp_path / "plain.py:slow", "--domains", "a"]
    command = [sys.executable, "-m", "checkwise", *map(str, words), "-o", str(out)]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A shell lets what it starts in the background ignore interrupts.
    listening: Any = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    process = subprocess.Popen([*command, "--workers", "2"], **pipes, **listening)
    while len(outputs_in(out)) < 3 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    shown, error = process.communicate()
    assert (process.returncode, error) == (128 + number, "")
    assert "Interrupted. The same command continues where it stopped." in shown
    there = outputs_in(out)
    assert 3 <= len(there) < 199
    assert [f for f in out.rglob("*") if f.name.startswith(".")] == []
    assert all(np.load(out / name)["logits"].shape == (60, 4) for name in there)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_one_failing_checkpoint_does_not_stop_the_others(workers: str, tmp_path: Path) -> None:
    folder, out = checkpoints(tmp_path / "run", {1: 1.0, 2: -1.0, 3: 3.0}), tmp_path / "out"
    words = ("--workers", workers)
    assert predict(folder, tmp_path / "plain.py:outputs", out, *words, domains="a,b") == 2
    shown, error = heard()
    assert f"step 2, a ({folder / 'model_2.pt'}): RuntimeError: cannot load this one" in shown
    assert names("1 … 2 … 'a' … RuntimeError … -1.0", error)
    assert "Traceback" not in error
    assert [*outputs_in(out)] == [f"step-{s:06d}/{d}.npz" for s in (1, 3) for d in "ab"]
    assert cw.load(out).steps.tolist() == [1, 3]
    (folder / "model_2.pt").write_text("2")  # nothing was written for it: no --force
    assert predict(folder, tmp_path / "plain.py:outputs", out, domains="a,b") == 0
    assert len(outputs_in(out)) == 6


def test_outputs_of_a_checkpoint_that_is_saved_again_meanwhile_are_not_kept(tmp_path: Path) -> None:
    folder, out = checkpoints(tmp_path / "run"), tmp_path / "out"
    assert predict(folder, tmp_path / "plain.py:overwritten", out) == 2
    assert names("1 … 4 … 'a'", said())
    assert [*outputs_in(out)] == [f"step-{step:06d}/a.npz" for step in (1, 3, 4)]


def test_debug_shows_the_traceback_of_the_function(tmp_path: Path) -> None:
    folder = checkpoints(tmp_path / "run", {1: -1.0})
    words = ["predict", folder, "--function", tmp_path / "plain.py:outputs", "--domains", "a"]
    command = [sys.executable, "-m", "checkwise", *map(str, words), "-o", str(tmp_path / "o")]
    done = subprocess.run([*command, "--debug"], capture_output=True, text=True)
    assert f'File "{tmp_path / "plain.py"}", line ' in done.stderr
    assert "raise RuntimeError" in done.stderr


@pytest.mark.parametrize(("function", "reason"), [("dies", "-9"), ("leaves", "SystemExit")])
def test_a_function_that_ends_its_process_fails_alone(
    function: str, reason: str, tmp_path: Path
) -> None:
    folder, out = checkpoints(tmp_path / "run"), tmp_path / "out"
    assert predict(folder, tmp_path / f"plain.py:{function}", out) == 2
    assert names(reason, said())
    assert cw.load(out).steps.tolist() == [1, 3, 4]


# A checkpoint is what the function returns.
EVALUATES = """\
import numpy as np

LOGITS = np.arange(18.0).reshape(6, 3) - 9
LABELS = np.arange(6) % 3


def outputs(path, domain):
    return eval(open(path).read())
"""
# What a function may return instead of outputs, and what is said.
WRONG = {
    "None": "but got NoneType",
    "LOGITS": "but got ndarray",
    "[LOGITS, LABELS]": "but got list of 2",
    "(LOGITS, LABELS, 1)": "groups, one per example",
    "(LOGITS, LABELS, LABELS, 1)": "but got tuple of 4",
    "{'logits': LOGITS}": "but got a dict with 'logits'",
    "{'logit': LOGITS, 'labels': LABELS}": "but got a dict with 'logit, labels'",
    "{'logits': LOGITS, 'probs': LOGITS, 'labels': LABELS}": "but got both",
    "{'probs': LOGITS, 'labels': LABELS}": "Expected probabilities of at least 0",
    "{'probs': np.full((6, 3), 0.4), 'labels': LABELS}": "that sum to 1 within 0.0001",
    "{'probs': np.full((6, 3), np.nan), 'labels': LABELS}": "Expected probabilities",
    "{'probs': np.eye(3)[[1, 1, 1, 1, 1, 1]], 'labels': LABELS}": "a positive probability",
    "(LOGITS[:, 0], LABELS)": "One column is the score of class 1 of two",
    "(LOGITS[:, :1], LABELS)": "One column is the score of class 1 of two",
    "(LOGITS[None], LABELS)": "of shape [n, C]",
    "(LOGITS[:0], LABELS[:0])": "at least one example",
    "(LOGITS, LABELS[:5])": "Expected 6 labels",
    "(LOGITS, np.eye(3)[LABELS])": "not one-hot rows",
    "(LOGITS, LABELS + 0.5)": "Expected integer labels",
    "(LOGITS, LABELS + 1)": "Expected labels from 0 to 2, but got 3",
    "(LOGITS, LABELS - 1)": "but got -1",
    "(LOGITS, LABELS.astype(str))": "Expected integer labels",
    "(LOGITS.astype(str), LABELS)": "Expected numbers in `logits`",
    "(LOGITS > 0, LABELS)": "Expected numbers in `logits`",
    "(LOGITS.astype(complex), LABELS)": "Expected numbers in `logits`",
    "([[1.0, 2.0], [3.0]], [0, 1])": "as a dense array of numbers",
    "(object(), LABELS)": "as a dense array of numbers",
    "(np.where(np.eye(3)[LABELS] > 0, -np.inf, LOGITS), LABELS)": "Do not mask out the true class",
}


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Path]:
    """One checkpoint per wrong output, all in one command."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "run").mkdir()
    for number, expression in enumerate(WRONG, start=1):
        (folder / "run" / f"model_{number}.pt").write_text(expression)
    (folder / "evaluate.py").write_text(EVALUATES)
    words = ["predict", "run", "--function", "evaluate.py:outputs", "--domains", "a", "-o", "out"]
    command = [sys.executable, "-m", "checkwise", *words, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 2
    return json.loads(done.stdout)["failed"], folder / "out"


def test_wrong_outputs_are_refused_with_the_reason_and_not_written(
    wrong: tuple[list[dict[str, Any]], Path],
) -> None:
    failures, out = wrong
    assert [failure["step"] for failure in failures] == list(range(1, len(WRONG) + 1))
    said = {one: failure["error"] for one, failure in zip(WRONG, failures, strict=True)}
    assert not [f"{one}: {said[one]}" for one, reason in WRONG.items() if reason not in said[one]]
    assert outputs_in(out) == {}


@pytest.mark.parametrize(
    ("second", "what", "in_two"),
    [
        ("(LOGITS[:5], LABELS[:5])", "examples … 'a' … 2", False),
        ("(LOGITS, LABELS[::-1])", "labels … 'a' … 2", True),
        ("(np.eye(4)[LABELS], LABELS)", "classes … 'a' … 2", True),
        ("{'probs': np.full((6, 3), 1 / 3), 'labels': LABELS}", "logits", False),
        ("{'probs': np.full((6, 3), 1 / 3), 'labels': LABELS}", "logits", True),
    ],
)
def test_a_domain_is_the_same_at_every_step(
    second: str, what: str, in_two: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / "evaluate.py").write_text(EVALUATES)
    (folder / "model_1.pt").write_text("(LOGITS, LABELS)")
    if in_two:  # the first step is known from its file
        assert predict(folder, tmp_path / "evaluate.py:outputs", tmp_path / "out") == 0
    (folder / "model_2.pt").write_text(second)
    assert predict(folder, tmp_path / "evaluate.py:outputs", tmp_path / "out") == 2
    assert names(what, said())
    assert [*outputs_in(tmp_path / "out")] == ["step-000001/a.npz"]


def test_logits_that_blew_up_are_written_and_never_chosen(tmp_path: Path) -> None:
    folder, out = checkpoints(tmp_path / "run", {1: 1.0, 2: np.inf, 3: np.nan}), tmp_path / "out"
    assert predict(folder, tmp_path / "plain.py:outputs", out) == 0
    assert cw.load(out).diverged.tolist() == [False, True, True]
    assert cw.select(cw.load(out)).step == 1


@pytest.mark.parametrize("change", ["function", "name", "checkpoint", "step"])
def test_outputs_of_two_functions_or_states_are_never_mixed(change: str, tmp_path: Path) -> None:
    folder, out = checkpoints(tmp_path / "run"), tmp_path / "out"
    function, more = tmp_path / "plain.py:outputs", []
    assert predict(folder, function, out) == 0
    before = outputs_in(out)
    if change == "function":
        source = (tmp_path / "plain.py").read_text()
        (tmp_path / "plain.py").write_text(source.replace("scale * (", "-scale * ("))
    elif change == "name":
        function = tmp_path / "plain.py:slow"
    elif change == "checkpoint":
        (folder / "model_3.pt").write_text("5.0")
    else:
        more = ["--checkpoints", "model_{step+1}.pt"]
    heard()
    assert predict(folder, function, out, *more) == 2
    assert "--force" in said()
    assert outputs_in(out) == before
    assert predict(folder, function, out, "--force", *more) == 0
    assert predict(folder, function, tmp_path / "new", *more) == 0
    assert outputs_in(out) == outputs_in(tmp_path / "new")
    if change == "name":
        assert outputs_in(out) == before
    else:
        assert outputs_in(out) != before
    if change == "checkpoint":
        with np.load(out / "step-000003" / "a.npz") as saved:
            np.testing.assert_array_equal(saved["logits"], plain_outputs(5.0)[0])


def test_outputs_that_something_else_saved_are_left_alone(tmp_path: Path) -> None:
    folder, out = checkpoints(tmp_path / "run"), tmp_path / "out"
    (out / "step-000009").mkdir(parents=True)
    np.savez(out / "step-000009" / "a.npz", logits=np.eye(3), labels=np.arange(3))
    assert predict(folder, tmp_path / "plain.py:outputs", out, "--force") == 2
    assert "holds other outputs: choose another" in said()
    assert not (out / "predictions.json").exists()


def test_two_commands_on_one_folder_do_not_meet(tmp_path: Path) -> None:
    folder = checkpoints(tmp_path / "run", {step: float(step) for step in range(1, 30)})
    words = ["predict", folder, "--function", tmp_path / "plain.py:slow", "--domains", "a"]
    command = [sys.executable, "-m", "checkwise", *map(str, words), "-o", str(tmp_path / "out")]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate() for process in both]
    # The second waits for the first; it finds nothing left to do, or gives up waiting.
    assert any(": 29 files written to" in shown for shown, _ in said)
    assert any(
        "0 files written" in shown or "another `checkwise predict` writes to" in error
        for shown, error in said
    )


class TestWhereCodeComesFrom:
    """Python looks where the user pointed, never in the current folder by itself."""

    @pytest.fixture(autouse=True)
    def _here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        checkpoints(tmp_path / "run")
        (tmp_path / "here").mkdir()
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "here")

    def test_a_module_in_the_current_folder_is_not_found(self, tmp_path: Path) -> None:
        shutil.copy(tmp_path / "plain.py", "mine.py")
        assert predict(tmp_path / "run", "mine:outputs", tmp_path / "out") == 2
        assert "mine" in said()
        assert not (tmp_path / "out").exists()

    def test_a_file_elsewhere_imports_nothing_of_the_current_folder(self, tmp_path: Path) -> None:
        Path("beside.py").write_text("raise SystemExit('it ran')\n")
        file = tmp_path / "elsewhere" / "evaluate.py"
        file.write_text("import beside\ndef outputs(path, domain): ...\n")
        assert predict(tmp_path / "run", f"{file}:outputs", tmp_path / "out") == 2
        assert "ModuleNotFoundError: No module named 'beside'" in said()

    def test_a_neighbour_is_found_and_replaces_no_installed_module(self, tmp_path: Path) -> None:
        for name in ("json", "numpy", "torch"):
            (tmp_path / "elsewhere" / f"{name}.py").write_text("raise SystemExit('it ran')\n")
        shutil.copy(tmp_path / "plain.py", tmp_path / "elsewhere" / "neighbour.py")
        file = tmp_path / "elsewhere" / "evaluate.py"
        file.write_text("import json, numpy\nfrom neighbour import outputs\n")
        assert predict(tmp_path / "run", f"{file}:outputs", tmp_path / "out") == 0

    def test_an_installed_module_works(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copy(tmp_path / "plain.py", tmp_path / "elsewhere" / "installed.py")
        monkeypatch.setenv(
            "PYTHONPATH",
            os.pathsep.join([str(tmp_path / "elsewhere"), os.environ.get("PYTHONPATH", "")]),
        )
        assert predict(tmp_path / "run", "installed:outputs", tmp_path / "out") == 0

    def test_a_file_may_start_processes_of_its_own(self, tmp_path: Path) -> None:
        """Under ``spawn`` they import the file again, by its name."""
        file = tmp_path / "elsewhere" / "evaluate_here.py"
        file.write_text(
            "import multiprocessing\nimport plain\n"
            "def one(path, domain): return plain.outputs(path, domain)\n"
            "def outputs(path, domain):\n"
            "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
            "        return pool.apply(one, (path, domain))\n"
        )
        shutil.copy(tmp_path / "plain.py", tmp_path / "elsewhere" / "plain.py")
        for step in (2, 3, 4):
            (tmp_path / "run" / f"model_{step}.pt").unlink()
        assert predict(tmp_path / "run", f"{file}:outputs", tmp_path / "out") == 0


FUNCTIONS = {
    "plain.py": "--function … file.py:function",
    "absent.py:outputs": "absent.py",
    "broken.py:outputs": "SyntaxError",
    "plain.py:absent": "absent",
    "plain.py:LABELS": "ndarray",
    "json.absent:outputs": "json.absent",
}
CANNOT_BE_FILES = {
    **dict.fromkeys(("a/b", "../a", ".a", "a" * 300), "that can name a file"),
    "a,a": "listed twice",
    "a,A": "different names",
    **dict.fromkeys(("a,", "a\nb"), "as text on one line"),
}


def test_functions_that_are_not_there_and_domains_that_cannot_be_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoints(tmp_path / "run")
    Path("broken.py").write_text("def outputs(:\n")
    predicts = "predict run -o out --function"
    lines = {f"{predicts} {one} --domains a": reason for one, reason in FUNCTIONS.items()}
    lines |= {
        f"{predicts} plain.py:outputs --domains {shlex.quote(one)}": reason
        for one, reason in CANNOT_BE_FILES.items()
    }
    assert not otherwise(lines)
    assert not Path("out").exists()


def test_a_domain_that_looks_held_out_is_written_with_a_warning(tmp_path: Path) -> None:
    folder, out = checkpoints(tmp_path / "run"), tmp_path / "out"
    assert predict(folder, tmp_path / "plain.py:outputs", out, domains="photo,test") == 0
    assert "warning: The domain 'test' looks held out" in said()
    assert len(outputs_in(out)) == 8
    assert cw.load(out).domains == ("photo",)


def test_probabilities_in_a_tuple_are_logits_with_a_warning(tmp_path: Path) -> None:
    folder = checkpoints(tmp_path / "run")
    (tmp_path / "evaluate.py").write_text(
        "import numpy as np\ndef outputs(path, domain): return np.eye(3), np.arange(3)\n"
    )
    assert predict(folder, tmp_path / "evaluate.py:outputs", tmp_path / "out") == 0
    assert "warning: The `logits` lie in [0, 1]" in said()
    assert np.load(tmp_path / "out" / "step-000001" / "a.npz").files == ["logits", "labels"]


def test_the_outputs_do_not_go_among_the_checkpoints(tmp_path: Path) -> None:
    folder = checkpoints(tmp_path / "run")
    for out in (folder, folder / "model_1.pt" / "out"):
        assert predict(folder, tmp_path / "plain.py:outputs", out) == 2
        said()
    assert predict(folder, tmp_path / "plain.py:outputs", folder / "predictions") == 0
    assert predict(folder, tmp_path / "plain.py:outputs", folder / "predictions") == 0


@pytest.mark.parametrize("moved", ["nothing", "both", "predictions", "checkpoints"])
def test_the_path_of_the_checkpoint_survives_a_move(moved: str, tmp_path: Path) -> None:
    folder, out = checkpoints(tmp_path / "old" / "run"), tmp_path / "old" / "out"
    assert predict(folder, tmp_path / "old" / "plain.py:outputs", out) == 0
    if moved == "both":
        (tmp_path / "old").rename(tmp_path / "new")
        folder, out = tmp_path / "new" / "run", tmp_path / "new" / "out"
    elif moved == "predictions":
        out = out.rename(tmp_path / "elsewhere")
    elif moved == "checkpoints":
        folder.rename(tmp_path / "away")
    run = cw.load(out)
    assert run.paths == tuple(str(folder / f"model_{step}.pt") for step in (1, 2, 3, 4))
    gone = [note for note in run.notes if "is not there any more (and so with 3 more)" in note]
    assert len(gone) == (moved == "checkpoints")


def test_a_checkpoint_that_changed_since_is_reported(tmp_path: Path) -> None:
    folder, out = checkpoints(tmp_path / "run"), tmp_path / "out"
    assert predict(folder, tmp_path / "plain.py:outputs", out) == 0
    digest = cw.load(out).digest
    (folder / "model_2.pt").write_text("another one")
    (note,) = cw.load(out).notes
    assert note == f"the checkpoint {folder / 'model_2.pt'} has changed since it was evaluated"
    assert cw.load(out).digest == digest  # the record adds paths and nothing else


DAMAGE: dict[str, Callable[[str], str]] = {
    "torn": lambda text: text[: len(text) // 2],
    "empty": lambda _: "",
    "a list": lambda _: "[]",
    "another schema": lambda text: text.replace('"schema": 1', '"schema": 2'),
    "no function": lambda text: text.replace('"function"', '"functions"'),
    "a path that leads out": lambda text: text.replace("model_1.pt", "../../secret.pt"),
    "an absolute path": lambda text: text.replace("model_1.pt", "/etc/passwd"),
    "a step twice": lambda text: text.replace('"step": 2', '"step": 1'),
    "a step that is none": lambda text: text.replace('"step": 2', '"step": -2'),
    "a step of text": lambda text: text.replace('"step": 2', '"step": "2"'),
    "a domain that is none": lambda text: text.replace('"a"', "7"),
}


def test_a_damaged_record_is_an_error(tmp_path: Path) -> None:
    folder, out = checkpoints(tmp_path / "run"), tmp_path / "out"
    function = tmp_path / "plain.py:outputs"
    assert predict(folder, function, out) == 0
    content = (out / "predictions.json").read_text()
    lines = {
        "select OUT": "predictions.json",
        "predict RUN --function FUNCTION --domains a -o OUT": "predictions.json",
    }
    for damage, changed in DAMAGE.items():
        assert changed(content) != content
        (out / "predictions.json").write_text(changed(content))
        assert not otherwise(lines, OUT=out, RUN=folder, FUNCTION=function), damage


GROUPED = """\
import numpy as np


def outputs(path, domain):
    random = np.random.default_rng(len(path) + ord(path[-4]))
    labels = np.arange(30) % 3
    return random.normal(size=(30, 3)), labels, [f"site {i // 5}" for i in range(30)]


def in_a_dict(path, domain):
    logits, labels, groups = outputs(path, domain)
    return {"logits": logits, "labels": labels, "groups": np.array(groups, dtype=object)}


def sometimes(path, domain):
    return outputs(path, domain)[: 2 if path.endswith("2.pt") else 3]


def too_few(path, domain):
    logits, labels, groups = outputs(path, domain)
    return logits, labels, groups[:-1]
"""


@pytest.mark.parametrize("name", ["outputs", "in_a_dict"])
def test_groups_that_the_function_returns_are_written_and_read(name: str, tmp_path: Path) -> None:
    folder = checkpoints(tmp_path / "weights", {1: 1.0, 2: 2.0})
    (tmp_path / "grouped.py").write_text(GROUPED)
    out = tmp_path / "predictions"
    assert predict(folder, f"{tmp_path / 'grouped.py'}:{name}", out) == 0
    with np.load(out / "step-000001" / "a.npz") as saved:  # allow_pickle is False
        assert saved["groups"].tolist() == [f"site {i // 5}" for i in range(30)]
    examples = cw.load(out).examples
    assert examples is not None
    assert examples.groups is not None
    assert examples.groups[0].tolist() == [i // 5 for i in range(30)]


def test_groups_at_some_checkpoints_alone_are_refused(tmp_path: Path) -> None:
    folder = checkpoints(tmp_path / "weights", {1: 1.0, 2: 2.0})
    (tmp_path / "grouped.py").write_text(GROUPED)
    assert predict(folder, f"{tmp_path / 'grouped.py'}:sometimes", tmp_path / "one") == 2
    assert names("groups … 'a' … 2 … 1", heard().err)
    assert predict(folder, f"{tmp_path / 'grouped.py'}:too_few", tmp_path / "two") == 2
    assert "30" in heard().err
