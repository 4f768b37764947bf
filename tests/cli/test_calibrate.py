"""``checkwise calibrate`` and the costs in ``compare``, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.calibrators.temperature import fit_temperature
from checkwise.cli import main
from tests.study.cohorts import tiny_runs, write_cohort
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
    assert run("calibrate", one, "--oracle", "--json") == 0
    found = strict(capsys.readouterr().out)["runs"][0]
    assert found["temperature"] == pytest.approx(3 / np.log(13 / 3))
    places = found["places"]
    assert [name for name, place in places.items() if place["fitted_on_these"]] == ["source"]
    assert list(places) == ["source", "source, left out", "sketch"]
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
    assert run("calibrate", path, "--rule", "source-acc", "--variant", "per-domain") == 0
    said = capsys.readouterr().out
    assert "source, fitted on these" in said
    assert "source, fitted on the other domains" in said
    assert "3 runs, source-acc: T from 2.136 to 2.136" in said
    assert "Predictions are those of the unscaled logits" in said
    nll = next(line for line in said.splitlines() if line.split()[:1] == ["nll"])
    assert nll.split()[-1] == "3/3"


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
    assert "no finite temperature is best: every example is predicted correctly" in said
    assert "T from 1.000 to 1.000" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--variant", "platt"], "Expected a variant among pooled, per-domain, weighted"),
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
    assert "Expected a scope among run, hparams-acc, hparams-ac" in capsys.readouterr().err


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
    assert written["schema"] == 1
    assert (written["step"], written["rule"]) == (chosen.step, "ac-nc")
    assert written["digests"]["trajectory"] == chosen.digest
    assert written["state"] == "fitted"
    assert set(written["fitted_on"]["domains"]) == {"art", "photo"}
    assert written["fitted_on"]["n"] == 800
    saved = []
    for domain in ("art", "photo"):
        with np.load(folder / f"step-{chosen.step:06d}" / f"{domain}.npz") as file:
            saved.append(dict(file))
    fit = fit_temperature(
        np.concatenate([s["logits"] for s in saved]), np.concatenate([s["labels"] for s in saved])
    )
    assert written["temperature"] == fit.value > 1.5
    assert written["fitted_on"]["errors"] == fit.errors > 20
    assert run("calibrate", folder, "--held-out", "sketch", "--json") == 0
    places = strict(capsys.readouterr().out)["runs"][0]["places"]
    assert list(places) == ["source", "source, left out"]


def test_a_single_validation_set_is_measured_on_the_half_that_was_not_fitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = predictions(tmp_path / "run")
    assert run("calibrate", folder, "--json") == 0
    found = strict(capsys.readouterr().out)["runs"][0]
    places = found["places"]
    assert list(places) == ["source", "source, other half"]
    honest, flattered = places["source, other half"]["after"], places["source"]["after"]
    assert flattered["nll"] < honest["nll"] < places["source"]["before"]["nll"]
    assert honest["accuracy"] == places["source"]["before"]["accuracy"]
    assert run("calibrate", folder) == 0
    assert "source, fitted on the other half" in capsys.readouterr().out


@pytest.mark.parametrize(("n", "state"), [(400, "fitted"), (40, "few-errors"), (3, "separable")])
def test_too_few_errors_are_a_state_and_a_note(
    n: int, state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = predictions(tmp_path / "run", n)
    if state == "separable":
        for file in folder.glob("*/*.npz"):
            np.savez(file, logits=5.0 * np.eye(3), labels=np.arange(3))
    assert run("calibrate", folder, "-o", tmp_path / "c.json") == 0
    said = capsys.readouterr().out
    written = strict((tmp_path / "c.json").read_text())
    assert written["state"] == state
    assert f"({state})" in said
    assert bool(written["notes"]) == (state != "fitted")
    if state == "few-errors":
        assert 0 < written["fitted_on"]["errors"] < 20
        assert "too few to trust a temperature" in said


@pytest.mark.parametrize("variant", ["pooled", "per-domain", "weighted"])
def test_what_is_written_is_enough_to_apply_it(variant: str, path: Path, tmp_path: Path) -> None:
    one = next((path / "runs").iterdir())
    assert run("calibrate", one, "--variant", variant, "-o", tmp_path / "c.json") == 0
    written = strict((tmp_path / "c.json").read_text())
    assert written["variant"] == variant
    assert written["key"]["dataset"] == "PACS"
    names = ["pooled"] if variant == "pooled" else ["art", "photo"]
    assert sorted(written["temperatures"]) == names
    assert (written["likeness"] is not None) == (variant == "weighted")
    if variant == "weighted":
        assert written["likeness"]["domains"] == ["art", "photo"]
        assert len(written["likeness"]["offsets"]) == 2
    assert run("calibrate", path, "--variant", variant, "-o", tmp_path / "all.json") == 0
    assert len(strict((tmp_path / "all.json").read_text())["runs"]) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--oracle",), "--oracle with a run or cohort"),
        (("-o", "fit.txt"), "--out to end in .json"),
        (("--held-out", "cartoon"), "held-out domain 'cartoon'"),
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
    assert message in capsys.readouterr().err


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
