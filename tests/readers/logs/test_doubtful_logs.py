"""Logs that could be read in two ways are not read in either."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import checkwise as cw
from tests.refusals import refused

OUTPUTS = (
    "epoch,val_a_accuracy,val_a_loss,val_b_accuracy,val_b_loss,val_loss\n"
    "0,0.5,0.9,0.6,0.8,1.7\n1,0.7,0.7,0.5,0.9,1.6\n2,0.6,0.6,0.4,1.1,1.7\n"
)


def _write(folder: Path, text: str) -> Path:
    path = folder / "training.log"
    path.write_text(text)
    return path


def test_of_several_outputs_none_is_chosen(tmp_path: Path) -> None:
    path = _write(tmp_path, OUTPUTS)
    with refused("ambiguous: --column … accuracy=val_a_accuracy … nll=val_a_"):
        cw.load(path)
    with refused("ambiguous: --column … accuracy=val_b_accuracy … nll=val_b_"):
        cw.load(path, columns={"accuracy": "val_b_accuracy"})
    run = cw.load(path, columns={"accuracy": "val_b_accuracy", "nll": "val_b_loss"})
    assert cw.select(run).step == 0


def test_an_accuracy_of_the_whole_model_is_read_beside_those_of_its_parts(tmp_path: Path) -> None:
    lines = OUTPUTS.splitlines()
    whole = [lines[0] + ",val_accuracy", *(f"{line},0.5" for line in lines[1:])]
    assert cw.load(_write(tmp_path, "\n".join(whole) + "\n")).columns["accuracy"] == "val_accuracy"


@pytest.mark.parametrize("column", ["val_cls_acc", "val_acc_top5"])
def test_a_column_that_may_be_the_accuracy_is_named(column: str, tmp_path: Path) -> None:
    path = _write(tmp_path, f"epoch,val_loss,{column}\n0,0.9,0.5\n1,0.8,0.4\n")
    run = cw.load(path)
    assert run.metrics == ("nll",)
    assert any(f"add --column accuracy={column}" in note for note in run.notes)
    assert "accuracy" in cw.load(path, columns={"accuracy": column}).metrics


@pytest.mark.parametrize("column", ["interval_access", "val_accident_rate"])
def test_a_column_that_is_no_accuracy_is_not_taken_for_one(column: str, tmp_path: Path) -> None:
    run = cw.load(_write(tmp_path, f"epoch,val_loss,{column}\n0,0.9,0.5\n1,0.8,0.4\n"))
    assert run.metrics == ("nll",)
    assert not any("--column" in note for note in run.notes)


def test_values_of_single_batches_are_refused(tmp_path: Path) -> None:
    rows = [f"{step},0.{batch}" for step in (10, 20, 30) for batch in range(4, 9)]
    with refused("ambiguous: 5 … 10"):
        cw.load(_write(tmp_path, "\n".join(["step,val_acc", *rows]) + "\n"))


def test_the_same_value_logged_twice_is_one(tmp_path: Path) -> None:
    rows = [f"{step},0.{step}" for step in (10, 20, 30) for _ in range(2)]
    run = cw.load(_write(tmp_path, "\n".join(["step,val_acc", *rows]) + "\n"))
    assert run.steps.tolist() == [10, 20, 30]


def test_of_three_values_at_the_end_the_first_is_read(tmp_path: Path) -> None:
    text = "step,val_acc\n10,0.5\n20,0.6\n30,0.7\n30,0.8\n30,0.9\n"
    run = cw.load(_write(tmp_path, text))
    assert run.values["accuracy"].ravel().tolist() == [0.5, 0.6, 0.7]


def test_a_log_may_go_back_many_times(tmp_path: Path) -> None:
    steps = [*range(60_000), *([60_002, 60_001] * 30_000)]
    run = cw.load(
        _write(tmp_path, "\n".join(["step,val_acc", *(f"{s},0.5" for s in steps)]) + "\n")
    )
    assert run.steps[-1] == 60_001
    assert any("60001 and 29995 more" in note for note in run.notes)


def test_an_epoch_may_be_infinite(tmp_path: Path) -> None:
    path = _write(tmp_path, "step,epoch,val_acc\n1,inf,0.5\n2,nan,0.6\n3,1e400,0.4\n")
    assert cw.load(path).steps.tolist() == [1, 2, 3]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"log_history": 3}', '{"log_history":'])
def test_the_damaged_state_of_a_run_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text(text)
    with refused("format"):
        cw.load(tmp_path)


def test_a_speed_beyond_every_float_tells_no_number_of_examples(tmp_path: Path) -> None:
    speed = f'"eval_runtime": 1, "eval_samples_per_second": {10**400}'
    records = ", ".join(
        f'{{"step": {k}, "eval_accuracy": 0.{k}, "eval_loss": 1, {speed}}}' for k in (1, 2)
    )
    (tmp_path / "trainer_state.json").write_text(f'{{"log_history": [{records}]}}')
    assert cw.load(tmp_path).counts is None


def test_a_state_that_was_cut_off_leaves_the_older_one(tmp_path: Path) -> None:
    records = ", ".join(f'{{"step": {k}, "eval_accuracy": 0.{k}, "eval_loss": 1}}' for k in (1, 2))
    states = {
        "checkpoint-9": '{"global_step": 9, "log_hi',
        "checkpoint-2": f'{{"global_step": {10**400}, "log_history": [{records}]}}',
        "checkpoint-1": '{"global_step": 1, "log_history": []}',
    }
    for name, text in states.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer_state.json").write_text(text)
    run = cw.load(tmp_path)
    assert run.steps.tolist() == [1, 2]
    assert any("checkpoint-9/trainer_state.json is damaged" in note for note in run.notes)


@pytest.mark.parametrize("end", [b"3,0.7", b"3,0.\r7,1", b"3,\xc3", b'3,"0.7,0.5'])
def test_a_last_line_that_was_cut_off_is_not_read(end: bytes, tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"step,val_acc,val_loss\n1,0.5,1\n2,0.6,1\n" + end)
    run = cw.load(path)
    assert run.steps.tolist() == [1, 2]
    assert "the last line was cut off and is not read" in run.notes


def test_a_cell_that_is_a_list_is_refused(tmp_path: Path) -> None:
    record = {"training_iteration": 1, "trial_id": "a", "val_acc": 0.5, "time_total_s": 1.0}
    spoilt = {**record, "training_iteration": 2, "val_acc": [0.5]}
    lines = [json.dumps(one) for one in (record, spoilt, spoilt)]
    (tmp_path / "result.json").write_text("\n".join(lines) + "\n")
    with refused("format: 'val_acc'"):
        cw.load(tmp_path)


def test_a_huge_loss_of_an_infeasible_checkpoint_warns_of_nothing(tmp_path: Path) -> None:
    text = "step,val_acc,val_loss\n1,0.9,0.1\n2,0.9,0.2\n3,0.1,1e308\n"
    assert cw.select(cw.load(_write(tmp_path, text))).step == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("3,0.7,\n", "1 value of val_acc stands alone and is not read"),
        ("3,0.7,\n4,0.7,\n", "2 values of val_acc stand alone and are not read"),
    ],
)
def test_values_without_the_other_metric_are_counted(more: str, said: str, tmp_path: Path) -> None:
    run = cw.load(_write(tmp_path, f"step,val_acc,val_loss\n1,0.5,1\n2,0.6,0.9\n{more}"))
    assert said in run.notes


# The columns of results.csv of Ultralytics 8 for detection.
DETECTION = (
    "epoch,time,train/box_loss,metrics/mAP50(B),metrics/mAP50-95(B),val/box_loss,val/cls_loss\n"
    "1,9,1,0.4,0.3,0.9,1\n2,18,1,0.6,0.4,0.8,1\n3,27,1,0.5,0.5,0.7,1\n"
)


def test_a_log_of_detection_has_a_score_and_a_loss(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text(DETECTION)
    (tmp_path / "args.csv").write_text("name,value\nlr,1\n")
    run = cw.load(tmp_path)
    assert run.columns == {
        "mAP50-95": "metrics/mAP50-95(B)",
        "mAP50": "metrics/mAP50(B)",
        "loss": "val/box_loss + val/cls_loss",
    }
    assert run.values["loss"][:, 0].tolist() == [1.9, 1.8, 1.7]
    assert cw.select(run).step == 3


def test_the_metrics_of_ultralytics_are_of_validation(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text(DETECTION)
    run = cw.load(tmp_path, metrics=("mAP50(B)", "box_loss"))
    assert run.columns == {"mAP50(B)": "metrics/mAP50(B)", "box_loss": "val/box_loss"}
    assert run.values["mAP50(B)"][:, 0].tolist() == [0.4, 0.6, 0.5]


def test_any_score_of_a_known_trainer_makes_a_log(tmp_path: Path) -> None:
    (tmp_path / "history.csv").write_text("epoch,score,val_score\n0,0.5,0.5\n")
    (tmp_path / "other.csv").write_text("name,value\nlr,1\n")
    with refused("missing: Keras) has score … val_score"):
        cw.load(tmp_path)
