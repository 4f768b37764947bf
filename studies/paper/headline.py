"""The first screen of study/results.md and the details under it, in sentences that are checked."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from checkwise.words import number
from studies.paper import accuracy_losses, registered_table
from studies.paper.cohorts import FINE_TUNED, there
from studies.paper.contradicted import clause
from studies.paper.contrast import Claim
from studies.paper.effects import Effect, effect, end, of_values
from studies.paper.outcomes import read
from studies.paper.question_answers import SITES, SOFT, left_out
from studies.paper.stopping import early_stop


def unit() -> Claim:
    """What is counted."""
    one, kept = effect(SITES, "ac-nc"), read(SITES).values["source-acc"]
    nll, accuracy = (
        of_values(name, one.keys, kept[name]).mean for name in ("target_nll", "target_accuracy")
    )
    sites = [len(each["groups"]) for each in registered_table.named_places(SITES).values() if each]
    return Claim(
        f"**Measured.** Changes of NLL (lower is better) on {len(one.names)} places of one park, "
        f"each of {min(sites)} to {max(sites)} unseen camera-trap sites: {one.runs} runs of heads "
        "on frozen features, [registered](sites-protocol.md). `source-acc`, the reference, takes "
        f"the highest validation accuracy: NLL {nll:.2f} (equal probabilities: {log(8):.2f}), "
        f"accuracy {100 * accuracy:.1f}%. `ac-nc` takes the most reliable checkpoint within half a "
        "point of it. T ≥ 1 is one fitted temperature that never sharpens. 95% t intervals over "
        "places; *found*: a corrected p below 0.05; *an estimate* was not tested.",
        (len(one.names) == 24,),
    )


def numbers() -> list[Claim]:
    """Five numbers, the unfavourable first."""
    one, say = registered_table.named(SITES), registered_table.change
    left = effect(SITES, f"ac-nc{SOFT}", f"source-acc{SOFT}")
    soft, more = (effect(SITES, f"source-acc{SOFT}", to) for to in ("source-acc", "ac-nc"))
    accuracy = effect(SITES, "source-acc@groups", metric="target_accuracy")
    lost, gained = accuracy_losses.lost(accuracy), accuracy_losses.gained(accuracy)
    return [
        Claim(
            f"**No gain of averaging probabilities was found**, with T ≥ 1: {say(one['b'])}.",
            (one["b"]["verdict"] == "not found",),
        ),
        Claim(
            f"**No gain of `ac-nc` is shown** with T ≥ 1: {left.plain}, an estimate.",
            (not left.excludes_zero,),
        ),
        Claim(
            f"**A gain of `ac-nc` was found** without it: {say(one['c'])}. Simpler rules [gained "
            "more](#in-detail).",
            (
                one["c"]["verdict"] == "found",
                one["early"]["high"] < 0,
                effect(SITES, "pure-nll").mean < one["c"]["mean"],
            ),
        ),
        Claim(
            f"**T ≥ 1 alone gained more**: {soft.plain}, an estimate; the median run "
            f"{soft.text(float(np.median(soft.by_run)))}.",
            (more.mean < 0, more.excludes_zero, soft.excludes_zero),
        ),
        Claim(
            "**A gain of validating on whole unseen sites was found**, the largest: "
            f"{say(one['d'])}, by an [early stop](validating.md). Of {accuracy.runs} runs {lost} "
            f"lose a point of accuracy or more, {gained} gain one.",
            (one["d"]["verdict"] == "found", one["d"]["mean"] < soft.mean),
        ),
    ]


def not_known() -> Claim:
    """Where these numbers end."""
    first = registered_table.named(SITES).values()
    return Claim(
        "**Not known.** With fine-tuned networks no gain of `ac-nc` is [shown](#in-detail). "
        "Validation by groups was measured on these data alone. At *one* new place each of these "
        "changes may be zero or reversed. A registration cannot prove that targets were unread.",
        (
            *(each["new_low"] < 0 < each["new_high"] for each in first if each["new_low"]),
            *(not each.excludes_zero for each in _tuned().values()),
        ),
    )


def _tuned() -> dict[str, Effect]:
    return {each.data: effect(kept, "ac-nc") for each, kept in there(FINE_TUNED)}


def details() -> list[Claim]:
    """What stands behind the five numbers."""
    return [
        *_averaging(),
        *(_choosing(), _fine_tuned(), _validating(), early_stop(), left_out(), _calibrating()),
        Claim(clause(), ()),
    ]


def _averaging() -> list[Claim]:
    one, say = registered_table.named(SITES), registered_table.change
    return [
        Claim(
            "**Averaging.** Accuracy of mean probabilities over the checkpoints within 1 point − "
            f"`source-acc`: {say(one['a'])} points, not found. Changes of {_detectable(one['b'])} "
            f"NLL and {_detectable(one['a'])} points would have been found with 80% probability.",
            tuple(one[name]["verdict"] == "not found" for name in "ab"),
        ),
        Claim(
            "**The product's advice** as it was registered (five checkpoints averaged, T ≥ 1): "
            f"**found** against the last checkpoint with T ≥ 1 (NLL {say(one['advice: last'])}), "
            f"**not found** against `source-acc` with T ≥ 1 ({say(one['advice: source-acc'])}) and "
            f"`pure-nll` with T ≥ 1 ({say(one['advice: pure-nll'])}).",
            (
                one["advice: last"]["verdict"] == "found",
                one["advice: source-acc"]["verdict"] == "not found",
                one["advice: pure-nll"]["verdict"] == "not found",
            ),
        ),
    ]


def _choosing() -> Claim:
    one, say = registered_table.named(SITES), registered_table.change
    pure = effect(SITES, "pure-nll")
    by_sites = {
        rule: effect(SITES, f"{rule}@groups{SOFT}", f"source-acc@groups{SOFT}")
        for rule in ("ac-nc", "pure-nll")
    }
    return Claim(
        f"**Choosing.** Accuracy of `ac-nc` − `source-acc`: {_accuracy(one['c'])} points. Simpler "
        "rules did better on raw NLL, as estimates: the earliest checkpoint in the tolerance "
        f"(`ac-early` − `ac-nc` {say(one['early'])}), and the lowest source NLL without any "
        f"tolerance (`pure-nll` − `source-acc` {pure.plain}). Validated by sites, a small "
        f"difference is left after softening: `ac-nc` {by_sites['ac-nc'].plain}, `pure-nll` "
        f"{by_sites['pure-nll'].plain} against `source-acc` ([validating](validating.md)).",
        (
            one["early"]["high"] < 0,
            pure.mean < 2 * one["c"]["mean"],
            *(each.excludes_zero and each.mean < 0 for each in by_sites.values()),
        ),
    )


def _fine_tuned() -> Claim:
    said = "; ".join(f"{data}, {one.runs} runs: {one.plain}" for data, one in _tuned().items())
    return Claim(
        "**Fine-tuned networks.** With `ac-nc` − `source-acc` nothing is shown on four domains of "
        f"development data ({said}).",
        tuple(not each.excludes_zero for each in _tuned().values()),
    )


def _validating() -> Claim:
    both = effect(SITES, f"source-acc@groups{SOFT}", f"source-acc{SOFT}")
    against = effect(SITES, "source-acc@groups", f"source-acc{SOFT}")
    return Claim(
        "**Validating by sites.** With T ≥ 1, fitted on the same validation set, on both sides: "
        f"{both.plain}. Chosen by sites without a temperature − chosen by images with T ≥ 1: "
        f"{against.plain}. Both are estimates.",
        (both.excludes_zero, both.mean < 0, against.excludes_zero, against.mean < 0),
    )


def _calibrating() -> Claim:
    one, say = registered_table.named(SITES), registered_table.change
    harder = effect(SITES, "source-acc+ts-max", f"source-acc{SOFT}")
    more = effect(SITES, f"source-acc{SOFT}", "ac-nc")
    return Claim(
        f"**Calibrating** (estimates). `source-acc` with T ≥ 1 against raw `ac-nc`: {more.plain}. "
        f"Where plain temperature scaling sharpens "
        f"({one['T ≥ 1']['runs']} of {one['a']['runs']} runs, {one['T ≥ 1']['places']} places), "
        f"T ≥ 1 instead changes NLL by {say(one['T ≥ 1'])} (mean over these places). The largest "
        f"temperature of any source domain, `ts-max`, does more: {harder.plain} against T ≥ 1 "
        "([calibrating](calibrating.md)).",
        (one["T ≥ 1"]["high"] < 0, harder.mean < 0, harder.excludes_zero),
    )


def _detectable(each: dict[str, Any]) -> str:
    return registered_table.plain(each, each["detectable"])


def _accuracy(each: dict[str, Any]) -> str:
    condition = each["condition"]
    low, high = (end(condition[name], 2) for name in ("low", "high"))
    return f"{number(condition['mean'], 2, signed=True)} [{low}, {high}]"
