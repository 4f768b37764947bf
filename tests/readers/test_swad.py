"""SWAD's logs: several runs in one file, and a validation loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from checkwise.readers import load, load_runs
from checkwise.records import RunKey
from tests.readers.samples import STEPS, Record, swad, swad_file, write_lines
from tests.refusals import refused


def test_each_target_is_a_run_of_its_own(tmp_path: Path) -> None:
    runs = load_runs(write_lines(tmp_path / "results.jsonl", swad_file()))
    assert list(runs) == [RunKey("HTP", "ERM", (f"env{t}",), 0, 0) for t in range(3)]
    run = runs[RunKey("HTP", "ERM", ("env1",), 0, 0)]
    assert run.domains == ("env0", "env2")
    np.testing.assert_allclose(run.values["accuracy"][1], [0.6, 0.8])


def test_the_validation_loss_is_a_pooled_nll(tmp_path: Path) -> None:
    runs = load_runs(write_lines(tmp_path / "results.jsonl", swad_file()))
    for target, run in enumerate(runs.values()):
        np.testing.assert_allclose(run.pooled["nll"], [0.7 + s / 1000 + target / 10 for s in STEPS])
        assert run.metrics == ("accuracy", "nll")


def test_several_runs_are_too_many_for_load(tmp_path: Path) -> None:
    log = write_lines(tmp_path / "results.jsonl", swad_file())
    with refused("ambiguous: 3"):
        load(log)
    one = write_lines(tmp_path / "one.jsonl", swad_file()[:3])
    assert load(one).domains == ("env1", "env2")


def test_seeds_tell_runs_with_the_same_target_apart(tmp_path: Path) -> None:
    records = [
        swad(step, 0, args=swad(step, 0)["args"] | {"seed": seed})
        for seed in (0, 1)
        for step in STEPS
    ]
    runs = load_runs(write_lines(tmp_path / "results.jsonl", records))
    assert [key.hparams_seed for key in runs] == [0, 1]
    assert all(len(run) == 3 for run in runs.values())


def _without_real(record: Record) -> Record:
    args = {name: value for name, value in record["args"].items() if name != "real_test_envs"}
    return record | {"args": args}


def test_without_real_test_envs_restarting_steps_separate_the_runs(tmp_path: Path) -> None:
    plain = [_without_real(record) for record in swad_file()]
    told = load_runs(write_lines(tmp_path / "told.jsonl", swad_file()))
    guessed = load_runs(write_lines(tmp_path / "plain.jsonl", plain))
    assert {k: run.digest for k, run in guessed.items()} == {
        k: run.digest for k, run in told.items()
    }
    again = [*plain, _without_real(swad(0, 2))]
    with refused("ambiguous: 3 … 10"):
        load_runs(write_lines(tmp_path / "again.jsonl", again))


def test_a_loss_that_is_not_finite_marks_the_step(tmp_path: Path) -> None:
    records = [swad(0, 0), swad(100, 0, tr_outloss=float("nan")), swad(200, 0)]
    run = load(write_lines(tmp_path / "results.jsonl", records))
    assert run.n_diverged == 1
    assert "step 100 diverged: nll not finite" in run.notes


def test_a_mean_over_domains_left_out_is_not_read(tmp_path: Path) -> None:
    log = write_lines(tmp_path / "results.jsonl", swad_file()[:3])
    run = load(log, held_out="env1")
    assert run.domains == ("env2",)
    assert run.metrics == ("accuracy",)
    assert any("tr_outloss" in note for note in run.notes)


def test_a_torn_last_line_is_said_by_the_run_it_belongs_to(tmp_path: Path) -> None:
    log = write_lines(tmp_path / "results.jsonl", swad_file())
    log.write_bytes(log.read_bytes()[:-9])
    *others, last = load_runs(log).values()
    assert len(last) == 2
    assert any("cut off" in note for note in last.notes)
    assert not any("cut off" in note for run in others for note in run.notes)
