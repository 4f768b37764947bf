"""``checkwise calibrate`` and the costs in ``compare``, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.calibrators import calibrators, change_of, fit, from_dict
from checkwise.calibrators.temperature import fit_temperature
from checkwise.cli import main
from checkwise.records.examples import group_numbers
from tests.refusals import names
from tests.study.cohorts import mark_again, tiny_runs, write_cohort
from tests.study.test_methods import pair, save_logits


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


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


def test_json_has_before_and_after_for_every_metric_and_says_what_was_fitted_where(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = next((path / "runs").iterdir())
    forced = ("--calibrator", "ts", "--force")
    assert run("calibrate", one, *forced, "--oracle", "--json") == 0
    found = strict(capsys.readouterr().out)["runs"][0]
    assert (found["calibrator"], found["state"], found["errors"]) == ("ts", "saturated", 3)
    assert found["params"] == {"temperature": found["temperature"]}
    assert found["temperature"] == pytest.approx(3 / np.log(13 / 3))
    places = found["places"]
    assert [name for name, place in places.items() if place["fitted_on_these"]] == ["source"]
    assert list(places) == ["source", "source, cross-fitted", "source, left out", "sketch"]
    assert set(places["sketch"]["before"]) == set(places["sketch"]["after"])
    assert len(places["sketch"]["before"]) == 8
    for place in places.values():
        for metric in ("accuracy", "worst_class_accuracy"):
            assert place["before"][metric] == place["after"][metric]
    # Left out: art (6 of 8) at photo's temperature, where p is 7/8, and the other way round.
    art = -(6 * np.log(7 / 8) + 2 * np.log(1 / 8)) / 8
    photo = -(7 * np.log(6 / 8) + 1 * np.log(2 / 8)) / 8
    assert places["source, left out"]["after"]["nll"] == pytest.approx((art + photo) / 2)
    target = -(5 * np.log(13 / 16) + 3 * np.log(3 / 16)) / 8
    assert places["sketch"]["after"]["nll"] == pytest.approx(target)
    oracle = found["oracle"]["sketch"]
    assert oracle["deployable"] is False
    assert oracle["temperature"] == pytest.approx(3 / np.log(5 / 3))


def test_a_cohort_is_summed_up_in_words(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forced = ("--calibrator", "ts-multi", "--force")
    assert run("calibrate", path, "--rule", "source-acc", *forced) == 0
    said = capsys.readouterr().out
    assert "source, fitted on these" in said
    assert "source, fitted on the other domains" in said
    assert "source, fitted on other folds" in said
    assert "3 runs, source-acc, ts-multi: T from 2.136 to 2.136" in said
    assert "States: 3 saturated." in said
    assert "it falls in" in said
    nll = next(line for line in said.splitlines() if line.split()[:1] == ["nll"])
    assert nll.endswith("better in 3 of 3")
    accuracy = next(line for line in said.splitlines() if " accuracy " in f" {line}")
    assert accuracy.split()[-1] == "none"


def test_without_held_out_logits_only_the_source_side_is_shown(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    for place in (path / "runs").iterdir():
        shutil.rmtree(place / "predictions" / "heldout")
    assert run("calibrate", path) == 0
    assert 'train with logits = "all" to see them' in capsys.readouterr().out


def test_no_finite_temperature_is_said(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (path / "runs").iterdir():
        for step in (100, 200):
            save_logits(place, step, {"art": pair(3, 8), "photo": pair(3, 8)}, "source")
    assert run("calibrate", path) == 0
    said = capsys.readouterr().out
    assert "every example is predicted correctly" in said
    assert "ts-soften: T from 1.000 to 1.000" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--calibrator", "platt"], "Expected a calibrator among ts-soften, ts, ts-max"),
        (["--rule", "best"], "Expected one of the rules"),
        (["--delta-pp", "x"], "Expected a number for --delta-pp"),
    ],
)
def test_bad_input_is_one_line(
    path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("calibrate", path, *arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_runs_without_logits_or_not_finished_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = write_cohort(tmp_path / "bare", tiny_runs())
    assert run("calibrate", bare) == 2
    assert 'train with `logits = "source"`' in capsys.readouterr().err
    assert run("calibrate", bare / "runs" / "PACS-IRM-sketch-h0-t1") == 2
    assert "still being trained" in capsys.readouterr().err
    only = write_cohort(tmp_path / "only", tiny_runs()[3:])
    assert run("calibrate", only) == 2
    assert "at least one finished run" in capsys.readouterr().err


def test_compare_shows_needs_and_seconds_where_rows_need_more_than_logs(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run("compare", path, "--rules", "ac-nc,ac-nc+ts", "--metrics", "target_nll,source_nll") == 0
    )
    said = capsys.readouterr().out
    needs = next(line for line in said.splitlines() if line.startswith("ac-nc+ts  logits, logs"))
    assert float(needs.split()[-1]) > 0
    assert "source_nll of recalibrated rows are on the examples" in said
    assert run("compare", path, "--rules", "ac-nc") == 0
    assert "seconds a run" not in capsys.readouterr().out


def test_compare_in_a_scope(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compare", path, "--scope", "hparams-acc", "--json") == 0
    found = strict(capsys.readouterr().out)
    assert {row["n"] for row in found["contrasts"]} == {3}
    assert all(row["needs"] == "logs" for row in found["contrasts"])
    assert run("compare", path, "--scope", "all") == 2
    assert "run, hparams-acc, hparams-ac" in capsys.readouterr().err


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


def test_a_predictions_folder_is_calibrated_and_what_was_fitted_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = predictions(tmp_path / "run", domains=("art", "photo"))
    for place in folder.iterdir():
        (place / "target.npz").write_bytes(b"poison")
        (place / "sketch.npz").write_bytes(b"poison")
    out = tmp_path / "calibration.json"
    assert run("calibrate", folder, "--held-out", "sketch", "-o", out) == 0
    assert f"What was fitted is in {out}." in capsys.readouterr().out
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
    fit = fit_temperature(
        np.concatenate([s["logits"] for s in saved]), np.concatenate([s["labels"] for s in saved])
    )
    assert written["temperature"] == fit.value > 1.5
    assert written["errors"] == fit.errors > 20
    assert from_dict(written).apply(saved[0]["logits"]).tolist() == pytest.approx(
        saved[0]["logits"] / fit.value
    )
    assert run("calibrate", folder, "--held-out", "sketch", "--json") == 0
    places = strict(capsys.readouterr().out)["runs"][0]["places"]
    assert list(places) == ["source", "source, cross-fitted", "source, left out"]


def test_a_single_validation_set_is_measured_on_folds_that_were_not_fitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = predictions(tmp_path / "run")
    assert run("calibrate", folder, "--json") == 0
    found = strict(capsys.readouterr().out)["runs"][0]
    places = found["places"]
    assert list(places) == ["source", "source, cross-fitted"]
    honest, flattered = places["source, cross-fitted"]["after"], places["source"]["after"]
    assert flattered["nll"] < honest["nll"] < places["source"]["before"]["nll"]
    assert honest["accuracy"] == places["source"]["before"]["accuracy"]
    change = found["cross_fitted_change"]
    assert change["mean"] == pytest.approx(honest["nll"] - places["source"]["before"]["nll"])
    assert change["low"] < change["mean"] < change["high"] < 0
    assert run("calibrate", folder) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "source, fitted on other folds" in said
    assert "State: fitted (" in said
    shown = f"changes the NLL by −{-change['mean']:.4f} [−{-change['low']:.4f}, "
    assert f"{shown}−{-change['high']:.4f}]" in said


@pytest.mark.parametrize(("n", "state"), [(400, "fitted"), (40, "saturated"), (3, "saturated")])
@pytest.mark.parametrize("calibrator", ["ts", "ts-soften"])
def test_too_few_errors_are_a_state_with_conditions(
    n: int, state: str, calibrator: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = predictions(tmp_path / "run", n)
    if n == 3:
        for file in folder.glob("*/*.npz"):
            np.savez(file, logits=5.0 * np.eye(3), labels=np.arange(3))
    words = ("calibrate", folder, "--calibrator", calibrator, "-o", tmp_path / "c.json")
    assert run(*words) == 0
    said = " ".join(capsys.readouterr().out.split())
    written = strict((tmp_path / "c.json").read_text())
    assert written["state"] == state
    assert f"State: {state} (" in said
    assert all(condition in said for condition in written["conditions"])
    assert bool(written["conditions"]) == (state != "fitted")
    if state == "saturated":
        assert "are too few to" in said
        assert (written["params"] is None) == (calibrator == "ts")
        assert ("ts changes nothing." in said) == (calibrator == "ts")
    (tmp_path / "c.json").unlink()
    assert run(*words, "--force") == 0
    forced = strict((tmp_path / "c.json").read_text())
    assert (forced["params"] is None) == (calibrator == "ts" and n == 3)
    assert (forced["state"], forced["forced"]) == (state, True)


@pytest.mark.parametrize("calibrator", list(calibrators()))
def test_what_is_written_is_enough_to_apply_it(calibrator: str, path: Path, tmp_path: Path) -> None:
    one = next((path / "runs").iterdir())
    forced = ("--calibrator", calibrator, "--force")
    assert run("calibrate", one, *forced, "-o", tmp_path / "c.json") == 0
    written = strict((tmp_path / "c.json").read_text())
    assert written["calibrator"] == calibrator
    assert written["key"]["dataset"] == "PACS"
    z, _ = pair(3, 6)
    p = from_dict(written).probabilities(z)
    assert p.max() < cw.calibrators.fit({"a": pair(3, 6)}, "ts").probabilities(z).max()
    assert run("calibrate", path, *forced, "-o", tmp_path / "all.json") == 0
    runs = strict((tmp_path / "all.json").read_text())["runs"]
    assert [from_dict(one).name for one in runs] == [calibrator] * 3


def test_the_calibrated_nll_is_a_metric_to_choose_by(
    tmp_path: Path, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = predictions(tmp_path / "run")
    trajectory = cw.load(folder, metrics=["refined_nll"])
    refined, rest = trajectory.values["refined_nll"], trajectory.values["calibration_nll"]
    np.testing.assert_allclose(refined + rest, trajectory.values["nll"])
    assert (rest > 0.1).all()
    best = int(trajectory.steps[refined.mean(axis=1).argmin()])
    words = ("--objectives", "refined_nll", "--delta-pp", "100", "--json")
    for place in (folder, next((path / "runs").iterdir())):
        assert run("select", place, *words) == 0
        selection = strict(capsys.readouterr().out)
        if place == folder:
            assert selection["step"] == best
        assert run("calibrate", place, *words) == 0
        assert strict(capsys.readouterr().out)["runs"][0]["step"] == selection["step"]
    bare = write_cohort(tmp_path / "bare", tiny_runs()[:1])
    assert run("select", next((bare / "runs").iterdir()), *words) == 2
    assert 'train with `logits = "source"`' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--oracle",), "--oracle"),
        (("-o", "fit.txt"), "--out"),
        (("--held-out", "cartoon"), "held-out … 'cartoon'"),
    ],
)
def test_what_a_predictions_folder_cannot_do_is_refused(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("calibrate", predictions(tmp_path / "run"), *words) == 2
    assert names(message, capsys.readouterr().err)


def test_probabilities_have_no_temperature(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = predictions(tmp_path / "run", 50)
    for file in folder.glob("*/*.npz"):
        with np.load(file) as saved:
            labels = saved["labels"]
        np.savez(file, probs=np.full((50, 3), 1 / 3), labels=labels)
    assert run("calibrate", folder) == 2
    assert "Expected logits, but" in capsys.readouterr().err


def test_held_out_is_for_predictions_folders(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("calibrate", path, "--held-out", "sketch") == 2
    assert "Expected --held-out with a predictions folder" in capsys.readouterr().err


def test_groups_of_a_predictions_folder_stay_in_one_fold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    groups = group_numbers(rng.integers(0, 20, 200), 200)
    for step in (100, 200):
        folder = tmp_path / f"step-{step:06d}"
        folder.mkdir()
        logits = 5 * (np.eye(3)[labels] + 0.8 * rng.normal(size=(200, 3)))
        np.savez(folder / "val.npz", logits=logits, labels=labels, groups=groups)
    assert run("calibrate", tmp_path, "--calibrator", "ts", "--json") == 0
    found = strict(capsys.readouterr().out)["runs"][0]
    with np.load(tmp_path / f"step-{found['step']:06d}" / "val.npz") as saved:
        chosen: Any = {"val": (saved["logits"], saved["labels"])}
    expected = change_of(chosen, fit(chosen, "ts"), {"val": groups})
    assert found["cross_fitted_change"] == pytest.approx(expected.as_dict())
    assert found["cross_fitted_change"]["groups"] == 20
    assert run("calibrate", tmp_path, "--calibrator", "ts") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "(5 folds of whole groups)" in said
    assert "95% interval over 20 groups." in said


def test_groups_of_a_run_stay_in_one_fold(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = next((path / "runs").iterdir())
    assert run("calibrate", one, "--force", "--json") == 0
    assert "groups" not in strict(capsys.readouterr().out)["runs"][0]["cross_fitted_change"]
    for file in (one / "predictions" / "source").glob("*.npz"):
        with np.load(file) as saved:
            arrays: dict[str, Any] = dict(saved)
        arrays |= {f"{domain}.groups": np.arange(8) // 2 for domain in ("art", "photo")}
        np.savez(file, **arrays)
    mark_again(one)
    assert run("calibrate", one, "--force", "--json") == 0
    assert strict(capsys.readouterr().out)["runs"][0]["cross_fitted_change"]["groups"] == 8


def test_a_log_without_logits_says_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.csv").write_text("step,accuracy,nll\n1,0.9,0.3\n2,0.91,0.2\n")
    with pytest.raises(SystemExit) as end:
        main(["calibrate", str(tmp_path / "run.csv")])
    assert end.value.code == 2
    assert "`checkwise predict`" in capsys.readouterr().err
