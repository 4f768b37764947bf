"""Which of two values is better, by the words of a score's name."""

from __future__ import annotations

import pytest

import checkwise as cw
from checkwise.metrics import METRICS
from checkwise.selection import direction_of, known_direction
from checkwise.selection.directions import HIGHER, LOWER

BETTER_HIGHER = (
    "accuracy val_acc val/top1 eval_top5 acc@1 f1 macro_f1 f1_score eval_f1 evalF1 F1Score"
    " f1-weighted precision(B) metrics/recall(B) AUROC val_auc roc_auc AP mAP metrics/mAP50(B)"
    " metrics/mAP50-95(B) mIoU IoU dice_coefficient dice MCC matthews_correlation kappa bleu BLEU-4"
    " rouge rougeL rouge1 r2 R2 eval/ndcg@10 mrr eval_exact_match samples_per_second psnr"
    " true_positive_rate log_likelihood hits@10 recall_at_5"
)
BETTER_LOWER = (
    "loss eval_loss val/box_loss nll error error_rate top5_error top1_err perplexity eval_ppl"
    " latency p99_latency time eval_runtime memory peak_memory_mb mae val_mae MSE rmse wer eval_wer"
    " cer fid FID ece brier brier_score negative_log_likelihood cross_entropy log_loss"
    " false_positive_rate mean_squared_error seconds"
)
UNKNOWN = (
    "accuracy_loss f1_error time_to_accuracy f1_std accuracy_gap loss_scale"
    " neg_mean_squared_error score eval_score learning_rate grad_norm epoch foo val delta_f1"
    " accuracy_drop contest mapping timeline"
)


@pytest.mark.parametrize("name", BETTER_HIGHER.split())
def test_more_is_better(name: str) -> None:
    assert known_direction(name) == "higher"


@pytest.mark.parametrize("name", BETTER_LOWER.split())
def test_less_is_better(name: str) -> None:
    assert known_direction(name) == "lower"


@pytest.mark.parametrize("name", UNKNOWN.split())
def test_other_names_are_asked_for(name: str) -> None:
    assert known_direction(name) is None
    with pytest.raises(cw.InputError, match=f"--direction {name}=higher or {name}=lower"):
        direction_of(name)
    assert direction_of(name, {name: "lower"}) == "lower"


def test_registered_metrics_say_it_themselves() -> None:
    for name, metric in METRICS.items():
        assert known_direction(name) == metric.direction
    assert known_direction("nll", {"nll": "higher"}) == "lower"


def test_no_word_says_both() -> None:
    assert not HIGHER & LOWER
