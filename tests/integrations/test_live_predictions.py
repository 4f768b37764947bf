"""Predictions that live selection keeps: the same answers live and from the files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.metrics import Accumulator
from checkwise.selection import TOLERANCES
from tests.refusals import refused
from tests.selection.example_runs import outputs


def live_run(folder: Path, made: dict[int, dict[str, Any]], **options: Any) -> cw.LiveSelector:
    with cw.LiveSelector(journal=folder / "checkwise.jsonl", predictions=True, **options) as live:
        for step, domains in made.items():
            live.add(step, domains)
    return live


def everywhere(folder: Path, made: dict[int, dict[str, Any]], **options: Any) -> list[cw.Selection]:
    """The selection live, rebuilt, from the journal and from the predictions folder."""
    live = live_run(folder, made, **options).selection
    again = cw.LiveSelector.from_journal(folder / "checkwise.jsonl").selection
    assert live is not None
    assert again is not None
    run = cw.load(folder / "predictions")
    return [live, again, cw.select(cw.load(folder)), cw.select(run, "ac-nc", **options)]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", TOLERANCES)
def test_every_tolerance_is_the_same_live_and_afterwards(
    tmp_path: Path, name: str, grouped: bool
) -> None:
    made = outputs(1, sizes=(40, 60), gain=1.0, grouped=grouped)
    expected = cw.select(cw.Trajectory.from_predictions(made), "ac-nc", tolerance=name)
    run = expected.trajectory.examples
    assert run is not None
    for chosen in everywhere(tmp_path, made, tolerance=name):
        assert chosen.step == expected.step
        assert chosen.feasible_steps == expected.feasible_steps
        assert chosen.guarantee().paired == expected.guarantee().paired
        saved = chosen.trajectory.examples
        assert saved is not None
        assert saved.digest == run.digest
        for one, other in zip(saved.nll or (), run.nll or (), strict=True):
            assert np.array_equal(one, other)  # in full precision


def test_stability_and_optimism_are_the_same_live_and_afterwards(tmp_path: Path) -> None:
    made = outputs(1, sizes=(40, 60), gain=1.0, grouped=True)
    expected = cw.select(cw.Trajectory.from_predictions(made), "ac-nc").optimism(repeats=2)
    live, *others = everywhere(tmp_path, made)
    draws, sure = live.stability(300), str(live.sureness)
    assert sure in live.explain()
    for chosen in others:
        assert chosen.stability(300).share == draws.share
        assert chosen.stability(300).expected_loss == pytest.approx(draws.expected_loss, abs=1e-12)
        assert str(chosen.sureness) == sure
    for chosen in (live, *others):
        for metric, found in chosen.optimism(repeats=2).items():
            wanted = expected[metric]
            assert found.corrected == pytest.approx(wanted.corrected, abs=1e-12)
            assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


def test_files_hold_half_precision_beside_full_precision(tmp_path: Path) -> None:
    made = outputs(0, grouped=True)
    live_run(tmp_path, made)
    for step, domains in made.items():
        for name, (z, y, groups) in domains.items():
            saved = np.load(tmp_path / f"predictions/step-{step:06d}/{name}.npz")
            assert sorted(saved.files) == ["correct", "groups", "labels", "logits", "nll"]
            assert saved["logits"].dtype == np.float16
            assert np.array_equal(saved["logits"], z.astype(np.float16))
            assert np.array_equal(saved["labels"], y)
            full = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
            assert saved["nll"] == pytest.approx(-full[np.arange(len(y)), y], abs=1e-12)
            assert np.array_equal(saved["correct"], z.argmax(axis=1) == y)
            _, same = np.unique(groups, return_inverse=True)
            for group in np.unique(groups):
                assert len(np.unique(saved["groups"][groups == group])) == 1
            assert len(np.unique(saved["groups"])) == len(np.unique(same))


def test_accuracy_and_nll_of_the_folder_are_those_of_full_precision(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 500)
    z = 100 + 1e-3 * rng.normal(size=(500, 3))  # half precision cannot tell these apart
    live = live_run(tmp_path, {1: {"val": (z, y)}}, rule="ac-nll")
    run, exact = cw.load(tmp_path / "predictions"), live.trajectory
    assert (z.astype(np.float16).argmax(axis=1) == y).mean() != exact.values["accuracy"][0, 0]
    for metric in ("accuracy", "worst_class_accuracy"):
        assert run.values[metric] == exact.values[metric]
    assert run.values["nll"] == pytest.approx(exact.values["nll"], abs=1e-12)


def test_logits_that_half_precision_cannot_hold_are_kept_in_single(tmp_path: Path) -> None:
    y = np.array([0, 1, 1])
    z = np.array([[1e5, 0.0], [-7e4, 9e4], [3.0, -np.inf]])
    z[2] = [-np.inf, 3.0]  # a class that was masked out
    live_run(tmp_path, {1: {"val": (z, y)}}, rule="source-acc")
    saved = np.load(tmp_path / "predictions/step-000001/val.npz")["logits"]
    assert saved.dtype == np.float32
    assert np.array_equal(saved, z.astype(np.float32))
    assert cw.select(cw.load(tmp_path / "predictions"), "source-acc").accuracy == 1


def test_an_accumulator_with_logits_serves_as_outputs(tmp_path: Path) -> None:
    made = outputs(2)
    live_run(tmp_path / "whole", made)
    streamed = {
        step: {name: accumulated(*domain).result() for name, domain in domains.items()}
        for step, domains in made.items()
    }
    live_run(tmp_path / "streamed", streamed)
    files = sorted(p.relative_to(tmp_path / "whole") for p in tmp_path.glob("whole/**/*.npz"))
    assert len(files) == 16
    for file in files:
        one, other = np.load(tmp_path / "whole" / file), np.load(tmp_path / "streamed" / file)
        for name in one.files:
            assert one[name] == pytest.approx(other[name], rel=1e-12)


def accumulated(z: Any, y: Any, **options: Any) -> Accumulator:
    kept = Accumulator(classes=z.shape[1], logits=True, **options)
    for start in range(0, len(y), 7):
        kept.update(logits=z[start : start + 7], labels=y[start : start + 7])
    return kept


def test_a_checkpoint_that_diverged_has_no_file(tmp_path: Path) -> None:
    made = outputs(0, sizes=(40, 60), gain=1.0)
    made[300]["d1"][0][5, 1] = np.nan
    live = live_run(tmp_path, made)
    assert not (tmp_path / "predictions/step-000300").exists()
    chosen, exact = cw.select(cw.load(tmp_path)), cw.select(cw.Trajectory.from_predictions(made))
    assert live.choice == chosen.step == exact.step
    assert chosen.stability(200).share == exact.stability(200).share
    assert chosen.trajectory.examples is not None
    assert exact.trajectory.examples is not None
    assert chosen.trajectory.examples.digest == exact.trajectory.examples.digest


def test_deleted_weights_leave_their_predictions(tmp_path: Path) -> None:
    made = outputs(0, sizes=(40, 60), gain=1.0)
    with cw.LiveSelector(journal=tmp_path / "checkwise.jsonl", predictions=True) as live:
        for step, domains in made.items():
            live.add(step, domains)
            (tmp_path / f"{step}.pt").touch()
            live.saved(step, tmp_path / f"{step}.pt")
            live.prune()
    assert len(live.checkpoints) < len(made)
    assert len(list((tmp_path / "predictions").iterdir())) == len(made)
    run = cw.load(tmp_path)
    assert len(run) == len(live.checkpoints)
    assert run.examples is not None
    assert len(run.examples.evaluated.steps) == len(made)  # for the bound, which counts every one
    every = cw.load(tmp_path, include_unsaved=True)
    assert live.selection is not None
    assert cw.select(every).stability(100).share == live.selection.stability(100).share


def test_resuming_forgets_predictions_after_the_step(tmp_path: Path) -> None:
    made = outputs(0)
    live_run(tmp_path, made)
    with cw.LiveSelector(journal=tmp_path / "checkwise.jsonl", predictions=True) as live:
        live.resume(400)
        assert sorted(p.name for p in (tmp_path / "predictions").iterdir()) == [
            f"step-{step:06d}" for step in made if step <= 400
        ]
        for step in (500, 600):
            live.add(step, made[step])
        assert cw.select(cw.load(tmp_path / "predictions")).step == live.choice


def test_a_step_added_again_replaces_its_predictions(tmp_path: Path) -> None:
    made = outputs(0)
    live_run(tmp_path, made)
    other = {name: (-z, y) for name, (z, y) in made[300].items()}
    with cw.LiveSelector(journal=tmp_path / "checkwise.jsonl", predictions=True) as live:
        live.resume(max(live.steps))
        live.add(300, other)
        assert live.selection is not None
        examples = live.selection.trajectory.examples
        assert examples is not None
        z = examples.logits(300)["d0"][0]
        assert np.array_equal(z, other["d0"][0].astype(np.float16))
        assert live.selection.stability(50).draws == 50


def test_a_kill_at_any_operation_leaves_files_that_fit_the_journal(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.integrations.killed_predictions", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


def test_what_has_no_logits_is_refused(tmp_path: Path) -> None:
    numbers = {"accuracy": 0.5, "nll": 1.0, "ece": 0.1, "cwece": 0.1, "n": 10}
    report = cw.metrics.evaluate(logits=2 * np.eye(3), labels=[0, 1, 2])
    with cw.LiveSelector(journal=tmp_path / "j.jsonl", predictions=True) as live:
        for given in (numbers, report):
            with refused("missing"):
                live.add(1, {"val": given})
    assert not (tmp_path / "j-predictions").exists()


def test_wrong_places_are_refused(tmp_path: Path) -> None:
    with refused("missing"):
        cw.LiveSelector(predictions=True)
    with refused("value"):
        cw.LiveSelector(predictions=3)  # type: ignore[arg-type]
    (tmp_path / "full").mkdir()
    (tmp_path / "full/step-000001").mkdir()
    with refused("exists"):
        cw.LiveSelector(journal=tmp_path / "j", predictions=tmp_path / "full")
    with cw.LiveSelector(journal=tmp_path / "j", predictions=tmp_path / "own") as live:
        live.add(1, {"val": (2 * np.eye(3), [0, 1, 2])})
    assert (tmp_path / "own/step-000001/val.npz").exists()
    with refused("differs"):
        cw.LiveSelector(journal=tmp_path / "j", predictions=tmp_path / "other")
    cw.LiveSelector(journal=tmp_path / "j", predictions=tmp_path / "own").close()


def test_a_name_never_becomes_a_path(tmp_path: Path) -> None:
    with cw.LiveSelector(journal=tmp_path / "run/j", predictions=True) as live:
        for name in ("../val", ".val", "a/b"):
            with refused("value"):
                live.add(2, {name: (2 * np.eye(3), [0, 1, 2])})
    assert live.steps == ()
    assert not list(tmp_path.rglob("*.npz"))


def test_records_without_predictions_are_said(tmp_path: Path) -> None:
    made = outputs(0, steps=3)
    journal = tmp_path / "checkwise.jsonl"
    with cw.LiveSelector(journal=journal) as live:
        live.add(0, made[0])
    with cw.LiveSelector(journal=journal, predictions=True) as live:
        live.add(100, made[100])
        assert live.selection is not None
        assert any("were kept of 1 of 2 records" in note for note in live.selection.notes)
        assert live.selection.trajectory.examples is None
    assert any("were kept of 1 of 2" in note for note in cw.load(tmp_path).notes)


def test_a_resume_that_leaves_them_out_is_warned_of_once(tmp_path: Path) -> None:
    made = outputs(1, sizes=(40, 60), gain=1.0)
    first, second, *others = made.items()
    journal = tmp_path / "checkwise.jsonl"
    with cw.LiveSelector(journal=journal, calibrator="ts-soften") as live:
        live.add(*first)
    with cw.LiveSelector(journal=journal) as live:
        with pytest.warns(cw.CheckwiseWarning) as said:
            live.add(*second)
        live.add(*others[0])  # without another warning
    (warning,) = said
    assert "pass predictions=True again" in str(warning.message)
    assert "calibrator.json is of an earlier choice" in str(warning.message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": lambda a: a[::-1]}, "damaged: other labels"),
        ({"correct": lambda a: ~a}, "damaged"),
        ({"nll": lambda a: a + 1}, "damaged: an NLL of"),
    ],
)
def test_a_file_of_another_record_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    live = live_run(tmp_path, outputs(0))
    file = tmp_path / "predictions/step-000300/d0.npz"
    arrays = {name: change.get(name, lambda a: a)(array) for name, array in np.load(file).items()}
    np.savez(file, **arrays)
    chosen = cw.select(cw.load(tmp_path))
    with refused(message):
        chosen.stability(10)
    assert live.choice == chosen.step


def test_outcomes_of_other_logits_are_refused_by_the_folder_too(tmp_path: Path) -> None:
    live_run(tmp_path, outputs(0))
    file = tmp_path / "predictions/step-000300/d0.npz"
    arrays = dict(np.load(file).items())
    np.savez(file, **{**arrays, "logits": arrays["logits"][::-1]})
    with refused("differs: `correct` … `nll`"):
        cw.load(tmp_path / "predictions")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    live_run(tmp_path, outputs(0))
    file = tmp_path / "predictions/step-000300/d0.npz"
    content = bytearray(file.read_bytes())
    content[150] ^= 1
    file.write_bytes(bytes(content))
    run = cw.load(tmp_path)
    assert run.examples is not None
    with refused("format"):
        run.examples.logits(300)


def test_without_the_option_nothing_changes(tmp_path: Path) -> None:
    made = outputs(0)
    with cw.LiveSelector(journal=tmp_path / "a/j") as plain:
        for step, domains in made.items():
            plain.add(step, domains)
    live_run(tmp_path / "b", made)
    lines, usual = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("b/checkwise.jsonl", "a/j")
    )
    assert [line for line in lines if line.pop("predictions", None) != "predictions"] == usual
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["j"]


def test_nothing_is_deleted_that_the_journal_did_not_write(tmp_path: Path) -> None:
    made = outputs(0, steps=3)
    live_run(tmp_path, {0: made[0]})
    folder = tmp_path / "predictions"
    for name in ("step-000500", "step-000100"):  # of another run, and of somebody
        (folder / name).mkdir()
    (folder / "step-000500" / "d0.npz").write_bytes(b"theirs")
    (folder / "step-000100" / "model.pt").write_bytes(b"theirs")
    with cw.LiveSelector(journal=tmp_path / "checkwise.jsonl", predictions=True) as live:
        assert (folder / "step-000500" / "d0.npz").exists()
        with refused("exists"):
            live.add(100, made[100])
        live.add(200, made[200])
    assert (folder / "step-000100" / "model.pt").read_bytes() == b"theirs"


def test_two_journals_do_not_share_a_folder(tmp_path: Path) -> None:
    made = outputs(0, steps=3)
    first, second = (
        cw.LiveSelector(journal=tmp_path / name / "checkwise.jsonl", predictions=tmp_path / "both")
        for name in "ab"
    )
    first.add(0, made[0])
    with refused("exists"):
        second.add(0, made[0])
    first.close()
    second.close()
    with cw.LiveSelector(journal=tmp_path / "b" / "checkwise.jsonl"):
        assert (tmp_path / "both" / "step-000000").is_dir()


def test_a_calibrator_stays_where_its_predictions_are_gone(tmp_path: Path) -> None:
    journal = tmp_path / "checkwise.jsonl"
    with cw.LiveSelector(journal=journal, calibrator="ts-soften") as live:
        for step, domains in outputs(1, sizes=(40, 60), gain=1.0).items():
            live.add(step, domains)
    fitted = (tmp_path / "calibrator.json").read_text()
    (tmp_path / "predictions").rename(tmp_path / "elsewhere")  # a disk that is not mounted
    cw.LiveSelector(journal=journal, calibrator="ts-soften").close()
    assert (tmp_path / "calibrator.json").read_text() == fitted


@pytest.mark.parametrize("tolerance", ["fixed", "paired"])
def test_groups_of_some_sets_alone_are_refused(tmp_path: Path, tolerance: str) -> None:
    (grouped,) = outputs(0, steps=1, grouped=True).values()
    (name, *_) = grouped
    grouped[name] = grouped[name][:2]
    with cw.LiveSelector(
        journal=tmp_path / "checkwise.jsonl", predictions=True, tolerance=tolerance
    ) as live:
        with refused("differs"):
            live.add(0, grouped)
        live.add(0, outputs(0, steps=1, grouped=True)[0])  # nothing of the first was kept
