"""DomainBed's checkpoints are opened safely, and its result collection can call a rule.

`CHECKWISE_DOMAINBED` names a checkout of DomainBed; tests that need one skip without it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from tests.requirements import available

available("torch")

import torch

from checkwise.integrations import domainbed
from tests.refusals import refused

ARGS: dict[str, Any] = {
    "dataset": "Debug28",
    "algorithm": "ERM",
    "test_envs": [0],
    "trial_seed": 0,
    "holdout_fraction": 0.2,
    "seed": 0,
    "data_dir": None,
}
CHECKOUT = os.environ.get("CHECKWISE_DOMAINBED", "")


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if not CHECKOUT:
        pytest.skip("CHECKWISE_DOMAINBED names no checkout of DomainBed")
    monkeypatch.syspath_prepend(CHECKOUT)
    yield Path(CHECKOUT)
    for name in [name for name in sys.modules if name.partition(".")[0] == "domainbed"]:
        del sys.modules[name]


def save(path: Path, **changed: Any) -> Path:
    """A checkpoint as DomainBed's train.py saves it, with hyperparameters that NumPy drew."""
    draw = np.random.RandomState(0)
    content: dict[str, Any] = {
        "args": ARGS,
        "model_input_shape": (3, 28, 28),
        "model_num_classes": 2,
        "model_num_domains": 2,
        "model_hparams": {
            "lr": 10 ** draw.uniform(-5, -3),
            "resnet_dropout": draw.choice([0.0, 0.1, 0.5]),
            "batch_size": np.int64(8),
            "augmix": draw.choice([True, False]),
            "name": np.str_("x"),
        },
        "model_dict": {"classifier.weight": torch.ones(2, 3)},
    }
    torch.save({**content, **changed}, path)
    return path


def test_numpy_scalars_are_let_through(tmp_path: Path) -> None:
    read = domainbed.read_checkpoint(save(tmp_path / "model_step100.pkl"))
    assert read.targets == (0,)
    assert isinstance(read.hparams["resnet_dropout"], np.float64)
    assert read.hparams["batch_size"] == 8
    assert read.hparams["name"] == "x"
    assert torch.equal(read.state["classifier.weight"], torch.ones(2, 3))
    assert domainbed.source_domains(tmp_path / "model_step100.pkl") == ("env1", "env2")


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch run-by-a-stranger",)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Evil(), "unsupported: posix … system"),
        (Path("x"), "unsupported: pathlib"),
        (print, "unsupported: print"),
    ],
)
def test_anything_else_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = save(tmp_path / "model_step1.pkl", model_hparams={"lr": value})
    with refused(name) as error:
        domainbed.read_checkpoint(path)
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == ["model_step1.pkl"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_dict": None}, "format: model_dict"),
        ({"args": {}}, "format: args.dataset … None"),
        ({"args": {**ARGS, "test_envs": 3}}, "format: test_envs"),
        ({"args": {**ARGS, "test_envs": ["1"]}}, "format: test_envs"),
        ({"args": {**ARGS, "dataset": 5}}, "format: args.dataset … 5"),
        ({"args": {**ARGS, "holdout_fraction": 1.2}}, "format: args.holdout_fraction … 1.2"),
        ({"args": {**ARGS, "seed": None}}, "format: args.seed"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with refused(message):
        domainbed.read_checkpoint(save(tmp_path / "model_step1.pkl", **changed))
    (tmp_path / "text.pkl").write_text("no pickle")
    with refused("format"):
        domainbed.read_checkpoint(tmp_path / "text.pkl")
    with refused("missing"):
        domainbed.read_checkpoint(tmp_path / "nothing.pkl")


def test_a_target_is_refused_before_anything_is_evaluated(tmp_path: Path) -> None:
    path = save(tmp_path / "model_step1.pkl")
    for domain in ("env0", "env7", "photo"):
        with refused("held-out: env1, env2"):
            domainbed.outputs(str(path), domain)


def test_without_a_checkout_the_message_says_what_to_set(tmp_path: Path) -> None:
    with refused("missing: PYTHONPATH"):
        domainbed.outputs(str(save(tmp_path / "model_step1.pkl")), "env1")


def records() -> list[dict[str, Any]]:
    """Two runs; the earliest step within half a point is not that of the best accuracy."""
    made = []
    for seed, shift in ((0, 0.0), (1, -0.1)):
        accuracies = [(0.80, 0.6), (0.897, 0.7), (0.90, 0.2), (0.85, 0.9)]
        for step, (accuracy, target) in zip((0, 100, 200, 300), accuracies, strict=True):
            args = {"dataset": "PACS", "algorithm": "ERM", "test_envs": [1], "trial_seed": 0}
            made.append(
                {
                    "step": step,
                    "args": {**args, "hparams_seed": seed, "seed": 0, "output_dir": f"run{seed}"},
                    "hparams": {},
                    **{f"env{i}_out_acc": accuracy + shift for i in (0, 2, 3)},
                    "env1_in_acc": target,
                    "env1_out_acc": "never to be read",
                }
            )
    return made


def test_domainbeds_own_collection_calls_the_rule(checkout: Path) -> None:
    query = __import__("domainbed.lib.query", fromlist=["Q"])
    method = domainbed.selection_method("ac-early", delta_pp="0.5")
    assert method.name == "checkwise ac-early"
    assert method.sweep_acc(query.Q(records())) == 0.7  # step 100 of the better run
    own = __import__("domainbed.model_selection", fromlist=["x"]).IIDAccuracySelectionMethod
    assert domainbed.selection_method("source-acc").sweep_acc(query.Q(records())) == 0.2
    clean = [{**r, "env1_out_acc": 0.5} for r in records()]
    assert own.sweep_acc(query.Q(clean)) == 0.2  # the same as DomainBed's


def test_predictions_below_each_run_are_used(checkout: Path, tmp_path: Path) -> None:
    query = __import__("domainbed.lib.query", fromlist=["Q"])
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 3, 90)
    for seed in (0, 1):
        for step, scale in ((0, 0.1), (100, 9.0), (200, 1.0), (300, 20.0)):
            folder = tmp_path / f"run{seed}" / "predictions" / f"step-{step:06d}"
            folder.mkdir(parents=True)
            logits = scale * (2 * np.eye(3)[labels] + np.random.default_rng(1).normal(size=(90, 3)))
            np.savez(folder / "env0.npz", logits=logits, labels=labels)
    made = [
        {**r, "args": {**r["args"], "output_dir": str(tmp_path / r["args"]["output_dir"])}}
        for r in records()
    ]
    method = domainbed.selection_method("ac-nll", predictions="predictions", delta_pp=1)
    assert method.sweep_acc(query.Q(made)) == 0.2  # step 200, the best temperature
    offline = cw.select(cw.load(tmp_path / "run0" / "predictions"), "ac-nll", delta_pp=1)
    assert offline.step == 200


COLLECTED = re.compile(r"Dataset: .+, model selection method: (?P<method>.+)\n.*\n(?P<row>.+)")
ADDED = """
    from checkwise.integrations.domainbed import selection_method
    SELECTION_METHODS.append(selection_method("source-acc"))
    for delta_pp in DELTAS:
        SELECTION_METHODS.append(selection_method("ac-early", delta_pp=delta_pp))
        SELECTION_METHODS[-1].name = f"early {delta_pp}"
        if PREDICTIONS:
            SELECTION_METHODS.append(
                selection_method("ac-nc", delta_pp=delta_pp, predictions="predictions"))
            SELECTION_METHODS[-1].name = f"nc {delta_pp}"

    for selection_method in SELECTION_METHODS:"""
DELTAS = ("0.5", "10")


def collected(checkout: Path, sweep: Path, folder: Path, *, predictions: bool) -> dict[str, str]:
    """Method → its row for a data set, as the whole of DomainBed's collect_results.py prints it.

    The only change is that methods are added to its list, as docs/import.md says.
    """
    script = (checkout / "domainbed" / "scripts" / "collect_results.py").read_text()
    loop = "\n    for selection_method in SELECTION_METHODS:"
    assert script.count(loop) == 1
    settings = f"DELTAS, PREDICTIONS = {DELTAS!r}, {predictions}\n"
    (folder / "collect.py").write_text(settings + script.replace(loop, ADDED))
    runs = folder / "sweep"  # it writes beside the runs
    runs.mkdir()
    for run in sweep.iterdir():
        if run.is_dir():
            (runs / run.name).symlink_to(run.resolve())
    done = subprocess.run(
        [sys.executable, folder / "collect.py", "--input_dir", runs],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(checkout), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {match["method"]: match["row"] for match in COLLECTED.finditer(done.stdout)}


def by_hand(sweep: Path, rule: str, below: str = "", **options: Any) -> dict[int, str]:
    """Target → the accuracy there of the run whose choice has the best source accuracy."""
    best: dict[int, tuple[float, float]] = {}
    for run in sorted(sweep.iterdir()):
        if not (run / "results.jsonl").is_file():
            continue
        lines = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
        (target,) = lines[0]["args"]["test_envs"]
        chosen = cw.select(cw.load(run / below), rule, **options)
        (tested,) = [r[f"env{target}_in_acc"] for r in lines if r["step"] == chosen.step]
        assert chosen.accuracy is not None
        best[target] = max(best.get(target, (-1.0, 0.0)), (chosen.accuracy, tested))
    return {target: f"{100 * tested:.1f} +/- 0.0" for target, (_, tested) in best.items()}


def test_the_whole_of_domainbeds_collection_prints_what_select_chooses(
    checkout: Path, tmp_path: Path
) -> None:
    """`CHECKWISE_DOMAINBED_SWEEP` holds outputs of domainbed.scripts.train, one trial seed each.

    With `predictions` in each of them, as `checkwise predict` writes them, ac-nc is compared too.
    """
    sweep = Path(os.environ.get("CHECKWISE_DOMAINBED_SWEEP", ""))
    logs = sorted(sweep.glob("*/results.jsonl")) if sweep.name else []
    if not logs:
        pytest.skip("CHECKWISE_DOMAINBED_SWEEP names no folder of DomainBed's runs")
    predictions = all((log.parent / "predictions").is_dir() for log in logs)
    rows = collected(checkout, sweep, tmp_path, predictions=predictions)
    own = rows["training-domain validation set"]
    assert rows["checkwise source-acc"] == own
    expected = {f"early {d}": by_hand(sweep, "ac-early", delta_pp=d) for d in DELTAS}
    if predictions:
        for d in DELTAS:
            expected[f"nc {d}"] = by_hand(sweep, "ac-nc", "predictions", delta_pp=d)
    for method, cells in expected.items():
        row = re.split(r"\s{2,}", rows[method].strip())[1:]
        assert {target: row[target] for target in cells} == cells
    assert len({str(cells) for cells in expected.values()}) > 1  # the methods differ


def test_logits_of_a_real_run_give_the_accuracies_that_it_logged(checkout: Path) -> None:
    """`CHECKWISE_DOMAINBED_RUN` is the output of domainbed.scripts.train, with checkpoints."""
    run = Path(os.environ.get("CHECKWISE_DOMAINBED_RUN", ""))
    if not (run / "results.jsonl").is_file():
        pytest.skip("CHECKWISE_DOMAINBED_RUN names no run of DomainBed")
    lines = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    for line in lines:
        path = str(run / f"model_step{line['step']}.pkl")
        for domain in domainbed.source_domains(path):
            logits, labels = domainbed.outputs(path, domain)
            right = (logits.argmax(1) == labels).double().mean().item()
            assert right == pytest.approx(line[f"{domain}_out_acc"])


def test_wrong_arguments_of_the_method_are_refused(checkout: Path) -> None:
    with pytest.raises(cw.InputError, match="ac-nc"):
        domainbed.selection_method("ac-ncc")
    with pytest.raises(cw.InputError, match="a folder or a function as predictions"):
        domainbed.selection_method(predictions=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("content", [b"junk", b"root:x:0:0:root:/root:/bin/bash\n", b""])
def test_what_is_no_pickle_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.pkl").write_bytes(content)
    with refused("format: DomainBed"):
        domainbed.read_checkpoint(tmp_path / "model.pkl")
