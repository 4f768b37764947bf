"""Algorithms and metrics of one's own in training: handed on to workers, and recorded."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import command_server
from tests.sweep.studies import write_tiny

PLUGIN = """
import numpy as np
import checkwise as cw
from torch.nn.functional import cross_entropy

strength = cw.study.train.Hyperparameter(
    "smoothing", 0.1, lambda random: random.uniform(0, 0.3), high=1
)


@cw.study.train.algorithm("Smoothed", hparams=[strength])
class Smoothed(cw.study.train.Algorithm):
    def objective(self, forward):
        by = self.hparams["smoothing"]
        loss = cross_entropy(forward.logits, forward.labels, label_smoothing=by)
        return loss, {"loss": loss}


@cw.metric("top2-accuracy", direction="higher", scale=100)
def top2_accuracy(probs, labels):
    "Share of labels among the two most probable classes."
    return np.mean((np.argsort(-probs, axis=1)[:, :2] == labels[:, None]).any(axis=1))
"""
EVIL = "open('imported', 'w').close()\n"
RUN = "cohort/runs/RotatedMNIST-Smoothed-75-h0-t0"


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


pytestmark = pytest.mark.usefixtures("commands")


def checkwise(folder: Path, *words: str) -> tuple[int, str, str]:
    """In a process of its own: nothing of a plugin stays."""
    return command_server.checkwise(words, folder, PYTHONPATH=ENVIRONMENT["PYTHONPATH"])


def write_study(folder: Path) -> None:
    write_tiny(
        folder,
        ('["ERM", "VREx"]', '["Smoothed"]'),
        ('["0", "75"]', '["75"]'),
        (
            "batch_size = 8",
            'batch_size = 8\nsmoothing = 0.2\n[records]\nkeep = "all"\nlogits = "all"',
        ),
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, commands: None) -> Path:
    """A cohort that a sweep with one worker process trained with the plugin."""
    folder = tmp_path_factory.mktemp("plugins")
    write_study(folder)
    (folder / "mine.py").write_text(PLUGIN)
    done = checkwise(
        folder,
        "study",
        "run",
        "tiny.toml",
        "--out",
        "cohort",
        "--workers",
        "1",
        "--plugin",
        "mine.py",
    )
    assert done[0] == 0, done
    return folder


@pytest.fixture
def changed(trained: Path) -> Any:
    (trained / "mine.py").write_text(PLUGIN + "# another content\n")
    yield trained
    (trained / "mine.py").write_text(PLUGIN)


def test_the_worker_trains_the_algorithm_with_its_hyperparameters(trained: Path) -> None:
    config = json.loads((trained / RUN / "run.json").read_text())["config"]
    assert config["key"]["algorithm"] == "Smoothed"
    assert config["hparams"]["smoothing"] == 0.2


def test_run_and_plan_record_the_plugin_by_name_and_content(trained: Path) -> None:
    expected = {"mine.py": hashlib.sha256(PLUGIN.encode()).hexdigest()}
    run = json.loads((trained / RUN / "run.json").read_text())
    plan = json.loads((trained / "cohort" / "cohort.json").read_text())
    assert run["config"]["plugins"] == plan["study"]["plugins"] == expected
    assert run["config"]["metrics"] == plan["study"]["metrics"] == {"top2-accuracy": "higher"}


def test_the_metric_is_in_every_journal(trained: Path) -> None:
    lines = (trained / RUN / "source.jsonl").read_text().splitlines()
    entries = [entry for line in lines for entry in json.loads(line)["domains"].values()]
    held_out = (trained / RUN / "heldout" / "75.jsonl").read_text().splitlines()
    entries += [json.loads(line) for line in held_out]
    assert len(lines) == len(held_out) == 3
    assert all(entry["accuracy"] <= entry["top2-accuracy"] <= 1 for entry in entries)


def test_a_rule_ranks_by_the_metric_in_its_direction(trained: Path) -> None:
    asked = ("--rule", "ac", "--objectives", "top2-accuracy", "--delta-pp", "100", "--json")
    code, out, error = checkwise(trained, "select", RUN, *asked, "--plugin", "mine.py")
    assert code == 0, error
    lines = [json.loads(x) for x in (trained / RUN / "source.jsonl").read_text().splitlines()]
    means = {
        line["step"]: sum(entry["top2-accuracy"] for entry in line["domains"].values())
        for line in lines
    }
    (chosen,) = json.loads(out)["runs"]
    assert means[chosen["selection"]["step"]] == max(means.values())


def test_kept_logits_give_the_values_of_the_journal(trained: Path) -> None:
    for kept in sorted((trained / RUN / "predictions" / "source").glob("step-*.npz")):
        with np.load(kept) as arrays:
            for domain in ("0", "15", "30", "45", "60"):
                folder = trained / "predictions" / kept.stem
                folder.mkdir(parents=True, exist_ok=True)
                logits, labels = arrays[f"{domain}.logits"], arrays[f"{domain}.labels"]
                np.savez(folder / f"{domain}.npz", logits=logits, labels=labels)
    code = (
        "import checkwise as cw\nfrom checkwise.plugins import load_plugin\n"
        "load_plugin('mine.py')\n"
        f"kept, logged = cw.load('predictions'), cw.load({RUN!r})\n"
        "assert kept.steps.tolist() == logged.steps.tolist() and len(kept.steps) == 3\n"
        "both = [run.values['top2-accuracy'] for run in (kept, logged)]\n"
        "assert (both[0] == both[1]).all()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=trained, env=ENVIRONMENT, check=True)


def test_without_the_plugin_the_metric_is_left_out_and_asking_for_it_prints_what_to_type(
    trained: Path,
) -> None:
    code, out, _ = checkwise(trained, "select", RUN, "--json")
    assert code == 0
    assert "top2-accuracy left out: add --plugin mine.py" in out
    asked = ("--rule", "ac", "--objectives", "top2-accuracy")
    code, _, error = checkwise(trained, "select", RUN, *asked)
    assert code == 2
    assert "run the same command again and add --plugin mine.py." in error


@pytest.mark.parametrize(
    "words",
    [
        ("study", "run", "known.toml", "--out", "cohort"),
        ("study", "derive", "cohort", "--method", "lodo"),
        ("study", "derive", "cohort", "--method", "swad-nobn"),
    ],
    ids=lambda words: " ".join(words[1:]),
)
def test_a_cohort_that_needs_a_plugin_is_refused_without_importing_it(
    trained: Path, words: tuple[str, ...]
) -> None:
    text = (trained / "tiny.toml").read_text()
    known = text.replace('["Smoothed"]', '["ERM"]').replace("smoothing = 0.2\n", "")
    (trained / "known.toml").write_text(known)
    (trained / "mine.py").write_text(EVIL)
    try:
        code, _, error = checkwise(trained, *words)
    finally:
        (trained / "mine.py").write_text(PLUGIN)
    assert (code, error.count("\n")) == (2, 1)
    assert "run the same command again with --plugin mine.py" in error
    assert not (trained / "imported").exists()


@pytest.mark.parametrize("words", ["study status", "study status --verify", "select"])
def test_what_a_cohort_names_is_never_imported(trained: Path, words: str) -> None:
    (trained / "mine.py").write_text(EVIL)
    try:
        code, _, error = checkwise(trained, *words.split(), "cohort")
    finally:
        (trained / "mine.py").write_text(PLUGIN)
    assert code == 0, error
    assert not (trained / "imported").exists()


def test_an_unknown_algorithm_says_where_ones_own_come_from(trained: Path) -> None:
    code, _, error = checkwise(trained, "study", "run", "tiny.toml", "--out", "elsewhere")
    assert code == 2
    assert "'Smoothed'" in error
    assert "add your own with --plugin FILE.py" in error


def test_a_sweep_with_a_changed_plugin_is_refused_by_name(changed: Path) -> None:
    words = ("study", "run", "tiny.toml", "--out", "cohort", "--plugin", "mine.py")
    code, _, error = checkwise(changed, *words)
    assert code == 2
    assert "Expected the plugin mine.py that cohort was made with (SHA-256 " in error


def test_verify_compares_a_plugin_by_name(changed: Path) -> None:
    words = ("study", "status", "cohort", "--verify")
    code, out, _ = checkwise(changed, *words, "--plugin", "mine.py")
    assert code == 1
    assert "mine.py: the plugin changed (was " in out
    code, out, _ = checkwise(changed, *words, "--plugin", "mine.py", "--json")
    assert code == 1
    assert [fault["run"] for fault in json.loads(out)["faults"]] == ["mine.py"]
    (changed / "mine.py").write_text(PLUGIN)
    code, out, _ = checkwise(changed, *words, "--plugin", "mine.py")
    assert (code, out.splitlines()[1:]) == (0, ["Everything is as it was written."])
    code, out, _ = checkwise(changed, *words)
    assert code == 0
    assert "Trained with the plugin mine.py (SHA-256 " in out
    assert checkwise(changed, "study", "status", "cohort", "--plugin", "mine.py")[0] == 2


def test_a_run_goes_on_only_with_the_same_plugin(changed: Path) -> None:
    shutil.copytree(changed / "cohort", changed / "unfinished")
    (changed / RUN.replace("cohort", "unfinished") / "done").unlink()
    words = ("study", "work", "unfinished", "--plugin", "mine.py")
    code, _, error = checkwise(changed, *words)
    assert code == 2
    assert "mine.py" in error
    (changed / "mine.py").write_text(PLUGIN)
    assert checkwise(changed, *words)[0] == 0


def test_a_worker_refuses_a_plugin_that_changed_since_the_sweep_began(trained: Path) -> None:
    job = {
        "cohort": str(trained / "cohort"),
        "round": "a",
        "plugins": {str(trained / "mine.py"): "0" * 64},
    }
    done = subprocess.run(
        [sys.executable, "-m", "checkwise.study.sweep.worker", json.dumps(job)],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "Expected the plugin mine.py as it was when this began" in done.stderr
