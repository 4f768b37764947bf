"""Which of two values is better, by the words of a score's name."""

from __future__ import annotations

from functools import partial

from checkwise.metrics import METRICS
from checkwise.selection import direction_of, known_direction
from checkwise.selection.directions import HIGHER, LOWER
from tests.refusals import taken

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


def test_a_name_says_which_is_better() -> None:
    expected = {**dict.fromkeys(BETTER_HIGHER.split(), "higher"), **dict.fromkeys(UNKNOWN.split())}
    expected |= dict.fromkeys(BETTER_LOWER.split(), "lower")
    found = {name: known_direction(name) for name in expected}
    assert found == expected


def test_other_names_are_asked_for() -> None:
    ask = [(partial(direction_of, name), f"ambiguous: --direction {name}=higher or {name}=lower")
           for name in UNKNOWN.split()]  # fmt: skip
    assert taken(ask) == []
    assert direction_of("score", {"score": "lower"}) == "lower"


def test_registered_metrics_say_it_themselves() -> None:
    for name, metric in METRICS.items():
        assert known_direction(name) == metric.direction
    assert known_direction("nll", {"nll": "higher"}) == "lower"


def test_no_word_says_both() -> None:
    assert not HIGHER & LOWER
