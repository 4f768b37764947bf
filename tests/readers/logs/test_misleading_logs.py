"""Logs that invite a wrong reading: order, units, sets and values that did not come out finite."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkwise as cw
from tests.cli.calls import refusal, said
from tests.refusals import refused


def _csv(folder: Path, text: str) -> Path:
    path = folder / "log.csv"
    path.write_text(text)
    return path


def _state(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"global_step": 400, "log_history": rows}))
    return path


def _evaluation(step: int, prefix: str, accuracy: float, loss: float) -> dict[str, Any]:
    return {
        "step": step,
        f"{prefix}_accuracy": accuracy,
        f"{prefix}_loss": loss,
        f"{prefix}_runtime": 1.0,
    }


def test_an_evaluation_of_the_training_set_is_training(tmp_path: Path) -> None:
    rows = [_evaluation(s, "eval_train", 0.5 + s / 1000, 0.9) for s in (100, 200, 300)]
    rows += [_evaluation(s, "eval_validation", 0.9 - s / 1000, 0.9) for s in (100, 200, 300)]
    run = cw.load(_state(tmp_path, rows))
    assert run.domains == ("validation",)
    assert run.values["accuracy"][:, 0].tolist() == pytest.approx([0.8, 0.7, 0.6])


def test_a_set_called_validation_is_one_of_several(tmp_path: Path) -> None:
    rows = [_evaluation(s, "eval_photo", 0.5, 0.9) for s in (100, 200, 300)]
    rows += [_evaluation(s, "eval_validation", 0.7, 0.9) for s in (100, 200, 300)]
    assert cw.load(_state(tmp_path, rows)).domains == ("photo", "validation")


@pytest.mark.parametrize("prefix", ["eval_final", "eval_test", "eval_train"])
def test_a_later_evaluation_of_another_set_hides_nothing(tmp_path: Path, prefix: str) -> None:
    rows = [_evaluation(s, "eval", 0.5 + s / 1000, 0.9) for s in (100, 200, 300)]
    run = cw.load(_state(tmp_path, [*rows, _evaluation(300, prefix, 0.1, 3.0)]))
    assert run.domains == ("validation",)
    assert run.values["accuracy"][:, 0].tolist() == [0.6, 0.7, 0.8]


@pytest.mark.parametrize(
    ("third", "chosen"),
    [("nan,0.8", 2), ("inf,0.8", 2), ("0.95,-inf", 2), ("0.95,nan", 2), ("nan,nan", 2)],
)
@pytest.mark.parametrize("percent", [False, True])
def test_what_is_not_finite_diverged(
    tmp_path: Path, third: str, chosen: int, percent: bool
) -> None:
    rows = ["80,1", "90,0.9"] if percent else ["0.8,1", "0.9,0.9"]
    third = third.replace("0.95", "95") if percent else third
    lines = [f"{step},{row}" for step, row in enumerate([*rows, third], start=1)]
    run = cw.load(_csv(tmp_path, "\n".join(["step,val_acc,val_loss", *lines]) + "\n"))
    assert set(run.metrics) == {"accuracy", "nll"}
    assert run.values["accuracy"][:2, 0].tolist() == [0.8, 0.9]
    assert cw.select(run).step == chosen


@pytest.mark.parametrize("percent", ["58.78", "1e-05", "2.5e-7", "5e-324", "1e+16", "1.5e+300"])
def test_a_percentage_of_any_size_is_read_exactly(tmp_path: Path, percent: str) -> None:
    path = _csv(tmp_path, f"step,val_acc_percent\n1,50\n2,{percent}\n")
    if float(percent) <= 100:
        run = cw.load(path)
        assert run.values["accuracy"][-1, 0] == float(Decimal(percent) / 100)
    else:
        with refused(f"value: {float(percent) / 100:g}"):
            cw.load(path)


def test_rows_in_falling_order_are_put_in_order(tmp_path: Path) -> None:
    text = "step,val_acc,val_loss\n300,0.8,1\n200,0.9,0.9\n100,0.7,0.8\n"
    run = cw.load(_csv(tmp_path, text))
    assert run.steps.tolist() == [100, 200, 300]
    assert run.values["accuracy"][:, 0].tolist() == [0.7, 0.9, 0.8]
    assert "steps are put in order" in run.notes


def test_rows_sorted_as_text_are_put_in_order(tmp_path: Path) -> None:
    rows = [f"{step},0.{step:03}" for step in (1, 10, 100, 2, 20)]
    run = cw.load(_csv(tmp_path, "\n".join(["step,val_acc", *rows]) + "\n"))
    assert run.steps.tolist() == [1, 2, 10, 20, 100]
    assert run.values["accuracy"][-1, 0] == 0.1


def test_rows_in_no_order_are_refused(tmp_path: Path) -> None:
    rows = [f"{step},0.5" for step in (100, 300, 200, 500, 400)]
    with refused("format: 200"):
        cw.load(_csv(tmp_path, "\n".join(["step,val_acc", *rows]) + "\n"))


def test_values_of_two_attempts_are_not_put_together(tmp_path: Path) -> None:
    text = "step,val_acc,val_loss\n1,.6,1\n2,,.9\n3,.7,.8\n4,,.7\n5,.90,.5\n4,,.75\n5,.75,.85\n"
    run = cw.load(_csv(tmp_path, text))
    assert run.values["accuracy"][-1, 0] == 0.75
    assert run.values["nll"][-1, 0] == 0.85


def test_a_value_just_above_one_proves_no_percent(tmp_path: Path) -> None:
    with refused("format: 1.02"):
        cw.load(_csv(tmp_path, "step,val_acc\n1,0.8\n2,0.9\n3,1.02\n"))


def test_sets_in_two_units_are_refused(tmp_path: Path) -> None:
    path = _csv(tmp_path, "step,a,b\n1,80,.7\n2,85,.75\n")
    with refused("ambiguous"):
        cw.load(path, columns={"accuracy[a]": "a", "accuracy[b]": "b"})


@pytest.mark.parametrize("column", ["loader", "eval_dataset", "name", "split", "phase"])
def test_a_column_of_words_that_names_a_test_set_is_refused(tmp_path: Path, column: str) -> None:
    rows = ["1,val,0.5", "2,val,0.6", "3,val,0.7", "3,test,0.9"]
    with refused("held-out"):
        cw.load(_csv(tmp_path, "\n".join([f"step,{column},val_acc", *rows]) + "\n"))


def test_a_column_of_other_words_is_left_alone(tmp_path: Path) -> None:
    rows = ["1,test-machine,0.5", "2,test-machine,0.6"]
    run = cw.load(_csv(tmp_path, "\n".join(["step,host,val_acc", *rows]) + "\n"))
    assert run.values["accuracy"][:, 0].tolist() == [0.5, 0.6]


@pytest.mark.parametrize("column", ["trn_accuracy", "tr/accuracy", "ood_accuracy", "test_acc"])
def test_fastai_columns_that_name_another_set_are_not_validation(
    tmp_path: Path, column: str
) -> None:
    path = _csv(tmp_path, f"epoch,train_loss,valid_loss,{column},time\n0,1,.9,.5,00:01\n")
    assert cw.load(path).metrics == ("nll",)


def test_a_decimal_comma_is_called_so(tmp_path: Path) -> None:
    with refused("format"):
        cw.load(_csv(tmp_path, "step;val_acc\n1;0,8\n2;0,9\n"))


def test_values_without_a_step_are_counted(tmp_path: Path) -> None:
    with refused("missing: 1 value"):
        cw.load(_csv(tmp_path, "step,val_acc\n1,0.8\n,0.9\n3,0.7\n"))


def test_a_column_that_is_asked_for_by_its_name_is_mapped_by_it(tmp_path: Path) -> None:
    path = _csv(tmp_path, "step,val_acc,latency\n1,0.8,3\n2,0.9,4\n")
    with refused("held-out: --column … latency=latency"):
        cw.load(path, metrics=["latency"])
    run = cw.load(path, metrics=["latency"], columns={"latency": "latency"})
    assert run.values["latency"][:, 0].tolist() == [3, 4]


def test_a_state_that_was_saved_on_the_way_says_so(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    rows = [_evaluation(s, "eval", 0.5, 0.9) for s in (100, 200, 300)]
    path.write_text(json.dumps({"global_step": 300, "max_steps": 360, "log_history": rows}))
    assert "the log ends at step 300 of 360 that were planned" in cw.load(path).notes


def test_thousands_of_columns_are_no_matter(tmp_path: Path) -> None:
    outputs = [f"val_out{n}_{word}" for n in range(3000) for word in ("acc", "loss")]
    row = ",".join(["1", "0.5", *("0.9" for _ in outputs)])
    run = cw.load(_csv(tmp_path, f"step,val_acc,{','.join(outputs)}\n{row}\n"))
    assert run.values["accuracy"].tolist() == [[0.5]]


@pytest.mark.parametrize("column", ["is_test", "test_set", "target"])
def test_a_column_that_flags_the_test_set_is_refused(tmp_path: Path, column: str) -> None:
    path = _csv(tmp_path, f"step,val_acc,{column}\n1,.5,0\n2,.9,1\n3,.6,0\n")
    with refused("held-out: held_out"):
        cw.load(path)


def test_a_chart_of_means_over_several_runs_is_refused(tmp_path: Path) -> None:
    path = _csv(
        tmp_path,
        '"Step","a - val_acc","a - val_acc__MIN","a - val_acc__MAX"\n"1","0.5","0.4","0.6"\n',
    )
    with refused("format"):
        cw.load(path)


ERRORS = ("error", "err", "merror", "multi_error", "error_rate", "top1_err", "1-acc", "Err@1")


@given(
    st.sampled_from(ERRORS),
    st.sampled_from(["", "val_", "valid/", "eval-"]),
    st.sampled_from([str, str.upper, str.title]),
    st.sampled_from([1, 100]),
    st.permutations(range(20, 61, 5)),
)
def test_the_lowest_error_rate_is_the_highest_accuracy(
    name: str, prefix: str, case: Callable[[str], str], unit: int, errors: list[int]
) -> None:
    column = case(prefix + name)
    text = f"iteration,{column},train_loss\n" + "".join(
        f"{step},{unit * error / 100:g},0.5\n" for step, error in enumerate(errors)
    )
    with TemporaryDirectory() as folder:
        path = _csv(Path(folder), text)
        run = cw.load(path, columns={"accuracy": column})
        assert cw.select(run).step == errors.index(20)
        assert cw.select(run).accuracy == pytest.approx(0.8)
        told = {}
        try:
            run = cw.load(path)
        except cw.InputError as error:
            told = dict([re.findall(r"--column (\S+)=(\S+)\.", str(error))[0]])
            assert told == {"error_rate": column}
            run = cw.load(path, columns=told)
        assert cw.select(run).step == errors.index(20)
        assert cw.select(run).accuracy == pytest.approx(0.8)
    assert bool(told) == (not prefix or name in ("error", "err", "1-acc"))


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("multi_error", "error_rate=multi_error"),  # LightGBM, which does not say its set
        ("val_error,val_loss", "error_rate=val_error"),  # the loss is below 0
        ("test_error,train_error", "error_rate=test_error"),
        ("val_error_rate,eval_error_rate", "error_rate=val_error_rate"),
        ("eval_1-acc", "error_rate=eval_1-acc"),
        *((header, "") for header in ("word_error_rate", "val_top5_error", "ood_error")),
        *((header, "") for header in ("train_error", "train_error,val_top5_error")),
        *((header, "") for header in ("focal_loss", "loss")),
    ],
)
def test_a_hint_about_an_error_rate_works_and_never_says_accuracy(
    tmp_path: Path, header: str, hint: str
) -> None:
    values = [("0.4", "-0.5"), ("0.2", "-0.6"), ("0.3", "-0.7")]
    if "loss" not in header:
        values = [(one, one) for one, _ in values]
    width = header.count(",") + 1
    rows = "".join(f"{step},{','.join(cells[:width])}\n" for step, cells in enumerate(values))
    path = _csv(tmp_path, f"step,{header}\n{rows}")
    assert re.findall(r"--column (\S+?)\.?\s", refusal("select", path)) == [hint] * bool(hint)
    if hint:
        text = said("select", path, "--column", hint)
        assert text.startswith("Use step 1.\n  accuracy  80.00%")


def test_an_accuracy_is_not_taken_as_an_error_rate(tmp_path: Path) -> None:
    for column in ("val_acc", "val_loss", "val_mse"):
        path = _csv(tmp_path, f"step,{column}\n0,0.5\n1,0.4\n")
        with refused(f"value: error_rate … {column}"):
            cw.load(path, columns={"error_rate": column})


def test_a_column_of_any_name_is_an_error_rate_if_it_is_told(tmp_path: Path) -> None:
    run = cw.load(_csv(tmp_path, "step,er\n0,50\n1,40\n"), columns={"error_rate": "er"})
    assert run.values["accuracy"][:, 0].tolist() == [0.5, 0.6]


def test_a_set_without_an_error_rate_is_asked_for_one(tmp_path: Path) -> None:
    path = _csv(tmp_path, "step,er_a,er_b,val_loss/dataloader_idx_1\n0,0.5,0.5,1\n1,0.4,0.4,1\n")
    with refused("missing: error_rate[1]=COLUMN"):
        cw.load(path, columns={"error_rate[0]": "er_a", "nll[1]": "val_loss/dataloader_idx_1"})


@pytest.mark.parametrize(
    ("metric", "column"),
    [
        ("accuracy", "val_mse"),
        ("accuracy", "valid_multi_logloss"),
        ("accuracy", "val_mean_absolute_error"),
        ("nll", "val_err"),
        ("nll", "val_focal_loss"),
        ("nll", "val/hinge_loss"),
        ("nll", "val_dice_loss"),
        ("nll", "valKLLoss"),
        ("nll", "val_acc"),
        ("nll", "val_mae"),
    ],
)
def test_a_column_is_not_read_as_what_its_name_rules_out(
    tmp_path: Path, metric: str, column: str
) -> None:
    path = _csv(tmp_path, f"epoch,{column},val_top1\n0,0.9,0.5\n1,0.8,0.6\n")
    with pytest.raises(cw.InputError) as error:
        cw.load(path, columns={metric: column})
    assert error.value.code == "value"
    assert repr(column) in str(error.value)


def test_a_table_with_domains_takes_no_error_rate_as_accuracy(tmp_path: Path) -> None:
    path = _csv(tmp_path, "step,domain,multi_error\n0,a,0.5\n1,a,0.4\n")
    with pytest.raises(cw.InputError) as error:
        cw.load(path, columns={"accuracy": "multi_error"})
    assert "'multi_error'" in str(error.value)


@pytest.mark.parametrize("header", ["val_top1_error,val_nll", "valid_acc_err,valid_loss"])
def test_no_note_offers_an_error_rate_as_accuracy(tmp_path: Path, header: str) -> None:
    path = _csv(tmp_path, f"epoch,{header}\n0,0.5,0.9\n1,0.4,0.8\n")
    assert not any("accuracy=" in note for note in cw.load(path).notes)


def test_a_plain_loss_is_not_offered_as_nll(tmp_path: Path) -> None:
    path = _csv(tmp_path, "epoch,accuracy,loss\n0,0.5,0.9\n1,0.4,0.8\n")
    with pytest.raises(cw.InputError) as error:
        cw.load(path)
    assert "=loss" not in str(error.value)


@pytest.mark.parametrize("rows", [2, 3, 12])
def test_an_epoch_that_never_changes_is_refused(tmp_path: Path, rows: int) -> None:
    lines = "".join(f"0,0.5,0.9,{0.5 + k / 100},{0.9 - k / 100}\n" for k in range(rows))
    path = _csv(tmp_path, f"epoch,accuracy,loss,val_accuracy,val_loss\n{lines}")
    with pytest.raises(cw.InputError) as error:
        cw.load(path)
    assert error.value.code == "ambiguous"
    assert "'val_accuracy'" in str(error.value)


@pytest.mark.parametrize(
    ("loss", "other", "is_read"),
    [
        ("val/loss", "lr/pg0", False),
        ("val/loss", "time", True),
        ("val/loss", "lr/0", True),  # YOLOv5
        ("valid/loss", "lr/pg0", True),  # of the user's own
    ],
)
def test_the_loss_of_an_old_ultralytics_is_not_read(
    tmp_path: Path, loss: str, other: str, *, is_read: bool
) -> None:
    rows = "".join(f"{k},0.9,{0.5 + k / 10},1,{1.2 - k / 10},1\n" for k in (1, 2, 3))
    header = f"epoch,train/loss,metrics/accuracy_top1,metrics/accuracy_top5,{loss},{other}"
    run = cw.load(_csv(tmp_path, f"{header}\n{rows}"))
    assert run.metrics == (("accuracy", "nll") if is_read else ("accuracy",))
    assert any("val/loss" in note for note in run.notes) is (loss == "val/loss")
    told = cw.load(tmp_path / "log.csv", columns={"nll": loss})
    assert any("8.3.39" in note for note in told.notes) is not is_read


@pytest.mark.parametrize("beside", ["val_mae", "val/mse", "val_r2"])
def test_the_loss_of_a_regression_is_a_loss_beside_its_score(tmp_path: Path, beside: str) -> None:
    run = cw.load(_csv(tmp_path, f"epoch,val_loss,{beside}\n0,0.9,0.8\n1,0.7,0.6\n"))
    assert run.metrics == (beside[4:], "loss")


@pytest.mark.parametrize("beside", ["mae", "val_root_rmse"])
def test_the_loss_of_a_regression_is_not_read_as_nll(tmp_path: Path, beside: str) -> None:
    path = _csv(tmp_path, f"epoch,val_loss,{beside}\n0,0.9,0.8\n1,0.7,0.6\n")
    with pytest.raises(cw.InputError) as error:
        cw.load(path)
    assert error.value.code == "unsupported"
    assert beside in str(error.value)
    run = cw.load(path, columns={"mae": beside, "loss": "val_loss"})
    assert run.metrics == ("mae", "loss")
    assert cw.select(run, "ac", constraint="mae", delta="1%", objectives=["loss"]).step == 1


def test_other_losses_are_not_offered_as_nll(tmp_path: Path) -> None:
    path = _csv(
        tmp_path, "step,val_acc,val_focal_loss,val_triplet_loss\n0,0.5,0.9,1\n1,0.4,0.8,1\n"
    )
    run = cw.load(path)
    assert run.metrics == ("accuracy",)
    assert not any("nll=" in note for note in run.notes)


@pytest.mark.parametrize("column", ["val_smooth_l1", "val_l2", "val_brier", "val_perplexity"])
def test_scores_that_are_no_nll_are_not_taken_for_it(tmp_path: Path, column: str) -> None:
    path = _csv(tmp_path, f"step,val_acc,{column}\n0,0.5,0.9\n1,0.4,0.8\n")
    with refused(f"value: {column} … --objectives"):
        cw.load(path, columns={"nll": column})


def test_an_error_rate_is_subtracted_as_a_decimal(tmp_path: Path) -> None:
    rates = [k / 1000 for k in range(0, 200, 5)]
    rows = "".join(f"{step},{rate:g}\n" for step, rate in enumerate(rates))
    run = cw.load(_csv(tmp_path, f"epoch,val_error_rate\n{rows}"))
    assert run.values["accuracy"][:, 0].tolist() == [(1000 - 5 * k) / 1000 for k in range(40)]


def test_a_value_nested_and_by_its_whole_name_may_not_differ(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for twin, is_same in ((0.5, True), (0.9, False), (float("nan"), False)):
        records = [
            {"epoch": k, "val": {"acc": 0.5, "loss": 1 - k / 9}, "val/acc": twin} for k in range(3)
        ]
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        if is_same:
            assert cw.load(path).values["accuracy"].ravel().tolist() == [0.5] * 3
            continue
        with refused("ambiguous: val/acc … 0.5 … log.jsonl record 1"):
            cw.load(path)
