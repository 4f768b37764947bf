"""DomainBed's logs, with everything that goes wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from checkwise.errors import InputError
from checkwise.readers import load, load_runs
from checkwise.records import RunKey
from tests.readers.samples import STEPS, domainbed, extended, run_folder, write_lines
from tests.refusals import refused


def test_a_run_is_the_validation_accuracy_of_its_source_domains(tmp_path: Path) -> None:
    run = load(run_folder(tmp_path / "run"))
    assert run.steps.tolist() == [0, 100, 200]
    assert run.domains == ("env0", "env1", "env3")
    np.testing.assert_array_equal(run.values["accuracy"][1], [0.6, 0.61, 0.63])
    assert run.key == RunKey("PACS", "ERM", ("env2",), hparams_seed=1, trial_seed=2)


def test_training_losses_are_never_taken_for_validation(tmp_path: Path) -> None:
    run = load(run_folder(tmp_path))
    assert run.metrics == ("accuracy",)
    assert "this log has accuracies only" in run.notes


def test_a_finished_run_and_its_log_file_read_alike(tmp_path: Path) -> None:
    run_folder(tmp_path)
    assert load(tmp_path).digest == load(tmp_path / "results.jsonl").digest
    assert not any("done" in note for note in load(tmp_path).notes)


def test_a_run_without_done_is_read_and_said(tmp_path: Path) -> None:
    (run_folder(tmp_path) / "done").unlink()
    assert any("`done`" in note for note in load(tmp_path).notes)


def test_the_last_record_of_a_re_run_wins_and_is_said(tmp_path: Path) -> None:
    again = [domainbed(step, env0_out_acc=0.25) for step in (0, 100)]
    write_lines(tmp_path / "results.jsonl", [*map(domainbed, STEPS), *again])
    run = load(tmp_path)
    assert run.values["accuracy"][:, 0].tolist() == [0.25, 0.25, 0.7]
    note = next(note for note in run.notes if "re-run" in note)
    assert "2 of 3 steps" in note
    assert "steps after 100 come from an earlier attempt" in note


def test_a_re_run_to_the_end_leaves_nothing_of_the_earlier_attempt(tmp_path: Path) -> None:
    again = [domainbed(step, env0_out_acc=0.25) for step in STEPS]
    write_lines(tmp_path / "results.jsonl", [*map(domainbed, STEPS), *again])
    note = next(note for note in load(tmp_path).notes if "re-run" in note)
    assert "3 of 3 steps" in note
    assert "earlier attempt" not in note


@pytest.mark.parametrize("name", ["seed", "holdout_fraction", "uda_holdout_fraction", "task"])
def test_a_re_run_with_another_setting_is_refused(name: str, tmp_path: Path) -> None:
    args = domainbed(0)["args"]
    other = domainbed(0, args=args | {name: "another"})
    write_lines(tmp_path / "results.jsonl", [*map(domainbed, STEPS), other])
    with pytest.raises(InputError, match=rf"line 1 has {name} = .* and line 4 has 'another'"):
        load(tmp_path)


def test_a_re_run_with_other_hyperparameters_is_refused(tmp_path: Path) -> None:
    other = domainbed(0, hparams={"lr": 1e-3, "batch_size": 32})
    write_lines(tmp_path / "results.jsonl", [*map(domainbed, STEPS), other])
    with refused("ambiguous: 1 … hparams.lr … 5e-05 … 4 … 0.001"):
        load(tmp_path)


def test_a_folder_used_for_two_configurations_holds_two_runs(tmp_path: Path) -> None:
    first = [domainbed(step) for step in STEPS]
    second = [domainbed(s, args=domainbed(s)["args"] | {"test_envs": [0]}) for s in STEPS]
    write_lines(tmp_path / "results.jsonl", first + second)
    (tmp_path / "model.pkl").write_bytes(b"")
    runs = load_runs(tmp_path)
    assert [key.held_out for key in runs] == [("env2",), ("env0",)]
    earlier, later = runs.values()
    assert earlier.domains == ("env0", "env1", "env3")
    assert earlier.paths is None  # the weights are the later run's
    assert later.domains == ("env1", "env2", "env3")
    assert later.paths is not None
    with refused("ambiguous: 2 … load_runs"):
        load(tmp_path)


def test_a_torn_last_line_is_dropped_and_said(tmp_path: Path) -> None:
    log = run_folder(tmp_path) / "results.jsonl"
    log.write_bytes(log.read_bytes()[:-40])
    run = load(tmp_path)
    assert run.steps.tolist() == [0, 100]
    assert any("last line (3) was cut off" in note for note in run.notes)


def test_a_torn_line_in_the_middle_is_refused_by_file_and_line(tmp_path: Path) -> None:
    log = run_folder(tmp_path) / "results.jsonl"
    lines = log.read_text().splitlines()
    log.write_text("\n".join([lines[0], lines[1][:50], lines[2]]))
    with refused("format: results.jsonl … 2 … JSON"):
        load(tmp_path)


@pytest.mark.parametrize("zeros", [b"\0\0\0\0", b"\xff\xfe", b'{"step": "\xc3'])
def test_what_a_power_cut_leaves_behind_counts_as_torn(tmp_path: Path, zeros: bytes) -> None:
    log = run_folder(tmp_path) / "results.jsonl"
    log.write_bytes(log.read_bytes() + zeros)
    assert len(load(tmp_path)) == 3


def test_a_step_with_a_value_that_is_not_finite_has_diverged(tmp_path: Path) -> None:
    records = [domainbed(0), domainbed(100, env1_out_acc=float("nan")), domainbed(200)]
    run = load(write_lines(tmp_path / "results.jsonl", records))
    assert run.diverged is not None
    assert run.diverged.tolist() == [False, True, False]
    assert "step 100 diverged: accuracy not finite" in run.notes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"env1_out_acc": None}, "env1_out_acc, but got nothing in .* line 2"),
        ({"env1_out_acc": "0.5"}, "env1_out_acc, but got '0.5' in .* line 2"),
        ({"env1_out_acc": 61.0}, "divide by 100"),
        ({"env1_out_acc": -0.1}, "0 or more"),
        ({"env1_out_acc": 10**400}, "Expected a number"),
        ({"step": None}, "step, but got nothing"),
        ({"step": 1.5}, "whole number of 0 or more as step"),
        ({"step": -100}, "whole number of 0 or more as step"),
        ({"args": 3}, "args as an object"),
        ({"args": {}}, "args.test_envs"),
        ({"args": {"test_envs": "2"}}, "held_out='env0'"),
        ({"args": {"test_envs": [2], "trial_seed": "x"}}, "args.trial_seed"),
        ({"args": {"test_envs": [0, 1, 2, 3]}}, "at least one source domain"),
    ],
)
def test_a_broken_source_record_is_one_clear_line(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    log = write_lines(tmp_path / "results.jsonl", [domainbed(0), domainbed(100) | change])
    with pytest.raises(InputError, match=said) as caught:
        load_runs(log)
    assert str(log) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_caller_can_name_the_target_of_a_log_without_arguments(tmp_path: Path) -> None:
    records = [{k: v for k, v in domainbed(s).items() if k != "args"} for s in STEPS]
    log = write_lines(tmp_path / "results.jsonl", records)
    assert load(log, held_out="env2").domains == ("env0", "env1", "env3")


def test_a_target_may_have_no_fields_but_no_number_beyond_the_domains(tmp_path: Path) -> None:
    def domains(target: int) -> tuple[str, ...]:
        records = [domainbed(s, args=domainbed(s)["args"] | {"test_envs": [target]}) for s in STEPS]
        return load(write_lines(tmp_path / "results.jsonl", records)).domains

    assert domains(4) == ("env0", "env1", "env2", "env3")  # the fields of env4 were removed
    with refused("format: args.test_envs … env0, env1, env2, env3 … 5"):
        domains(5)


def test_held_out_leaves_out_a_further_domain_and_knows_the_target(tmp_path: Path) -> None:
    run_folder(tmp_path)
    assert load(tmp_path, held_out="env0").domains == ("env1", "env3")
    assert load(tmp_path, held_out=["env2"]).digest == load(tmp_path).digest
    with refused("unknown: 'sketch' … env0 … env1 … env3 … env2"):
        load(tmp_path, held_out="sketch")
    with refused("empty"):
        load(tmp_path, held_out=["env0", "env1", "env3"])


def test_weights_are_named_but_not_opened(tmp_path: Path) -> None:
    run_folder(tmp_path)
    (tmp_path / "model_step100.pkl").write_bytes(b"not a pickle")
    (tmp_path / "model.pkl").write_bytes(b"not a pickle")
    assert load(tmp_path).paths == (
        None,
        str(tmp_path / "model_step100.pkl"),
        str(tmp_path / "model.pkl"),
    )


def test_extended_records_give_every_metric_with_counts(tmp_path: Path) -> None:
    run = load(run_folder(tmp_path, extended))
    assert run.domains == ("art", "cartoon", "sketch")
    assert set(run.metrics) == {"accuracy", "nll", "ece", "cwece", "worst_class_accuracy"}
    assert run.counts is not None
    assert run.counts.tolist() == [100, 100, 100]
    assert run.correct is not None
    assert run.correct[2].tolist() == [52, 53, 55]
    np.testing.assert_allclose(run.values["cwece"][1], [0.06, 0.07, 0.09])
    np.testing.assert_allclose(run.values["nll"][0], [0.7, 0.71, 0.73])


def test_the_worst_class_leaves_out_classes_without_examples(tmp_path: Path) -> None:
    run = load(run_folder(tmp_path, extended))
    np.testing.assert_allclose(run.values["worst_class_accuracy"][0], [0.4, 0.39, 0.37])


def test_class_accuracies_may_come_as_a_list_with_gaps(tmp_path: Path) -> None:
    record = extended(0)
    record["per_domain_class_calibration"] = [
        {**entry, "class_accuracy": [0.8, None, 0.3, float("nan")]}
        for entry in record["per_domain_calibration"]
    ]
    run = load(write_lines(tmp_path / "results.jsonl", [record]))
    assert run.values["worst_class_accuracy"].tolist() == [[0.3, 0.3, 0.3]]
    assert run.n_diverged == 0


def test_a_metric_missing_at_one_step_is_left_out_and_said(tmp_path: Path) -> None:
    records = [extended(step) for step in STEPS]
    for entry in records[1]["per_domain_calibration"]:
        del entry["ece"]
    run = load(write_lines(tmp_path / "results.jsonl", records))
    assert "ece" not in run.metrics
    assert "nll" in run.metrics
    assert any(note.startswith("ece is missing in some records") for note in run.notes)


def test_calibration_at_some_steps_only_leaves_the_accuracies(tmp_path: Path) -> None:
    records = [domainbed(0), extended(100), extended(200)]
    run = load(write_lines(tmp_path / "results.jsonl", records))
    assert run.metrics == ("accuracy",)
    assert len(run) == 3


def test_n_may_not_change_between_steps(tmp_path: Path) -> None:
    records = [extended(step) for step in STEPS]
    records[2]["per_domain_calibration"][1]["n"] = 99
    with refused("differs: 3 … 99"):
        load(write_lines(tmp_path / "results.jsonl", records))


def test_held_out_accepts_the_names_of_an_extended_log(tmp_path: Path) -> None:
    run_folder(tmp_path, extended)
    assert load(tmp_path, held_out="art").domains == ("cartoon", "sketch")
    assert load(tmp_path, held_out="photo").digest == load(tmp_path).digest


@pytest.mark.parametrize("change", [{"domain_index": None}, {"role": "source"}])
def test_a_target_entry_is_known_by_its_role_or_its_index(
    tmp_path: Path, change: dict[str, object]
) -> None:
    records = [extended(step) for step in STEPS]
    clean = load(write_lines(tmp_path / "results.jsonl", records)).digest
    for record in records:
        for field in ("per_domain_calibration", "per_domain_class_calibration"):
            for entry in record[field]:
                if entry["role"] == "target":
                    entry.update(change, accuracy=1.0, class_accuracy=0.0)
    assert load(write_lines(tmp_path / "results.jsonl", records)).digest == clean


def test_infinity_in_one_source_metric_marks_the_step(tmp_path: Path) -> None:
    records = [extended(step) for step in STEPS]
    records[0]["per_domain_calibration"][1]["nll"] = float("inf")
    log = write_lines(tmp_path / "results.jsonl", records)
    assert "Infinity" in log.read_text()
    run = load(log)
    assert run.n_diverged == 1
    assert "step 0 diverged: nll not finite" in run.notes


def test_records_are_sorted_by_step(tmp_path: Path) -> None:
    log = write_lines(tmp_path / "results.jsonl", [domainbed(step) for step in (200, 0, 100)])
    assert load(log).steps.tolist() == [0, 100, 200]


def test_deep_nesting_is_refused_like_any_broken_line(tmp_path: Path) -> None:
    log = tmp_path / "results.jsonl"
    log.write_text("[" * 100_000 + "\n" + json.dumps(domainbed(0)) + "\n")
    with refused("format: 1 … JSON"):
        load(log)
