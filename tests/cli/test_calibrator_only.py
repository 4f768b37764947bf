"""``deploy --calibrator-only``: one calibrator in a file, and what it changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.calibrators import calibrators, change_of, fit, fit_temperature, from_dict
from checkwise.records import group_numbers
from checkwise.study.folder import LOG
from tests.cli.calls import heard, otherwise, run
from tests.cli.choices import choose
from tests.study.cohorts import mark_again, tiny_runs, write_cohort
from tests.study.test_methods import pair, save_logits


def calibrate(path: Path, out: Path, *words: object) -> int:
    return run("deploy", path, "--calibrator-only", "-o", out, *words)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = write_cohort(tmp_path / "tiny", tiny_runs()[:3])
    for place in (folder / "runs").iterdir():
        for step in (100, 200):
            save_logits(place, step, {"art": pair(3, 6), "photo": pair(3, 7)}, "source")
            save_logits(place, step, {"sketch": pair(3, 5)}, "heldout/sketch")
    return folder


def strict(text: str) -> Any:
    def refuse(name: str) -> Any:
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


def predictions(folder: Path, n: int = 400, domains: tuple[str, ...] = ("val",)) -> Path:
    """Two checkpoints of a model that is right in about nine of ten and far too sure."""
    rng = np.random.default_rng(0)
    truth = {domain: rng.integers(0, 3, n) for domain in domains}
    for step, skill in ((100, 2.0), (200, 2.2)):
        place = folder / f"step-{step:06d}"
        place.mkdir(parents=True)
        for domain, labels in truth.items():
            logits = 5 * (skill * np.eye(3)[labels] + rng.normal(size=(n, 3)))
            np.savez(place / f"{domain}.npz", logits=logits, labels=labels)
    return folder


def test_a_predictions_folder_is_calibrated_and_what_was_fitted_is_written(tmp_path: Path) -> None:
    folder = predictions(tmp_path / "run", domains=("art", "photo"))
    for place in folder.iterdir():
        (place / "target.npz").write_bytes(b"poison")
        (place / "sketch.npz").write_bytes(b"poison")
    out, choice = tmp_path / "calibration.json", tmp_path / "choice.json"
    choose(folder, choice, {"held_out": ("sketch",)})
    assert calibrate(choice, out) == 0
    said = " ".join(heard().out.split())
    written = strict(out.read_text())
    chosen = cw.select(cw.load(folder, held_out="sketch"))
    assert written["schema"] == 2
    assert written["calibrator"] == "ts-soften"
    assert (written["step"], written["rule"]) == (chosen.step, "ac-nc")
    assert written["digests"]["trajectory"] == chosen.digest
    assert written["state"] == "fitted"
    assert set(written["fitted_on"]) == {"art", "photo"}
    assert written["n"] == 800
    assert written["conditions"] == []
    saved = []
    for domain in ("art", "photo"):
        with np.load(folder / f"step-{chosen.step:06d}" / f"{domain}.npz") as file:
            saved.append(dict(file))
    fitted = fit_temperature(
        np.concatenate([s["logits"] for s in saved]), np.concatenate([s["labels"] for s in saved])
    )
    assert written["temperature"] == fitted.value > 1.5
    assert written["errors"] == fitted.errors > 20
    assert from_dict(written).apply(saved[0]["logits"]).tolist() == pytest.approx(
        saved[0]["logits"] / fitted.value
    )
    change = written["cross_fitted_change"]
    assert change["low"] < change["mean"] < change["high"] < 0
    assert f"Step {chosen.step}." in said
    assert f"T = {fitted.value:.3g}" in said
    shown = f"changes by −{-change['mean']:.4f} [−{-change['low']:.4f}, −{-change['high']:.4f}]"
    assert shown in said
    assert str(out) in said


def test_json_is_what_the_file_holds(tmp_path: Path) -> None:
    folder, out = predictions(tmp_path / "run"), tmp_path / "c.json"
    assert calibrate(folder, out, "--json") == 0
    found = strict(heard().out)
    assert found.pop("path") == str(out)
    assert f"T = {found['temperature']:.3g}" in found.pop("calibration")
    assert found == strict(out.read_text())


@pytest.mark.parametrize(("n", "state"), [(400, "fitted"), (40, "saturated"), (3, "saturated")])
@pytest.mark.parametrize("calibrator", ["ts", "ts-soften"])
def test_too_few_errors_are_a_state_with_conditions(
    n: int, state: str, calibrator: str, tmp_path: Path
) -> None:
    folder = predictions(tmp_path / "run", n)
    if n == 3:
        for file in folder.glob("*/*.npz"):
            np.savez(file, logits=5.0 * np.eye(3), labels=np.arange(3))
    assert calibrate(folder, tmp_path / "c.json", "--calibrator", calibrator) == 0
    said = " ".join(heard().out.split())
    written = strict((tmp_path / "c.json").read_text())
    assert (written["state"], written["forced"]) == (state, False)
    assert bool(written["conditions"]) == (state != "fitted")
    if state == "saturated":
        assert (written["params"] is None) == (calibrator == "ts")
        changed = written["temperature"] not in (None, 1)
        assert ("Calibration changed nothing" in said) != changed
        assert all(condition in said for condition in written["conditions"]) == changed


@pytest.mark.parametrize("calibrator", list(calibrators()))
def test_what_is_written_is_enough_to_apply_it(calibrator: str, tmp_path: Path) -> None:
    folder = predictions(tmp_path / "run", domains=("art", "photo"))
    assert calibrate(folder, tmp_path / "c.json", "--calibrator", calibrator) == 0
    written = strict((tmp_path / "c.json").read_text())
    assert written["calibrator"] == calibrator
    logits: Any = {}
    for domain in ("art", "photo"):
        with np.load(folder / f"step-{written['step']:06d}" / f"{domain}.npz") as saved:
            logits[domain] = (saved["logits"], saved["labels"])
    z = logits["art"][0]
    expected = fit(logits, calibrator).probabilities(z)
    np.testing.assert_allclose(from_dict(written).probabilities(z), expected, atol=1e-12)


def test_a_run_of_ours_is_calibrated_without_its_weights(path: Path, tmp_path: Path) -> None:
    one = next((path / "runs").iterdir())
    assert calibrate(one, tmp_path / "c.json") == 0
    written = strict((tmp_path / "c.json").read_text())
    assert written["key"]["dataset"] == "PACS"
    assert written["temperature"] == pytest.approx(3 / np.log(13 / 3))
    assert written["fitted_on"] == {"art": {"n": 8, "errors": 2}, "photo": {"n": 8, "errors": 1}}


def test_groups_of_a_run_stay_in_one_fold(path: Path, tmp_path: Path) -> None:
    one = next((path / "runs").iterdir())
    assert calibrate(one, tmp_path / "c.json") == 0
    assert "groups" not in strict((tmp_path / "c.json").read_text())["cross_fitted_change"]
    for file in (one / "predictions" / "source").glob("*.npz"):
        with np.load(file) as saved:
            arrays: dict[str, Any] = dict(saved)
        arrays |= {f"{domain}.groups": np.arange(8) // 2 for domain in ("art", "photo")}
        np.savez(file, **arrays)
    mark_again(one)
    assert calibrate(one, tmp_path / "grouped.json") == 0
    assert strict((tmp_path / "grouped.json").read_text())["cross_fitted_change"]["groups"] == 8


def test_groups_of_a_predictions_folder_stay_in_one_fold(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    groups = group_numbers(rng.integers(0, 20, 200), 200)
    for step in (100, 200):
        folder = tmp_path / "run" / f"step-{step:06d}"
        folder.mkdir(parents=True)
        logits = 5 * (np.eye(3)[labels] + 0.8 * rng.normal(size=(200, 3)))
        np.savez(folder / "val.npz", logits=logits, labels=labels, groups=groups)
    assert calibrate(tmp_path / "run", tmp_path / "c.json", "--calibrator", "ts") == 0
    assert "folds of whole groups" in heard().out
    found = strict((tmp_path / "c.json").read_text())
    with np.load(tmp_path / "run" / f"step-{found['step']:06d}" / "val.npz") as saved:
        chosen: Any = {"val": (saved["logits"], saved["labels"])}
    expected = change_of(chosen, fit(chosen, "ts"), {"val": groups})
    assert found["cross_fitted_change"] == pytest.approx(expected.as_dict())
    assert found["cross_fitted_change"]["groups"] == 20


def test_runs_without_logits_or_not_finished_are_refused(tmp_path: Path) -> None:
    bare = write_cohort(tmp_path / "bare", tiny_runs())
    out = tmp_path / "c.json"
    assert calibrate(bare / "runs" / "PACS-IRM-sketch-h0-t0", out) == 2
    assert 'train with `logits = "source"`' in heard().err
    assert calibrate(bare / "runs" / "PACS-IRM-sketch-h0-t1", out) == 2
    assert calibrate(bare, out) == 2
    assert "--run" in heard().err
    assert not out.exists()


def test_what_has_no_logits_is_refused(tmp_path: Path) -> None:
    folder = predictions(tmp_path / "run", 50)
    for file in folder.glob("*/*.npz"):
        with np.load(file) as saved:
            labels = saved["labels"]
        np.savez(file, probs=np.full((50, 3), 1 / 3), labels=labels)
    (tmp_path / "run.csv").write_text("step,accuracy,nll\n1,0.9,0.3\n2,0.91,0.2\n")
    for place in (folder, tmp_path / "run.csv"):
        assert calibrate(place, tmp_path / "c.json") == 2
        said = heard().err
        assert "logits" in said
        assert "checkwise predict" in said
        assert said.count("\n") == 1
    assert not (tmp_path / "c.json").exists()


REFUSED = {
    "--calibrator platt": "ts-soften, ts, ts-max",
    "--calibrator none": "--calibrator-only",
    "--average 3": "--average",
    "--average weights": "--average",
}


def test_what_a_calibrator_alone_cannot_be_is_refused(tmp_path: Path) -> None:
    deploy = "deploy RUN --calibrator-only -o OUT"
    lines = {f"{deploy} {words}": said for words, said in REFUSED.items()}
    assert not otherwise(lines, RUN=predictions(tmp_path / "run"), OUT=tmp_path / "c.json")
    assert not (tmp_path / "c.json").exists()


def test_only_a_new_file_of_json_is_written(tmp_path: Path) -> None:
    folder = predictions(tmp_path / "run")
    assert calibrate(folder, tmp_path / "fit.txt") == 2
    assert ".json" in heard().err
    (tmp_path / "c.json").write_text("mine")
    assert calibrate(folder, tmp_path / "c.json") == 2
    assert (tmp_path / "c.json").read_text() == "mine"
    choose(folder, tmp_path / "choice.json")
    assert calibrate(tmp_path / "choice.json", tmp_path / "choice.json", "--force") == 2
    assert "the input" in heard().err
    assert calibrate(folder, tmp_path / "c.json", "--force") == 0
    assert strict((tmp_path / "c.json").read_text())["calibrator"] == "ts-soften"


def test_the_calibrated_nll_is_a_metric_to_choose_by(tmp_path: Path, path: Path) -> None:
    folder = predictions(tmp_path / "run")
    trajectory = cw.load(folder, metrics=["refined_nll"])
    refined, rest = trajectory.values["refined_nll"], trajectory.values["calibration_nll"]
    np.testing.assert_allclose(refined + rest, trajectory.values["nll"])
    assert (rest > 0.1).all()
    best = int(trajectory.steps[refined.mean(axis=1).argmin()])
    choice = tmp_path / "choice.json"
    for place in (folder, next((path / "runs").iterdir())):
        step = choose(place, choice, objectives="refined_nll", delta_pp="100")
        assert place != folder or step == best
        assert calibrate(choice, tmp_path / "c.json", "--force") == 0
        assert strict((tmp_path / "c.json").read_text())["step"] == step


def test_logits_of_held_out_domains_are_not_read(path: Path, tmp_path: Path) -> None:
    one = next((path / "runs").iterdir())
    assert calibrate(one, tmp_path / "one.json") == 0
    shutil.rmtree(one / "predictions" / "heldout")
    mark_again(one)
    assert calibrate(one, tmp_path / "two.json") == 0
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert not (path / LOG).exists()
