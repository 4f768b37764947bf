"""Models made from a real cohort: what goes in, what comes out, and where it is kept."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import checkwise as cw
from checkwise.errors import InputError
from checkwise.study import methods
from checkwise.study.baselines import OpenRuns, means, read_record, read_source
from checkwise.study.baselines.evaluate import (
    KeptOutputs,
    mean_log_probabilities,
    mean_logits,
    open_data,
    open_run,
)
from checkwise.study.baselines.recipe import StoredRun
from checkwise.study.folder import mark_done, open_cohort, verify
from checkwise.study.train import Algorithm, Evaluator, Outputs, Part
from tests.commands import answer, complaint
from tests.refusals import names, refused
from tests.study.cohorts import WrittenRun, write_cohort
from tests.weights.cohorts import STUDY, copied, derive, run_folders, train_cohort

PAUSE = 0.01  # seconds more that an evaluation takes


def checkpoint(run: Path, step: int) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"step-{step:06d}.safetensors")


def test_a_recipe_that_combines_runs_says_which_seeds_to_vary() -> None:
    recipes = {name: known.recipe for name, known in methods().items() if known.recipe}
    assert {name for name, recipe in recipes.items() if recipe.varied} == {
        *("eoa", "diwa-uniform", "diwa-greedy")
    }
    for recipe in recipes.values():
        assert bool(recipe.varied) == (len(recipe.share) < 5)
        assert all(recipes[name] is required for name, required in recipe.requires.items())


def test_evaluating_a_checkpoint_repeats_its_record(cohort: Path) -> None:
    record = open_cohort(cohort)
    key = next(iter(record.runs))
    run = open_run(record, key, open_data(record, key.dataset, {}))
    source, heldout = run.entries(run.outputs(checkpoint(run.folder, 26)))
    line = json.loads((run.folder / "source.jsonl").read_text().splitlines()[2])
    assert line["step"] == 26
    assert source["domains"] == line["domains"]
    target = json.loads((run.folder / "heldout" / "75.jsonl").read_text().splitlines()[2])
    assert heldout["75"] == {name: value for name, value in target.items() if name != "step"}


def test_a_run_is_not_evaluated_on_other_data(cohort: Path) -> None:
    record = open_cohort(cohort)
    key = next(iter(record.runs))
    data = open_data(record, key.dataset, {})
    other = replace(data, dataset=replace(data.dataset, fingerprint="0" * 64))
    with refused("differs: data … fingerprint"):
        open_run(record, key, other)


def test_swad_averages_the_valley_of_source_nll(cohort: Path, tmp_path: Path) -> None:
    cohort = copied(cohort, tmp_path)
    shutil.rmtree(cohort / "derived", ignore_errors=True)  # other tests derive it too
    outcome = derive(cohort, "swad")
    assert len(outcome.made) == 2
    for record, run in zip(outcome.records, sorted(run_folders(cohort)), strict=True):
        losses = cw.load(str(run)).values["nll"].mean(axis=1)
        steps = cw.load(str(run)).steps
        expected = [int(steps[i]) for i in cw.loss_valley(losses.tolist()).indices]
        given = zip(record.inputs["steps"], record.inputs["multiplicities"], strict=True)
        assert sorted(s for s, n in given for _ in range(n)) == sorted(expected)
        folder = cohort / "derived" / "swad" / run.name
        made = load_file(folder / "weights.safetensors")
        assert set(made) == set(checkpoint(run, expected[0]))
        assert not any("q" in name.split(".") for name in made)  # GroupDRO's weights stay out
        for name, found in made.items():
            mean = torch.stack([checkpoint(run, s)[name].double() for s in expected]).mean(0)
            assert torch.allclose(found.double(), mean, rtol=1e-6, atol=1e-9)
        assert {p.name for p in folder.iterdir()} == {
            "record.json",
            "source.json",
            "heldout",
            "weights.safetensors",
        }
        assert not read_source(cohort, "swad", record.run)["diverged"]
        assert record.seconds > 0
    assert verify(cohort) == []  # nothing was put inside the runs


def test_a_second_call_does_nothing_until_something_changed(cohort: Path, tmp_path: Path) -> None:
    mine = copied(cohort, tmp_path)
    assert len(derive(mine, "ac-nc-mean-weights").made) == 2
    again = derive(mine, "ac-nc-mean-weights")
    assert (len(again.made), len(again.current)) == (0, 2)
    assert len(derive(mine, "ac-nc-mean-weights", delta_pp="5.0").made) == 2
    assert len(derive(mine, "ac-nc-mean-weights", delta_pp="5.0", force=True).made) == 2
    key = again.records[0].run
    source = open_cohort(mine).runs[key] / "source.jsonl"
    source.write_text(source.read_text().replace('"loss":', '"loss" :', 1))
    mark_done(source.parent, 0)  # as if the run had been trained anew
    assert [r.run for r in derive(mine, "ac-nc-mean-weights", delta_pp="5.0").made] == [key]


def test_held_out_results_are_written_without_being_read(cohort: Path, tmp_path: Path) -> None:
    mine = copied(cohort, tmp_path)
    for path in mine.glob("runs/*/heldout/*.jsonl"):
        path.write_text("spoilt")
    for path in mine.glob("derived/*/*/heldout/*.json"):
        path.write_text("spoilt")
    derive(mine, "swad", force=True)
    derive(cohort, "swad", force=True)
    for found in mine.glob("derived/swad/*/heldout/*.json"):
        assert found.read_text() == (cohort / found.relative_to(mine)).read_text()


def test_feasible_sets_are_averaged_by_rank(cohort: Path) -> None:
    name = "ac-nc-mean-probs"
    for record in derive(cohort, name, delta_pp="10").records:
        run = open_cohort(cohort).runs[record.run]
        chosen = cw.select(cw.load(str(run)), "ac-nc", delta_pp="10")
        ranked = chosen.table["step"][: len(chosen.feasible_steps)].tolist()
        assert record.inputs["steps"] == ranked
        assert record.inputs["steps"][0] == chosen.step
        assert not (cohort / "derived" / name / run.name / "weights.safetensors").exists()


def outputs(*logits: list[list[float]]) -> list[Outputs]:
    rows = np.arange(len(logits[0]))
    part = Part("source", "a", 0, rows, rows)
    return [Outputs((part,), (np.array(z, dtype=np.float32),)) for z in logits]


def test_predictions_are_averaged_as_probabilities_and_ensembles_as_logits() -> None:
    given = outputs([[2.0, 0.0], [300.0, 0.0]], [[-1.0, 1.0], [0.0, 300.0]])
    softmax = [torch.from_numpy(o.logits[0]).double().softmax(1) for o in given]
    found = torch.from_numpy(mean_log_probabilities(given).logits[0]).double().softmax(1)
    assert torch.allclose(found, (softmax[0] + softmax[1]) / 2, atol=1e-7)
    assert mean_logits(given).logits[0].tolist() == [[0.5, 0.5], [150.0, 150.0]]


def test_an_ensemble_averages_logits_over_runs(cohort: Path) -> None:
    made = derive(cohort, "eoa").records
    assert all(len(record.inputs["members"]) == 2 for record in made)
    record = open_cohort(cohort)
    data = open_data(record, made[0].run.dataset, {})
    members = [
        open_run(record, r.run, data).outputs(
            load_file(cohort / "derived" / "sma" / str(r.run) / "weights.safetensors")
        )
        for r in made
    ]
    source, _ = open_run(record, made[0].run, data).entries(mean_logits(members))
    assert source["domains"] == read_source(cohort, "eoa", made[0].run)["domains"]


def test_runs_with_one_start_are_averaged_uniformly_or_greedily(cohort: Path) -> None:
    uniform = derive(cohort, "diwa-uniform").records[0]
    paths = [cohort / "runs" / name for name in uniform.inputs["members"]]
    members = [checkpoint(p, s) for p, s in zip(paths, uniform.inputs["steps"], strict=True)]
    made = load_file(cohort / "derived" / "diwa-uniform" / paths[0].name / "weights.safetensors")
    for name, found in made.items():
        assert torch.allclose(found, (members[0][name] + members[1][name]) / 2, atol=1e-6)

    def accuracy(path: Path, step: int) -> float:
        run = cw.load(str(path))
        return float(run.values["accuracy"][run.steps == step].mean())

    first = accuracy(paths[0], uniform.inputs["steps"][0])
    assert first >= accuracy(paths[1], uniform.inputs["steps"][1])
    greedy = derive(cohort, "diwa-greedy").records[0]
    domains = read_source(cohort, "diwa-greedy", greedy.run)["domains"].values()
    assert np.mean([entry["accuracy"] for entry in domains]) >= first - 1e-12


def test_one_run_can_be_asked_for(cohort: Path, tmp_path: Path) -> None:
    mine = copied(cohort, tmp_path)
    run = run_folders(mine)[0]
    assert len(derive(run, "swad-nobn").records) == 1
    assert len(derive(run, "diwa-uniform").records) == 2  # its mates come along


def test_what_is_missing_is_named_with_the_way_out(
    cohort: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = copied(cohort, tmp_path)
    record = derive(mine, "swad").records[0]
    run, step = open_cohort(mine).runs[record.run], record.inputs["steps"][0]
    path = run / "checkpoints" / f"step-{step:06d}.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"checksum differs in .*step-{step:06d}"):
        derive(mine, "swad", force=True)
    path.unlink()
    with pytest.raises(InputError, match=f'step {step}, .* keep = "all"'):
        derive(mine, "swad", force=True)
    words = ["study", "derive", str(mine), "--method", "swad", "--force"]
    assert 'keep = "all"' in complaint(capsys, *words)
    (run / "averages" / "sma.safetensors").unlink()
    with refused('missing: "sma"'):
        derive(mine, "eoa", force=True)


def test_unlike_runs_are_not_averaged(tmp_path: Path) -> None:
    study = STUDY.replace("shared_init = true", "").replace("steps = 104", "steps = 3")
    study = study.replace('averages = ["sma", "dense-swad"]', "").replace("13", "2")
    path = train_cohort(tmp_path, study)
    with refused("unsupported: shared_init"):
        derive(path, "diwa-uniform")
    with refused("missing"):
        derive(path, "sma")
    lone = train_cohort(tmp_path / "lone", study.replace("[0, 1]", "[0]"))
    with refused("unsupported: hparams_seeds"):
        derive(lone, "diwa-greedy")
    with refused("unsupported"):
        derive(lone, "eoa")


def test_the_commands_answer_in_json(cohort: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["study", "derive", str(cohort), "--method"]
    found = answer(capsys, *words, "swad-as-described")
    assert {entry["method"] for entry in found["results"]} == {"swad-as-described"}
    for entry in found["results"]:
        assert entry["inputs"]["multiplicities"] == [1] * len(entry["inputs"]["steps"])
        assert Path(entry["path"]).is_dir()
        assert entry["source"]["domains"]
    both = answer(capsys, *words, "swad,swad-nobn", "--method", "swad")
    assert len(both["results"]) == 4
    assert "swad-as-described" in complaint(capsys, *words, "swad-as-describe")
    assert "picks a saved step" in complaint(capsys, *words, "ac-nc")
    runs = ["study", "derive", str(cohort / "runs"), "--method", "swad"]
    assert "checkwise study run" in complaint(capsys, *runs)


def test_what_would_do_nothing_is_refused(cohort: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = {
        "sma --param delta_pp=1": "delta_pp",
        "swad-nobn --param minibatches=3": "minibatches",
        "swad --param minibatches=few": "minibatches … few",
        "lodo --force": "lodo",
        "lodo --param minibatches=3": "minibatches",
        "lodo,swad": "lodo",
    }
    for words, named in asked.items():
        said = complaint(capsys, "study", "derive", str(cohort), "--method", *words.split())
        assert names(named, said), words


def test_a_damaged_record_is_named(cohort: Path, tmp_path: Path) -> None:
    mine = copied(cohort, tmp_path)
    record = derive(mine, "swad").records[0]
    path = mine / "derived" / "swad" / str(record.run) / "record.json"
    path.write_text('{"schema": 1}')
    with refused("damaged: `checkwise study derive` again"):
        read_record(mine, "swad", record.run)


def test_unfinished_runs_are_left_out_and_counted(cohort: Path, tmp_path: Path) -> None:
    mine = copied(cohort, tmp_path)
    lost = run_folders(mine)[0]
    (lost / "done").unlink()
    outcome = derive(mine, "swad-nobn", force=True)
    assert [str(key) for key in outcome.unfinished] == [lost.name]
    assert len(outcome.made) == 1
    (run_folders(mine)[1] / "done").unlink()
    with refused("empty: 2"):
        derive(mine, "swad-nobn")


def test_diverged_checkpoints_are_no_endpoints(tmp_path: Path) -> None:
    losses = (1.0, 0.6, 0.5, 9.0, 0.5, 0.52, 0.5, 0.51)
    key = cw.RunKey("PACS", "IRM", ("sketch",), 0, 0)
    steps = tuple(range(0, 80, 10))
    written = WrittenRun(key, steps, (100,) * 8, {"nll": losses}, (1,) * 8, {}, diverged=(30,))
    path = write_cohort(tmp_path / "cohort", [written])
    planned = means.plan_valley(
        StoredRun(path, key, path / "runs" / str(key)), means.MEANS["swad"].params
    )
    assert planned.inputs["steps"] == [20, 40, 50, 60, 70]
    assert planned.inputs["multiplicities"] == [2, 2, 1, 1, 1]
    assert planned.notes == ("1 diverged checkpoint left out",)


def test_lawa_averages_the_last_checkpoints(cohort: Path) -> None:
    outcome = derive(cohort, "lawa-5", minibatches=0)
    for record, run in zip(outcome.records, sorted(run_folders(cohort)), strict=True):
        last = cw.load(str(run)).steps[-5:].tolist()
        assert record.inputs["steps"] == last
        made = load_file(cohort / "derived" / "lawa-5" / run.name / "weights.safetensors")
        for name in made:
            if "running" not in name and "num_batches" not in name:
                mean = torch.stack([checkpoint(run, s)[name].double() for s in last]).mean(0)
                assert torch.allclose(made[name].double(), mean, rtol=1e-6, atol=1e-9)
    many = derive(cohort, "lawa-5", minibatches=0, k=10).records[0]
    assert len(many.inputs["steps"]) == len(cw.load(str(run_folders(cohort)[0])).steps) == 9
    assert many.notes == ("the run has only 9 checkpoints to average",)


def test_the_control_of_swad_is_one_checkpoint(cohort: Path) -> None:
    for record in derive(cohort, "source-acc-bn").records:
        run = open_cohort(cohort).runs[record.run]
        chosen = cw.select(cw.load(str(run)), "source-acc")
        made = load_file(cohort / "derived" / "source-acc-bn" / run.name / "weights.safetensors")
        kept = checkpoint(run, chosen.step)  # digits have no BatchNorm: nothing may change
        assert all(torch.equal(made[name], kept[name]) for name in kept)


def test_methods_that_share_opened_runs_evaluate_a_checkpoint_once(
    cohort: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart, together = copied(cohort, tmp_path / "apart"), copied(cohort, tmp_path / "together")
    evaluated: list[int] = []
    plain = Evaluator.__call__

    def counted(self: Evaluator, algorithm: Algorithm) -> Outputs:
        evaluated.append(1)
        time.sleep(PAUSE)
        return plain(self, algorithm)

    monkeypatch.setattr(Evaluator, "__call__", counted)
    names = ("mean-probs", "mean-probs-5", "ac-nc-mean-probs")
    for name in names:
        derive(apart, name, delta_pp="10")
    alone = len(evaluated)
    evaluated.clear()
    opening = OpenRuns()
    for name in names:
        derive(together, name, delta_pp="10", opening=opening)
    used = {
        (record.run, step)
        for name in names
        for record in derive(together, name, delta_pp="10").current
        for step in record.inputs["steps"]
    }
    assert len(evaluated) == len(used) < alone
    for record in derive(together, "ac-nc-mean-probs", delta_pp="10").current:
        # It costs what its checkpoints took, although another method evaluated them.
        assert record.seconds > PAUSE * len(set(record.inputs["steps"])) / 2
    for name in names:
        for key in open_cohort(cohort).runs:
            assert read_source(together, name, key) == read_source(apart, name, key)


def test_kept_outputs_stay_below_their_limit_and_the_oldest_give_way() -> None:
    def outputs() -> Outputs:
        return Outputs((), (np.zeros((10, 5), np.float32),))  # 200 bytes

    kept = KeptOutputs(limit=450)
    for step in range(3):
        kept.keep("run", step, outputs(), seconds=2.0 + step)
    assert [kept.get("run", step) is None for step in range(3)] == [True, False, False]
    assert kept.spared == 3.0 + 4.0
    assert kept.get("another run", 2) is None
    small = KeptOutputs(limit=100)
    small.keep("run", 0, outputs())
    assert small.get("run", 0) is None
