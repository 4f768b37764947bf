"""``checkwise prune`` deletes what cannot be chosen any more, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from tests.cli.calls import ran
from tests.cli.choices import choose
from tests.study.cohorts import demo_like

SCORES = {500: (0.80, 0.5), 1000: (0.90, 0.4), 1500: (0.897, 0.3), 2000: (0.85, 0.2)}


def transformers_run(folder: Path) -> Path:
    history: list[dict[str, float]] = []
    for step, (accuracy, loss) in SCORES.items():
        history.append({"step": step, "epoch": step / 500, "eval_accuracy": accuracy})
        history[-1]["eval_loss"] = loss
        checkpoint = folder / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "model.safetensors").write_bytes(b"w" * 1000)
        state = {"log_history": history, "global_step": step}
        (checkpoint / "trainer_state.json").write_text(json.dumps(state))
    return folder


def prune(*words: object) -> tuple[int, str, str]:
    return ran("prune", *words)


def there(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_nothing_is_deleted_without_apply(tmp_path: Path) -> None:
    run = transformers_run(tmp_path / "out")
    before = there(run)
    code, out, _ = prune(run)
    assert code == 0
    assert "1 of 4 checkpoints can go" in out
    assert "Nothing was deleted: add --apply." in out
    assert there(run) == before
    answer = json.loads(prune(run, "--json")[1])
    assert (answer["step"], answer["applied"]) == (1500, False)
    reasons = {entry["step"]: entry["why"] for entry in answer["checkpoints"]}
    assert reasons == {
        500: "cannot be chosen any more",
        1000: "may still be chosen",
        1500: "chosen",
        2000: "newest",
    }
    size = sum(file.stat().st_size for file in (run / "checkpoint-500").iterdir())
    assert answer["freed_bytes"] == size


def test_apply_deletes_and_the_choice_stays(tmp_path: Path) -> None:
    run = transformers_run(tmp_path / "out")
    (run / "checkpoint-700").mkdir()  # of no logged step
    (run / "checkpoint-700" / "model.safetensors").touch()
    before = cw.select(cw.load(run))
    code, out, _ = prune(run, "--apply")
    assert code == 0
    assert "Deleted 1 of 4 checkpoints" in out
    assert there(run) == [f"checkpoint-{step}" for step in (1000, 1500, 2000, 700)]
    after = cw.select(cw.load(run))
    assert (after.step, after.path) == (before.step, before.path)
    assert "nothing to delete" in prune(run, "--apply")[1]


def test_policies_keep_more(tmp_path: Path) -> None:
    run = transformers_run(tmp_path / "out")
    for words in (["--keep-last", 4], ["--keep-every", 400]):
        assert json.loads(prune(run, "--json", *words)[1])["freed_bytes"] == 0, words
    for choosing in ({"delta_pp": "10"}, {"rule": "pure-nll"}):
        choose(run, tmp_path / "choice.json", **choosing)
        answer = json.loads(prune(tmp_path / "choice.json", "--json")[1])
        assert answer["freed_bytes"] == 0, choosing
    code, _, error = prune(run, "--keep-last", 0)
    assert (code, "integer of at least 1" in error) == (2, True)


def test_a_link_holds_what_it_leads_to(tmp_path: Path) -> None:
    """Lightning's ``save_last="link"``."""
    live_run(tmp_path).close()
    (tmp_path / "last.ckpt").symlink_to("500.pt")
    answer = json.loads(prune(tmp_path, "--json", "--apply")[1])
    assert answer["checkpoints"][0]["why"] == "last.ckpt leads to it"
    assert (tmp_path / "last.ckpt").exists()


def test_a_path_outside_the_run_stays(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    elsewhere = [tmp_path / "a.pt", tmp_path / "run" / "b.pt", tmp_path]
    for path in elsewhere[:2]:
        path.touch()
    rows = [f"{k},{0.5 + k / 10},0.1,{path}" for k, path in enumerate(elsewhere)]
    table = tmp_path / "run" / "table.csv"
    gone, last = str(tmp_path / "run" / "gone.pt"), str(tmp_path / "run" / "d.pt")
    table.write_text("\n".join(["step,accuracy,nll,path", *rows, f"3,0.95,0.1,{gone}"]))
    code, _, error = prune(table, "--apply")
    assert code == 2
    assert "3" in error
    (tmp_path / "run" / "d.pt").touch()
    table.write_text(table.read_text().replace(gone, last))
    answer = json.loads(prune(table, "--apply", "--json")[1])
    assert [entry["why"] for entry in answer["checkpoints"]] == [
        "outside the folder; name it with --checkpoints",
        "part of step 2",
        "holds the run",
        "chosen",
    ]
    assert there(tmp_path) == ["a.pt", "run"]
    table.write_text(table.read_text().replace(f"{tmp_path}\n", "\n"))
    answer = json.loads(prune(table, "--apply", "--json")[1])
    assert answer["checkpoints"][1]["why"] == "cannot be chosen any more"
    assert there(tmp_path) == ["a.pt", "run"]
    assert there(tmp_path / "run") == ["d.pt", "table.csv"]


def live_run(folder: Path, **settings: Any) -> cw.LiveSelector:
    live = cw.LiveSelector("ac-nll", journal=folder / "checkwise.jsonl", **settings)
    for step, (accuracy, nll) in SCORES.items():
        live.add(step, {"val": {"accuracy": accuracy, "nll": nll, "n": 1000}})
        (folder / f"{step}.pt").write_bytes(b"w" * step)
        live.saved(step, folder / f"{step}.pt")
    return live


def test_a_journal_says_what_was_saved_and_by_which_rule(tmp_path: Path) -> None:
    live_run(tmp_path).close()
    (tmp_path / "other.pt").touch()
    answer = json.loads(prune(tmp_path, "--json")[1])
    assert (answer["rule"], answer["step"], answer["freed_bytes"]) == ("ac-nll", 1500, 500)
    code, out, _ = prune(tmp_path / "checkwise.jsonl", "--apply")
    assert (code, "500 bytes freed" in out) == (0, True)
    assert there(tmp_path) == ["1000.pt", "1500.pt", "2000.pt", "checkwise.jsonl", "other.pt"]
    with cw.LiveSelector("ac-nll", journal=tmp_path / "checkwise.jsonl") as live:
        assert live.choice == 1500
        assert list(live.checkpoints) == [1000, 1500, 2000]
    assert cw.select(cw.load(tmp_path), "ac-nll").path == str(tmp_path / "1500.pt")
    for settings in ({"rule": "source-acc"}, {"delta_pp": "3"}, {"no_guard": True}):
        choose(tmp_path, tmp_path / "choice.json", **settings)
        code, _, error = prune(tmp_path / "choice.json", "--apply")
        assert (code, "checkwise.jsonl" in error) == (2, True)
    choose(tmp_path, tmp_path / "choice.json")
    assert prune(tmp_path / "choice.json")[0] == 0


def test_a_journal_whose_guard_acts_offers_nothing_else(tmp_path: Path) -> None:
    with cw.LiveSelector("ac-nll", journal=tmp_path / "checkwise.jsonl") as live:
        for step, nll in ((1, 0.3), (2, 0.2), (3, 0.1)):
            live.add(step, {"val": {"accuracy": 1.0, "nll": nll, "n": 100}})
            (tmp_path / f"{step}.pt").touch()
            live.saved(step, tmp_path / f"{step}.pt")
    code, out, _ = prune(tmp_path)
    assert (code, "step 1" in out, "--no-guard" in out) == (0, True, False)


def test_a_run_that_is_being_trained_is_not_touched(tmp_path: Path) -> None:
    with live_run(tmp_path):
        assert prune(tmp_path)[0] == 0
        code, _, error = prune(tmp_path, "--apply")
    assert (code, "another LiveSelector has it open" in error) == (2, True)
    assert (tmp_path / "500.pt").exists()


def test_what_cannot_be_pruned_is_refused_with_the_reason(tmp_path: Path) -> None:
    demo_like(tmp_path / "cohort", runs_per_algorithm=1)
    run = next((tmp_path / "cohort" / "runs").iterdir())
    (run / "done").unlink(missing_ok=True)
    (run / "checkpoints").mkdir(exist_ok=True)
    for step in cw.load(run).steps.tolist():
        (run / "checkpoints" / f"step-{step:06d}.safetensors").touch()
    code, _, error = prune(run, "--apply")
    assert (code, 'train with keep = "feasible"' in error) == (2, True), error
    table = tmp_path / "table.csv"
    table.write_text("step,accuracy,nll\n1,0.5,0.1\n2,0.6,0.1\n")
    code, _, error = prune(table)
    assert (code, "`path`" in error, "--checkpoints" in error) == (2, True, False)
    assert os.listdir(run / "checkpoints")
    log = transformers_run(tmp_path / "out")
    choose(log, tmp_path / "choice.json", {"include_unsaved": True})
    code, _, error = prune(tmp_path / "choice.json", "--apply")
    assert (code, "--include-unsaved" in error, len(there(log))) == (2, True, 4)


@pytest.mark.parametrize(("accuracy", "speed"), [(1.0, {}), (0.99, {"n": 300})])
def test_where_validation_is_saturated_the_earliest_near_best_stays_as_the_choice(
    accuracy: float, speed: dict[str, int], tmp_path: Path
) -> None:
    """By a perfect score, or by 3 errors of 300 examples, which transformers' speed tells."""
    run = transformers_run(tmp_path / "out")
    for state in run.glob("*/trainer_state.json"):
        content = json.loads(state.read_text())
        for row in content["log_history"][1:]:
            row["eval_accuracy"] = accuracy
        for row in content["log_history"]:
            row |= {"eval_runtime": 7.0, "eval_samples_per_second": 42.857} if speed else {}
        state.write_text(json.dumps(content))
    choose(run, tmp_path / "choice.json", no_guard=True)
    for place, step in ((run, 1000), (tmp_path / "choice.json", 2000)):
        answer = json.loads(prune(place, "--json")[1])
        assert answer["step"] == step
        stays = {entry["step"] for entry in answer["checkpoints"] if entry["stays"]}
        assert stays == {1000, 1500, 2000}
    prune(run, "--apply")
    assert cw.select(cw.load(run)).step == 1000


@pytest.mark.parametrize("name", ["train_{}.h5", "features-{}.hdf5", "subject{}.h5", ".git{}"])
def test_data_beside_a_log_are_not_deleted_as_checkpoints(tmp_path: Path, name: str) -> None:
    rows = [(0, 0.80, 0.6), (1, 0.90, 0.4), (2, 0.95, 0.3), (3, 0.949, 0.35)]
    text = "epoch,accuracy,loss,val_accuracy,val_loss\n"
    (tmp_path / "log.csv").write_text(text + "".join(f"{e},.9,.2,{a},{n}\n" for e, a, n in rows))
    for epoch in range(1, 5):
        (tmp_path / name.format(epoch)).write_text("data")
    before = there(tmp_path)
    code, _, err = prune(tmp_path, "--apply")
    assert code == 2
    assert name.startswith(".") or name.format(1) in err
    assert there(tmp_path) == before


def test_a_table_does_not_name_folders_without_weights_for_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("src", "notes", "c3", "c4"):
        Path(folder).mkdir()
        Path(folder, "model.py").write_text("x")
    rows = "1,.80,.6,src\n2,.90,.4,notes\n3,.95,.3,c3\n4,.949,.35,c4\n"
    Path("t.csv").write_text(f"step,accuracy,nll,path\n{rows}")
    assert prune("t.csv", "--apply")[0] == 2
    assert there(tmp_path) == ["c3", "c4", "notes", "src", "t.csv"]


def test_what_is_said_to_be_outside_can_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A predictions folder names weights elsewhere; so does a table."""
    monkeypatch.chdir(tmp_path)
    Path("weights").mkdir()
    rows, labels = [], np.arange(200) % 2
    for step, (accuracy, nll) in SCORES.items():
        Path("weights", f"model_{step}.pt").write_bytes(b"w")
        folder = Path("preds", f"step-{step:06d}")
        folder.mkdir(parents=True)
        Path(folder, "model.pt").symlink_to(tmp_path / "weights" / f"model_{step}.pt")
        shown = np.where(np.arange(200) < 200 * accuracy, labels, 1 - labels)
        np.savez(folder / "val.npz", logits=3.0 * np.eye(2)[shown], labels=labels)
        rows.append(f"{step},{accuracy},{nll},{tmp_path}/weights/model_{step}.pt\n")
    Path("table").mkdir()
    Path("table", "run.csv").write_text("step,accuracy,nll,path\n" + "".join(rows))
    for place in ("preds", "table/run.csv"):
        found = json.loads(prune(place, "--json")[1])
        assert any("--checkpoints" in one["why"] for one in found["checkpoints"])
        pattern = ("--checkpoints", "weights/model_{step}.pt")
        found = json.loads(prune(place, *pattern, "--json")[1])
        assert not any("--checkpoints" in one["why"] for one in found["checkpoints"])
        code, _, error = prune(place, "--checkpoints", "weights/other_{step}.pt")
        assert (code, "other_{step}" in error) == (2, True)
