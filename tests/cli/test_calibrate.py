"""``checkwise calibrate`` and the costs in ``compare``, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkwise.cli import main
from tests.study.cohorts import tiny_runs, write_cohort
from tests.study.test_rows import pair, save_logits


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
    assert "no finite temperature is best: every example is ranked first" in said
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
