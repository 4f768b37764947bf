"""The recipes that the study compares: what to choose, what to average, how to calibrate."""

from __future__ import annotations

from collections.abc import Mapping

from checkwise.study import Method, method

SITES, REGIONS = "taicam-sites", "taicam-frozen"
SOFT = "+ts-soften"
RULES = ("last", "source-acc", "pure-nll", "ac-nc", "ac-nll", "ac-cwece", "ac-early")
SOFTENED = ("last", "source-acc", "pure-nll", "ac-nc", "ac-early")
SCALED = ("source-acc", "ac-nc")
CALIBRATORS = ("ts", "ts-max", "ts-oracle")
AVERAGES = (
    *("mean-probs", "mean-probs-5", "mean-weights", "ac-nc-mean-probs"),
    *("deploy-mean-probs", "advised"),
)
# What journals alone give.
FROM_JOURNALS: Mapping[str, Method] = {
    **{name: method(name) for name in (*RULES, "ac-ece", "ac-nec", "pure-ece", "pure-cwece")},
    "ac-mean": method("ac-mean"),
    "ac-nc, D1": method("ac-nc", q=1),
    "ac-nc, 0.1 points": method("ac-nc", delta_pp="0.1"),
    "ac-nc, 1 point": method("ac-nc", delta_pp="1.0"),
    "ac-early, 1 point": method("ac-early", delta_pp="1.0"),
}
EVERYWHERE: Mapping[str, Method] = {
    **FROM_JOURNALS,
    "ac-nc+guard": method("ac-nc+guard"),
    **{f"{rule}+ts-soften": method(f"{rule}+ts-soften") for rule in SOFTENED},
    **{f"{rule}+{c}": method(f"{rule}+{c}") for rule in SCALED for c in CALIBRATORS},
    **{name: method(name) for name in AVERAGES},
}
# Beside @examples, the same by whole groups, of runs that have both validations.
BY_GROUPS: Mapping[str, Method] = {
    f"{rule}@groups{plus}": method(f"{rule}@groups{plus}")
    for rule in ("source-acc", "ac-nc", "ac-early", "pure-nll")
    for plus in ("", "+ts-soften")
}
WHOLE_RUNS = (  # keep = "all" and averages of every update
    *("swad", "swad-nobn", "swad-as-described", "source-acc-bn", "sma"),
    *("dense-swad", "dense-swad-nobn", "lawa-5"),
)
TUNED = (  # networks with live BatchNorm: SWAD with statistics estimated anew, and without
    *("swad", "swad-nobn", "dense-swad", "dense-swad-nobn", "source-acc-bn"),
)
OTHER_METHODS = (
    *("wald-recalibrated", "wald-isotonic", "refine", "ac-refine"),
    *("pair-last10", "pair-valfilter", "lyu-mmd", "lyu-coral", "mixup-acc", "mixup-loss"),
    *("eoa", "diwa-uniform", "diwa-greedy", "hparams-acc", "hparams-ac"),
)
LODO = {name: method(name) for name in ("lodo-acc", "ac-lodo")}
FURTHER: Mapping[str, Mapping[str, Method]] = {
    "taicam-sites": BY_GROUPS,
    "taicam-frozen": LODO,
    "officehome-frozen": LODO,
    "pacs-frozen": LODO,
    "pacs-resnet50": {name: method(name) for name in (*WHOLE_RUNS, *OTHER_METHODS)},
    "pacs-finetuned": {name: method(name) for name in TUNED},
    "pacs-full": {name: method(name) for name in TUNED},
}
# Of the first study only the journals are left.
JOURNALS_ONLY = ("officehome-frozen", "pacs-frozen")


def of_cohort(name: str) -> Mapping[str, Method]:
    """The rows of one cohort's tables by their title."""
    return {**(FROM_JOURNALS if name in JOURNALS_ONLY else EVERYWHERE), **FURTHER.get(name, {})}
