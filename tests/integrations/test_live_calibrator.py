"""The calibrator of live selection: always of the choice, as `deploy --calibrator-only` has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import checkwise as cw
from checkwise.calibrators import calibrators, fit, from_dict
from checkwise.cli import app
from checkwise.errors import InputError
from tests.cli.choices import choose
from tests.refusals import refused
from tests.requirements import available
from tests.selection.example_runs import outputs


def calibrated_run(folder: Path, made: dict[int, dict[str, Any]], name: str) -> cw.LiveSelector:
    with cw.LiveSelector("ac-nc", journal=folder / "checkwise.jsonl", calibrator=name) as live:
        for step, domains in made.items():
            live.add(step, domains)
    return live


def written(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "calibrator.json").read_text())
    return record


def offline(path: Path, name: str) -> dict[str, Any]:
    """What `deploy --calibrator-only` writes."""
    out, choice = path.parent / "offline.json", path.parent / "choice.json"
    choose(path, choice, rule="ac-nc")
    words = ["deploy", str(choice), "--calibrator-only", "--calibrator", name, "--force"]
    words += ["-o", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    record: dict[str, Any] = json.loads(out.read_text())
    return record


@pytest.mark.parametrize("name", sorted(calibrators()))
def test_the_same_as_of_the_same_predictions_afterwards(tmp_path: Path, name: str) -> None:
    grouped = name == "ts-soften"
    made = outputs(3, sizes=(80, 120), gain=0.4, grouped=grouped)
    live = calibrated_run(tmp_path / "run", made, name)
    found = written(tmp_path / "run")
    for path in (tmp_path / "run", tmp_path / "run" / "predictions"):
        expected = offline(path, name)
        for part in expected:
            if part not in ("run", "digests"):
                assert found[part] == expected[part], part
        assert found["digests"]["logits"] == expected["digests"]["logits"]
    assert offline(tmp_path / "run", name)["digests"] == found["digests"]
    assert found["step"] == live.choice
    assert ("groups" in found["cross_fitted_change"]) is grouped
    half = {d: (out[0].astype(np.float16), out[1]) for d, out in made[found["step"]].items()}
    assert from_dict(found).params == fit(half, name).params
    chosen = live.selection
    assert chosen is not None
    assert chosen.as_dict()["calibration"]["params"] == found["params"]
    assert f"Calibrated: {name}" in chosen.explain()


def test_the_file_is_of_the_choice_after_every_record(tmp_path: Path) -> None:
    made = outputs(0, sizes=(40, 60), gain=1.0)
    made[0]["d0"][0][0, 0] = np.nan  # nothing to choose at first
    choices = set()
    for step, domains in made.items():
        with cw.LiveSelector(
            "ac-nc", journal=tmp_path / "checkwise.jsonl", calibrator="ts-soften"
        ) as live:
            live.add(step, domains)
            (tmp_path / f"{step}.pt").touch()
            live.saved(step, tmp_path / f"{step}.pt")
            if live.choice is None:
                assert not (tmp_path / "calibrator.json").exists()
                continue
            assert written(tmp_path)["step"] == live.choice
            assert written(tmp_path)["weights"] == str(tmp_path / f"{live.choice}.pt")
            choices.add(live.choice)
    assert len(choices) > 2
    (tmp_path / "calibrator.json").write_text("{}")  # a kill before the file was written
    (tmp_path / ".calibrator.json.123.0123abcd.tmp").write_text("{")  # or while it was
    with cw.LiveSelector(
        "ac-nc", journal=tmp_path / "checkwise.jsonl", calibrator="ts-soften"
    ) as live:
        assert written(tmp_path)["step"] == live.choice
        assert not [*tmp_path.glob(".*.tmp")]
        live.resume(200)
        assert written(tmp_path)["step"] == live.choice <= 200  # type: ignore[operator]
        live.resume(0)
        assert not (tmp_path / "calibrator.json").exists()


def test_states_are_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    z = 6 * np.eye(3)[y] + rng.normal(size=(200, 3))
    few = calibrated_run(tmp_path / "few", {1: {"val": (z, y)}}, "ts").selection
    assert few is not None
    assert written(tmp_path / "few")["state"] == "saturated"
    assert written(tmp_path / "few")["params"] is None
    assert "too few to fit ts" in few.explain()
    assert few.as_dict()["calibration"]["state"] == "saturated"
    hard = 0.05 * np.eye(3)[y] + 0.01 * rng.normal(size=(200, 3))
    wrong = np.arange(200) < 30
    hard[wrong] = np.roll(hard[wrong], 1, axis=1)
    edge = calibrated_run(tmp_path / "edge", {1: {"val": (hard, y)}}, "ts-soften").selection
    assert edge is not None
    assert written(tmp_path / "edge")["state"] == "edge"
    assert "The optimum is at an edge" in edge.explain()


def test_a_choice_without_predictions_has_no_calibrator(tmp_path: Path) -> None:
    made = outputs(0, sizes=(40, 60), gain=1.0)
    journal = tmp_path / "checkwise.jsonl"
    with cw.LiveSelector("ac-nc", journal=journal) as live:
        live.add(700, made[700])
    with cw.LiveSelector("ac-nc", journal=journal, calibrator="ts") as live:
        live.add(800, {name: (-z, y) for name, (z, y) in made[700].items()})
        assert live.choice == 700
        assert live.selection is not None
        assert "no calibrator: the predictions of step 700 were not kept" in live.selection.notes
    assert not (tmp_path / "calibrator.json").exists()
    words = ["deploy", str(tmp_path), "--calibrator-only", "-o", str(tmp_path / "c.json")]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, InputError)
    assert done.exception.code == "missing"


def test_wrong_names_are_refused_at_once(tmp_path: Path) -> None:
    with refused("unknown"):
        cw.LiveSelector(journal=tmp_path / "j", calibrator="platt")
    with refused("missing"):
        cw.LiveSelector(calibrator="ts")
    assert not (tmp_path / "j").exists()


def test_deploy_reads_the_predictions_that_were_kept(tmp_path: Path) -> None:
    available("torch", "safetensors")
    import torch

    from checkwise.deployed import load

    made = outputs(3, sizes=(80, 120), gain=0.4)
    with cw.LiveSelector(
        "ac-nc", journal=tmp_path / "run/checkwise.jsonl", calibrator="ts-soften"
    ) as live:
        for step, domains in made.items():
            live.add(step, domains)
            torch.save({"weight": torch.full((1,), float(step))}, tmp_path / f"run/{step}.pt")
            live.saved(step, tmp_path / f"run/{step}.pt")
    cw.deploy(tmp_path / "run", tmp_path / "one")
    one = load(tmp_path / "one")
    assert one.calibrator is not None
    assert one.calibrator.params == written(tmp_path / "run")["params"]
    assert one.info["steps"] == [live.choice]
    cw.deploy(tmp_path / "run", tmp_path / "mean", average="probabilities", delta_pp=12)
    mean = load(tmp_path / "mean")
    members = mean.info["steps"]
    assert len(members) > 1
    own = {}
    for name, (_, y) in made[0].items():
        z = np.stack([made[step][name][0].astype(np.float16).astype(float) for step in members])
        p = np.exp(z) / np.exp(z).sum(axis=2, keepdims=True)
        own[name] = (np.log(p.mean(axis=0)), y)
    assert mean.calibrator is not None
    assert mean.calibrator.temperature == pytest.approx(fit(own).temperature, rel=1e-3)
    assert mean.calibrator.temperature != one.calibrator.temperature
