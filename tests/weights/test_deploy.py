"""A deployed model: the same probabilities as evaluated, the same bytes, and nothing half."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import checkwise as cw
from checkwise.calibrators import calibrators, fit
from checkwise.cli import main
from checkwise.deployed import Calibrated, load
from checkwise.study.baselines.evaluate import open_data, open_run
from checkwise.study.folder import open_cohort
from tests.cli.calls import otherwise
from tests.cli.choices import choose
from tests.cli.inputs import INPUTS
from tests.commands import answer, complaint
from tests.refusals import refused
from tests.requirements import package
from tests.weights.deployments import (
    CLASSES,
    DOMAINS,
    ROWS,
    contents,
    examples,
    network,
    train,
)

WAYS: dict[str, dict[str, Any]] = {
    "single": {},
    "ensemble": {"average": "probabilities", "delta_pp": 3},
    "three": {"average": "probabilities", "members": 3, "delta_pp": 3},
    "mean": {"average": "weights", "delta_pp": 3},
}


@pytest.fixture(scope="module")
def predictions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("deploy"))


def probabilities(model: Calibrated, domain: str) -> Any:
    with torch.no_grad():
        return model.probabilities(examples(domain)[0]).double().numpy()


def saved_logits(predictions: Path, step: int, domain: str) -> Any:
    with np.load(predictions / f"step-{step:06d}" / f"{domain}.npz") as arrays:
        return torch.tensor(arrays["logits"]).double()


@pytest.mark.parametrize("average", ["probabilities", "weights"])
def test_fewer_members_than_were_asked_for_are_said(
    predictions: Path, average: str, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"average": average, "delta_pp": 3}
    done = cw.deploy(predictions, tmp_path / "many", members=1000, **asked)
    there = len(done.info["steps"])
    assert any(f"1000 members were asked for, but {there} " in note for note in done.notes)
    done = cw.deploy(predictions, tmp_path / "some", members=2, **asked)
    assert not any("asked for" in note for note in done.notes)


@pytest.mark.parametrize("way", ["single", "ensemble", "three"])
def test_deployed_probabilities_are_those_of_the_saved_logits(
    predictions: Path, way: str, tmp_path: Path
) -> None:
    done = cw.deploy(predictions, tmp_path / "model", **WAYS[way])
    deployed = load(tmp_path / "model")
    assert deployed.calibrator is not None
    temperature = deployed.calibrator.temperature or 0
    model = deployed.module(network())
    for domain in DOMAINS:
        softmax = [saved_logits(predictions, s, domain).softmax(1) for s in done.info["steps"]]
        mean = torch.stack(softmax).mean(0)
        expected = (mean.log() / temperature).softmax(1).numpy()
        assert np.abs(probabilities(model, domain) - expected).max() < 1e-6
        z = mean.log().numpy()
        assert np.abs(deployed.calibrator.probabilities(z) - expected).max() < 1e-6
    nll = [
        cw.metrics.evaluate(probs=probabilities(model, d), labels=examples(d)[1].numpy()).nll
        for d in DOMAINS
    ]
    assert done.info["metrics"]["calibrated"]["nll"]["value"] == pytest.approx(
        np.mean(nll), abs=1e-6
    )


def test_a_mean_of_weights_is_the_mean_and_says_that_nobody_evaluated_it(
    predictions: Path, tmp_path: Path
) -> None:
    done = cw.deploy(predictions, tmp_path / "model", **WAYS["mean"])
    weights = load(tmp_path / "model").weights
    assert isinstance(weights, dict)
    states = [
        torch.load(predictions / f"step-{step:06d}" / "model.pt", weights_only=True)
        for step in done.info["steps"]
    ]
    for name, tensor in weights.items():
        assert torch.allclose(tensor, torch.stack([s[name] for s in states]).mean(0), atol=1e-6)
    assert done.info["calibrator"] is None
    assert any("nobody has evaluated" in note for note in done.notes)
    one = cw.deploy(predictions, tmp_path / "one")
    rows = [line.split(" | ")[0] for line in one.card.splitlines() if line.startswith("| ")]
    assert {"| soft ECE", "| soft CwECE"} <= set(rows)
    assert not {"| ECE", "| hard ECE"} & set(rows)
    assert "Nobody has evaluated" in done.card or "nobody has evaluated" in done.card


def test_a_choice_says_all_that_its_settings_say(predictions: Path, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"delta_pp": 3, "guard": False}
    one = cw.deploy(predictions, tmp_path / "one", rule=cw.Choice.of("ac-nll", **asked))
    assert one.info == cw.deploy(predictions, tmp_path / "two", rule="ac-nll", **asked).info
    with refused("ambiguous: weights"):
        cw.deploy(predictions, tmp_path / "no", rule=cw.Choice.of("ac-nll"), weights="sample")


def test_stale_batchnorm_statistics_are_reported(tmp_path: Path) -> None:
    folder = train(tmp_path, ".safetensors", batchnorm=True)
    done = cw.deploy(folder, tmp_path / "model", average="weights", delta_pp=5)
    assert any("update_bn" in note for note in done.notes)
    weights = load(tmp_path / "model").weights
    first = load_file(folder / f"step-{done.info['steps'][0]:06d}" / "model.safetensors")
    assert isinstance(weights, dict)
    assert torch.equal(weights["1.running_mean"], first["1.running_mean"])
    assert not torch.equal(weights["1.weight"], first["1.weight"])


@pytest.mark.parametrize("suffix", [".pt", ".ckpt", ".safetensors"])
def test_weights_of_any_file_are_those_that_were_saved(suffix: str, tmp_path: Path) -> None:
    folder = train(tmp_path, suffix)
    done = cw.deploy(folder, tmp_path / "model")
    weights = load(tmp_path / "model").weights
    path = folder / f"step-{done.info['steps'][0]:06d}" / f"model{suffix}"
    if suffix == ".safetensors":
        expected = load_file(path)
    else:
        expected = torch.load(path, weights_only=True)
        expected = expected.get("state_dict", expected)
    assert isinstance(weights, dict)
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize("way", WAYS)
def test_the_same_input_gives_the_same_bytes_wherever_it_lies(
    predictions: Path, way: str, tmp_path: Path
) -> None:
    cw.deploy(predictions, tmp_path / "one", **WAYS[way])
    moved = tmp_path / "elsewhere" / "predictions"
    shutil.copytree(predictions, moved)
    cw.deploy(moved, tmp_path / "two", **WAYS[way])
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    text = b"".join(contents(tmp_path / "one").values())
    assert os.fsencode(tmp_path) not in text
    assert os.fsencode(predictions) not in text


def test_every_calibrator_is_the_same_as_a_module() -> None:
    random = np.random.default_rng(0)
    logits: Any = {
        d: (random.normal(0, 3, (400, CLASSES)), random.integers(0, CLASSES, 400)) for d in DOMAINS
    }
    for z, y in logits.values():
        z[np.arange(len(y)), y] += 2
    fresh = random.normal(0, 3, (500, CLASSES)).astype(np.float32)
    for name in calibrators():
        fitted = fit(logits, name)
        assert fitted.params is not None, name
        model = Calibrated(torch.nn.Identity(), fitted)
        given = model.probabilities(torch.from_numpy(fresh)).numpy()
        assert np.abs(given - fitted.probabilities(fresh)).max() < 1e-6, name
        half = model.half().probabilities(torch.from_numpy(fresh).half())
        expected = fitted.probabilities(fresh.astype(np.float16))
        assert half.dtype == torch.float32
        assert np.abs(half.numpy() - expected).max() < 1e-6, name
        exported = torch.export.export(model.float(), (torch.from_numpy(fresh),)).module()
        again = exported(torch.from_numpy(fresh)).softmax(1).numpy()
        assert np.abs(again - fitted.probabilities(fresh)).max() < 1e-6, name


@pytest.mark.parametrize("way", ["single", "three"])
def test_an_exported_model_gives_the_same_probabilities(
    predictions: Path, way: str, tmp_path: Path
) -> None:
    cw.deploy(predictions, tmp_path / "model", **WAYS[way])
    model = load(tmp_path / "model").module(network())
    x = examples("photo")[0]
    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(model, (x,), dynamic_shapes={"args": ((({0: rows}),))})
    torch.export.save(program, tmp_path / "model.pt2")
    again = torch.export.load(tmp_path / "model.pt2").module()
    with torch.no_grad():
        for inputs in (x, x[:7]):
            expected = model.probabilities(inputs)
            assert torch.allclose(again(inputs).softmax(1), expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # of torch
@pytest.mark.parametrize("way", ["single", "three"])
def test_onnx_gives_the_same_probabilities(predictions: Path, way: str, tmp_path: Path) -> None:
    package("onnx")
    package("onnxscript")
    runtime = package("onnxruntime")
    cw.deploy(predictions, tmp_path / "model", **WAYS[way])
    model = load(tmp_path / "model").module(network())
    x = examples("photo")[0]
    torch.onnx.export(model, (x,), tmp_path / "model.onnx", dynamo=True, verbose=False)
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    (logits,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    with torch.no_grad():
        expected = model.probabilities(x)
    assert torch.allclose(torch.from_numpy(logits).softmax(1), expected, atol=1e-6)


def test_a_half_precision_network_is_scaled_in_float32(predictions: Path, tmp_path: Path) -> None:
    cw.deploy(predictions, tmp_path / "model")
    model = load(tmp_path / "model").module(network())
    x = examples("art")[0]
    with torch.no_grad():
        half = model.bfloat16()
        z = half.members[0](x.bfloat16()).float()
        temperature = load(tmp_path / "model").calibrator.temperature  # type: ignore[union-attr]
        assert torch.allclose(
            half.probabilities(x.bfloat16()), (z / temperature).softmax(1), atol=1e-6
        )


@pytest.mark.parametrize("average", [None, "probabilities", "weights"])
def test_a_run_of_ours_is_deployed_as_it_was_evaluated(
    cohort: Path, average: Any, tmp_path: Path
) -> None:
    record = open_cohort(cohort)
    key = next(iter(record.runs))
    options = {} if average is None else {"average": average, "delta_pp": "20"}
    done = cw.deploy(record.runs[key], tmp_path / "model", **options)
    run = open_run(record, key, open_data(record, key.dataset, {}))
    deployed = load(tmp_path / "model")
    weights = deployed.weights
    states = weights if isinstance(weights, list) else [weights]
    assert deployed.calibrator is not None
    logits = [run.outputs(state).of("source") for state in states]
    module = torch.nn.Sequential(run.algorithm.featurizer, run.algorithm.classifier)
    names = {"featurizer": "0", "classifier": "1"}
    model = Calibrated([_filled(module, state, names) for state in states], deployed.calibrator)
    for part in run.source_parts:
        softmax = [torch.tensor(outputs[part.domain][0]).double().softmax(1) for outputs in logits]
        z = torch.stack(softmax).mean(0).log().numpy()
        expected = deployed.calibrator.probabilities(z)
        with torch.no_grad():
            given = model.probabilities(run.data.inputs.rows(part.index, part.rows))
        assert np.abs(given.numpy() - expected).max() < 1e-6
    if average is None:
        step = done.info["steps"][0]
        source = run.folder / "checkpoints" / f"step-{step:06d}.safetensors"
        assert (tmp_path / "model" / "weights.safetensors").read_bytes() == source.read_bytes()
    again = cw.deploy(record.runs[key], tmp_path / "again", **options)
    assert again.info == done.info


def _filled(module: torch.nn.Module, state: Any, names: dict[str, str]) -> torch.nn.Module:
    from copy import deepcopy

    member = deepcopy(module)
    renamed = {
        ".".join([names[name.partition(".")[0]], name.partition(".")[2]]): tensor
        for name, tensor in state.items()
    }
    member.load_state_dict(renamed)
    return member


def test_the_command_says_what_it_wrote(
    predictions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "model")
    bold = rescaled(predictions, tmp_path / "bold", 3)
    choose(bold, tmp_path / "choice.json", delta_pp="3")
    arguments = ["deploy", str(tmp_path / "choice.json"), "-o", out, "--average", "2"]
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert "Deployed 2 members: steps" in printed
    told = load(out).info["calibration"]
    assert told in " ".join(printed.split())
    assert told in (tmp_path / "model" / "card.md").read_text()
    assert "(T = " in told
    assert "holds a deployed model" in complaint(capsys, *arguments)
    with pytest.raises(SystemExit) as stop:
        main(["deploy", str(predictions), "-o", out, "--force", "--calibrator", "none", "--json"])
    assert stop.value.code == 0
    info = json.loads(capsys.readouterr().out)
    assert (info["kind"], info["calibrator"], info["notes"]) == (
        "single",
        None,
        ["no calibrator: none was asked for"],
    )
    assert load(out).calibrator is None


def rescaled(predictions: Path, copy: Path, by: float) -> Path:
    """The same predictions with every logit multiplied."""
    shutil.copytree(predictions, copy)
    for path in copy.glob("*/*.npz"):
        with np.load(path) as arrays:
            z, y = arrays["logits"], arrays["labels"]
        np.savez(path, logits=by * z, labels=y)
    return copy


def test_what_calibration_did_is_said_alike_everywhere(
    predictions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timid = rescaled(predictions, tmp_path / "timid", 0.3)
    told, temperature = {}, {}
    for place in ("new", "same"):
        out = tmp_path / place
        with pytest.raises(SystemExit) as stop:
            main(["deploy", str(timid), "-o", str(out), "--for", place])
        assert stop.value.code == 0
        deployed = load(out)
        told[place] = deployed.info["calibration"]
        assert told[place] in " ".join(capsys.readouterr().out.split())
        assert told[place] in (out / "card.md").read_text()
        assert deployed.calibrator is not None
        temperature[place] = deployed.calibrator.temperature
    assert temperature["new"] == 1
    assert temperature["same"] is not None
    assert temperature["same"] < 1
    assert f"{temperature['same']:.2g}" in told["new"]
    assert "--for same" in told["new"]
    assert f"{temperature['same']:.3g}" in told["same"]
    assert cw.deploy(timid, tmp_path / "usual").info["calibration"] == told["new"]
    freely = cw.deploy(timid, tmp_path / "free", for_="same").info
    assert freely["calibrator"] == "ts"
    plain = cw.deploy(timid, tmp_path / "plain", calibrator="ts").info
    assert plain["calibration"] == told["same"]


def test_with_few_errors_nothing_is_said_of_sharpening(predictions: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(predictions, tmp_path / "run"))
    for path in folder.glob("*/*.npz"):
        with np.load(path) as arrays:
            y = arrays["labels"]
        z = 2.0 * np.eye(CLASSES)[y]
        z[:4] = np.roll(z[:4], 1, axis=1)
        np.savez(path, logits=z, labels=y)
    info = cw.deploy(folder, tmp_path / "model").info
    assert info["state"] == "saturated"
    assert "--for same" not in info["calibration"]
    same = cw.deploy(folder, tmp_path / "same", for_="same").info
    assert "8 errors" in same["calibration"]


def test_without_weights_torch_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, log = tmp_path / "table.csv", tmp_path / "log.csv"
    table.write_text("step,accuracy,nll,n\n1,0.5,0.9,100\n2,0.6,0.8,100\n")
    log.write_text("step,val_accuracy,val_loss\n1,0.5,0.9\n2,0.6,0.8\n")
    monkeypatch.setattr("checkwise.errors.find_spec", lambda name: None)
    with refused("missing: table.csv … `path`"):
        cw.deploy(table, tmp_path / "model")
    choosing = f"`checkwise select {log} --checkpoints "
    with refused(f"missing: {choosing} … `checkwise deploy choice.json -o model`"):
        cw.deploy(log, tmp_path / "model")
    with refused("missing: predictions … --calibrator-only"):
        cw.deploy(INPUTS["predictions_one_set"](tmp_path), tmp_path / "model")


REFUSED = {
    "--average logits": "--average",
    "--average 0": "--average",
    "--for elsewhere": "--for",
    "--for same --calibrator ts": "--calibrator",
    "--for new --calibrator none": "--calibrator",
    "--calibrator warm": "a calibrator among",
    "--rule ac-nc": "--rule … checkwise select",
}


def test_what_makes_no_sense_is_refused(predictions: Path, tmp_path: Path) -> None:
    lines = {f"deploy RUN -o OUT {words}": named for words, named in REFUSED.items()}
    assert not otherwise(lines, RUN=predictions, OUT=tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_an_average_takes_no_rule(predictions: Path, tmp_path: Path) -> None:
    asked: dict[str, dict[str, Any]] = {
        "unsupported: ac-nc": {"rule": "ac-nc"},
        "unsupported: q": {"q": 1},
        "unsupported: tolerance": {"tolerance": "paired"},
    }
    for code, choosing in asked.items():
        with refused(code):
            cw.deploy(predictions, tmp_path / "model", average="weights", **choosing)
    with refused("missing: average"):
        cw.deploy(predictions, tmp_path / "model", members=3)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("average", "way"), [("all", "ensemble"), ("3", "three"), ("weights", "mean")]
)
def test_the_command_averages_as_python_does(
    predictions: Path, average: str, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(predictions, tmp_path / "choice.json", delta_pp="3")
    words = ["deploy", str(tmp_path / "choice.json"), "-o", str(tmp_path / "one")]
    info = answer(capsys, *words, "--average", average)
    done = cw.deploy(predictions, tmp_path / "two", **{**WAYS[way], "delta_pp": "3"})
    assert (info["kind"], info["steps"]) == (done.info["kind"], done.info["steps"])
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


class Ran:
    """What a hostile checkpoint would do."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("ran",)


def test_nothing_in_a_checkpoint_runs(
    predictions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(predictions, tmp_path / "run"))
    for path in folder.glob("*/model.pt"):
        torch.save({"state_dict": torch.load(path, weights_only=True), "more": Ran()}, path)
    monkeypatch.chdir(tmp_path)
    with refused("unsupported"):
        cw.deploy(folder, tmp_path / "model")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "model").exists()


def test_a_file_without_one_model_is_refused(predictions: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(predictions, tmp_path / "run"))
    one = {"a": torch.ones(1)}
    files: list[tuple[Any, str]] = [
        ({"state_dict": one, "state_dict_ema": one}, "value"),
        ({"weights": [1, 2]}, "format"),
        ([torch.ones(1)], "format"),
    ]
    for content, reason in files:
        for path in folder.glob("*/model.pt"):
            torch.save(content, path)
        with refused(reason):
            cw.deploy(folder, tmp_path / "model")


def test_a_member_that_is_gone_is_named(predictions: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(predictions, tmp_path / "predictions"))
    (folder / "step-000050" / "model.pt").unlink()
    with refused("missing: 50"):
        cw.deploy(folder, tmp_path / "model", **WAYS["ensemble"])
    assert not (tmp_path / "model").exists()


def test_a_network_of_another_shape_is_refused(predictions: Path, tmp_path: Path) -> None:
    cw.deploy(predictions, tmp_path / "model")
    with refused("differs"):
        load(tmp_path / "model").module(torch.nn.Linear(6, CLASSES))


def test_saturated_validation_never_sharpens_and_the_card_says_so(
    predictions: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(predictions, tmp_path / "run"))
    for path in folder.glob("*/*.npz"):
        with np.load(path) as arrays:
            z, y = arrays["logits"], arrays["labels"]
        z[np.arange(len(y)), y] += 50
        z[0] = np.where(np.arange(CLASSES) == y[0], -1, 0)
        np.savez(path, logits=z, labels=y)
    done = cw.deploy(folder, tmp_path / "model")
    fitted = load(tmp_path / "model").calibrator
    assert fitted is not None
    assert fitted.state == "saturated"
    assert fitted.temperature is not None
    assert fitted.temperature >= 1
    guard = done.info["guard"]
    assert (guard["acted"], guard["errors"], done.info["rule"]) == (True, 2, "ac-nc")
    assert done.info["steps"] == [cw.select(cw.load(folder), "ac-early").step]
    assert any(f"step {done.info['steps'][0]}" in note for note in done.notes)
    assert "2 errors" in done.card
    averaged = cw.deploy(folder, tmp_path / "mean", average="probabilities", members=2)
    assert (averaged.info["kind"], averaged.info["steps"]) == ("single", done.info["steps"])
    assert averaged.info["guard"] == {**guard, "without": None}
    off = cw.deploy(folder, tmp_path / "off", average="probabilities", members=2, guard=False)
    assert (off.info["kind"], off.info["guard"]) == ("ensemble", None)


def test_a_damaged_checkpoint_is_refused_in_a_line(predictions: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(predictions, tmp_path / "predictions"))
    for content in (b"junk", b"", b"PK\x03\x04broken", b"\x80\x02}q\x00."):
        for path in copy.rglob("*.pt"):
            path.write_bytes(content)
        with refused("format"):
            cw.deploy(copy, tmp_path / "model")
        assert not (tmp_path / "model").exists()


def test_saved_probabilities_are_deployed_without_a_calibrator(
    predictions: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(predictions, tmp_path / "predictions"))
    for path in copy.rglob("*.npz"):
        with np.load(path) as arrays:
            p, y = torch.tensor(arrays["logits"]).softmax(1).numpy(), arrays["labels"]
        np.savez(path, probs=p, labels=y)
    for way in ({}, {"average": "probabilities", "delta_pp": 3}, {"calibrator": "none"}):
        out = tmp_path / f"model-{len(way)}-{'calibrator' in way}"
        done = cw.deploy(copy, out, **way)
        assert done.info["calibrator"] is None
    assert any("there are no logits" in note for note in cw.deploy(copy, tmp_path / "m").notes)


def test_networks_of_other_classes_are_refused() -> None:
    z, y = np.random.default_rng(0).normal(0, 2, (200, 4)), np.arange(200) % 4
    calibrator = fit({"val": (z, y)})
    x = torch.zeros(2, 3)
    with refused("differs: 4"):
        Calibrated(torch.nn.Linear(3, 7), calibrator)(x)
    with refused("differs: 4"):
        Calibrated([torch.nn.Linear(3, 4), torch.nn.Linear(3, 5)], None)(x)


@pytest.mark.parametrize("way", ["single", "three"])
def test_groups_are_resampled_whole_and_the_card_says_so(
    way: str, predictions: Path, tmp_path: Path
) -> None:
    """Ten rows a group, the hardest rows together: they are right or wrong as one."""
    grouped = tmp_path / "predictions"
    shutil.copytree(predictions, grouped)
    for domain in DOMAINS:
        of_label = saved_logits(predictions, 100, domain).log_softmax(1)
        hardest = of_label[torch.arange(ROWS), examples(domain)[1]].argsort().numpy()
        groups = np.empty(ROWS, dtype="U4")
        groups[hardest] = [f"s{i // 10}" for i in range(ROWS)]
        for file in grouped.glob(f"step-*/{domain}.npz"):
            with np.load(file) as saved:
                arrays = dict(saved)
            np.savez(file, **arrays, groups=groups)
    cards = {}
    for place in (predictions, grouped):
        out = tmp_path / f"{place.parent.name}-{way}"
        cw.deploy(place, out, calibrator="ts", **WAYS[way])
        cards[place] = (out / "card.md").read_text(), contents(out)
    plain, (card, files) = cards[predictions], cards[grouped]
    assert "intervals over validation examples, where" in plain[0]
    assert "95% intervals over 24 groups of validation examples, drawn whole" in card
    assert "(five folds of whole groups)" in card
    assert ("if groups of validation examples are independent" in card) == (way == "single")
    assert ("every member's population accuracy" in plain[0]) == (way != "single")
    assert "every member's" not in card  # its bound would take examples for independent
    assert ("resamples of the validation examples" in plain[0]) == (way == "single")
    assert "1.00 in this table is a gap of 10 points" in card
    if way == "single":
        bound = cw.select(cw.load(grouped)).guarantee()
        assert bound.paired is not None
        assert f"at most {bound.paired.bound_pp:.2f} points below the best" in card
        assert f"{bound.paired.bound_pp:.2f}" != f"{bound.bound_pp:.2f}"
    change = json.loads(files["calibration.json"])["cross_fitted_change_of_nll"]
    assert change["groups"] == 24
    assert "groups" not in json.loads(plain[1]["calibration.json"])["cross_fitted_change_of_nll"]

    def width(of: Any) -> float:
        accuracy = json.loads(of["deployed.json"])["metrics"]["plain"]["accuracy"]
        return float(accuracy["high"] - accuracy["low"])

    assert width(files) > 1.5 * width(plain[1])
