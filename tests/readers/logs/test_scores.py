"""A log without accuracy is chosen from by its task's score, and the answer says so at once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.cli import main
from checkwise.records import headline, short_name
from tests.readers.samples import write_csv
from tests.refusals import refused

EPOCHS = (1, 2, 3, 4)


def run(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    assert stop.value.code == 0
    return capsys.readouterr().out


LOSS = (0.9, 0.5, 0.4, 0.6)


def _log(path: Path, **columns: tuple[float, ...]) -> Path:
    rows = [
        {"epoch": epoch, **{name: values[k] for name, values in columns.items()}}
        for k, epoch in enumerate(EPOCHS)
    ]
    return write_csv(path / "log.csv", rows)


HIGHER = (
    "val_f1", "val_balanced_accuracy", "val_auroc", "val_auc", "val_ap", "val/mAP", "val_miou",
    "val/dice", "val_mcc", "val_kappa", "val_r2", "val_mean_token_accuracy", "valF1",
    "val_MulticlassF1Score", "val/DiceScore",
    "eval/rewards/accuracies", "eval_precision", "val_iou", "val_macro_f1", "validation_f1_score",
)  # fmt: skip
LOWER = ("val_wer", "val_cer", "val_rmse", "val_mae", "val_perplexity", "val_eer", "val_mse")


@pytest.mark.parametrize("column", [*HIGHER, *LOWER])
def test_near_the_best_of_the_score_the_loss_decides(column: str, tmp_path: Path) -> None:
    """Epoch 4 is the best by the score, epoch 3 is within 1% of it and has the lowest loss."""
    sign, best = (1, 0.8) if column in HIGHER else (-1, 0.2)
    values = tuple(best - sign * off * best for off in (0.5, 0.02, 0.009, 0.0))
    chosen = cw.select(cw.load(_log(tmp_path, val_loss=LOSS, **{column: values})))
    assert (chosen.rule, chosen.constraint, chosen.step) == ("ac", short_name(column), 3)
    assert chosen.params["delta"] == "1%"
    assert "3" in chosen.explain()
    assert "within 1% of the best" in chosen.explain()
    tight = cw.select(chosen.trajectory, delta="0.1%")
    assert tight.step == 4


def test_accuracy_goes_first(tmp_path: Path) -> None:
    path = _log(tmp_path, val_f1=(0.1, 0.2, 0.3, 0.9), val_acc=(0.9, 0.9, 0.9, 0.1), val_loss=LOSS)
    assert cw.select(cw.load(path)).rule == "ac-nll"


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("val_f1", "val_precision", "val_recall"), ["val_f1"]),
        (("mAP50", "mAP50-95"), ["mAP50-95"]),
        (("coco/bbox_mAP", "coco/bbox_mAP_50", "coco/bbox_mAP_s"), ["coco/bbox_mAP"]),
        (("eval_wer", "eval_cer"), ["eval_wer"]),
        (("val_rmse", "val_mae", "val_r2"), ["val_r2"]),
        (("val_f1", "val_auroc"), ["val_f1", "val_auroc"]),
        (("AP", "AP .5", "AP (M)", "AR"), ["AP"]),
        (("best_val_f1", "val_f1_std", "val_loss", "lr"), []),
    ],
)
def test_one_score_of_a_kind_speaks_for_the_others(
    names: tuple[str, ...], found: list[str]
) -> None:
    assert headline(names) == found


@pytest.mark.parametrize(
    ("column", "short"),
    [
        ("val_f1/val/epoch", "f1"),
        ("eval_f1/evaluation", "f1"),
        ("f1_Dev-METRICS", "f1"),
        ("f1/interval", "f1/interval"),
        ("f1/val(B)", "f1/val"),
        ("/val", "/val"),
        ("val_f1" + "/val" * 40_000 + "x", "f1" + "/val" * 40_000 + "x"),
        ("val_f1" + "/val" * 40_000, "f1"),
    ],
    ids=lambda name: name[-12:],
)
def test_words_for_the_set_are_left_out_at_once(column: str, short: str) -> None:
    started = time.process_time()
    assert short_name(column) == short
    assert time.process_time() - started < 1


def test_two_kinds_of_scores_are_asked_about(tmp_path: Path) -> None:
    scores = {"val_f1": (0.1, 0.2, 0.3, 0.9), "val_auroc": (0.9, 0.9, 0.9, 0.1)}
    run_ = cw.load(_log(tmp_path, **scores, val_loss=LOSS))
    with refused("ambiguous: f1 … auroc … --constraint"):
        cw.select(run_)
    assert cw.select(run_, "pure-nll").step == 3
    chosen = cw.select(run_, "ac", constraint="f1", delta="1%", objectives=["nll"])
    assert chosen.step == 4


def test_a_score_alone(tmp_path: Path) -> None:
    chosen = cw.select(cw.load(_log(tmp_path, val_rmse=(3.0, 1.0, 2.0, 4.0))))
    assert (chosen.rule, chosen.step) == ("pure-rmse", 2)
    assert "probabilit" not in chosen.explain().lower()
    assert json.loads(chosen.to_json())["rule"] == "pure-rmse"


def test_the_loss_of_a_regression_is_no_nll(tmp_path: Path) -> None:
    chosen = cw.select(cw.load(_log(tmp_path, val_mae=(3.0, 1.0, 1.001, 4.0), val_loss=LOSS)))
    assert set(chosen.trajectory.metrics) == {"mae", "loss"}
    assert chosen.step == 3


DETECTION = "epoch,train/box_loss,metrics/mAP50(B),metrics/mAP50-95(B),val/box_loss,val/cls_loss\n"


def test_detection_without_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["1,1,.9,.40,1,1", "2,1,.8,.599,.5,.3", "3,1,.8,.60,.6,.3", "4,1,.8,.5,.1,.1"]
    path = tmp_path / "results.csv"
    path.write_text(DETECTION + "\n".join(rows) + "\n")
    (tmp_path / "weights").mkdir()
    for epoch in range(4):
        (tmp_path / "weights" / f"epoch{epoch}.pt").write_bytes(b"weights")
    loaded = cw.load(path)
    assert loaded.columns["loss"] == "val/box_loss + val/cls_loss"
    assert loaded.values["loss"][:, 0].tolist() == [2, 0.8, 0.9, 0.2]
    assert loaded.own_best == ("best.pt", 2)  # as the files count
    named = cw.load(path, metrics=("mAP50", "loss"))
    assert cw.select(named, "ac", constraint="mAP50", delta="50%", objectives=["loss"]).step == 3
    first = run(capsys, "select", path).splitlines()[0]
    assert first.startswith("Use step 1: ")
    assert "epoch1.pt" in first
    assert "(best.pt is step 2; within 1% of its mAP50-95, step 1 has the lowest loss)" in first


def _state(path: Path, best: dict[str, Any], **scores: tuple[float, ...]) -> Path:
    history = [
        {"step": 10 * epoch, "epoch": epoch, "eval_loss": LOSS[k]}
        | {f"eval_{name}": values[k] for name, values in scores.items()}
        for k, epoch in enumerate(EPOCHS)
    ]
    path.write_text(json.dumps({"log_history": history, **best}))
    return path


def test_of_several_scores_the_trainers_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = {"f1": (0.1, 0.2, 0.899, 0.9), "roc_auc": (0.95, 0.9, 0.9, 0.1)}
    place = tmp_path / "trainer_state.json"
    by_f1 = {"best_metric": 0.9, "best_model_checkpoint": "out/checkpoint-40"}
    _state(place, by_f1, **scores)
    chosen = cw.select(cw.load(place))
    assert (chosen.constraint, chosen.step) == ("f1", 30)
    first = run(capsys, "select", place).splitlines()[0]
    assert "checkpoint-40 is step 40; within 1% of its f1, step 30 has the lowest loss" in first
    by_loss = {"best_metric": 0.4, "best_model_checkpoint": "out/checkpoint-30"}
    assert cw.select(cw.load(_state(place, by_loss, **scores))).rule == "pure-nll"
    with refused("ambiguous: --constraint"):
        cw.select(cw.load(_state(place, {}, **scores)))


def test_best_pt_is_named_where_every_ultralytics_would_keep_the_same(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text(DETECTION + "1,1,.9,.50,1,1\n2,1,.1,.51,1,1\n")
    assert cw.load(path).own_best is None  # by 0.1 mAP50 + 0.9 mAP50-95 it is the first
    path.write_text(DETECTION + "1,1,.5,.50,1,1\n2,1,.5,.51,1,1\n3,1,.5,.51,1,1\n")
    assert cw.load(path).own_best == ("best.pt", 3)  # the last of equals
