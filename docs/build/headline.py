"""The first screen of study/results.md and the details under it, in sentences that are checked."""

from __future__ import annotations

from typing import Any

import registered_table
from cohorts import FINE_TUNED, there
from contradicted import clause
from contrast import Claim
from effects import effect, of_values
from outcomes import read
from question_answers import SITES, SOFT, left_out

from checkwise.text import number


def unit() -> Claim:
    """What is counted."""
    one, kept = effect(SITES, "ac-nc"), read(SITES).values["source-acc"]
    nll, accuracy = (
        of_values(name, one.keys, kept[name]).mean for name in ("target_nll", "target_accuracy")
    )
    return Claim(
        f"**Measured.** Changes of NLL on {len(one.names)} unseen places of camera traps, "
        f"{one.runs} runs of heads on frozen features, [registered](sites-protocol.md); "
        f"`source-acc` has an NLL of {nll:.2f} and an accuracy of {100 * accuracy:.1f}%. Runs of a "
        "place are averaged; 95% intervals are Student's t over places.",
        (len(one.names) == 24,),
    )


def numbers() -> list[Claim]:
    """Five numbers, the unfavourable first."""
    one, say = registered_table.named(SITES), registered_table.change
    left = effect(SITES, f"ac-nc{SOFT}", f"source-acc{SOFT}")
    soft, more = (effect(SITES, f"source-acc{SOFT}", to) for to in ("source-acc", "ac-nc"))
    return [
        Claim(
            "**Averaging checkpoints: not found.** Mean probabilities − `source-acc`, both "
            f"softened: {say(one['b'])}.",
            (one["b"]["verdict"] == "not found",),
        ),
        Claim(
            "**Choosing after softening: no change shown.** `ac-nc` − `source-acc`, both softened: "
            f"{left.plain} (an estimate).",
            (not left.excludes_zero,),
        ),
        Claim(
            f"**Choosing for raw probabilities: found.** `ac-nc` − `source-acc`: {say(one['c'])}. "
            "The earliest checkpoint near the best and the lowest source NLL gained more "
            "([details](#in-detail)).",
            (one["c"]["verdict"] == "found",),
        ),
        Claim(
            f"**Softening does more.** `source-acc` with T ≥ 1 − without: {soft.plain}; against "
            f"`ac-nc`: {more.plain} (estimates).",
            (more.mean < 0, more.excludes_zero, soft.excludes_zero),
        ),
        Claim(
            "**Validating on whole unseen sites does most: found.** `source-acc` with validation "
            f"by sites − by images: {say(one['d'])}.",
            (one["d"]["verdict"] == "found", one["d"]["mean"] < soft.mean),
        ),
    ]


def not_known() -> Claim:
    """What the paper's claims say here, and where these numbers end."""
    first = registered_table.named(SITES).values()
    tuned = {each.data: effect(kept, "ac-nc") for each, kept in there(FINE_TUNED)}
    said = "; ".join(f"{data}, {one.runs} runs: {one.plain}" for data, one in tuned.items())
    networks = (
        "Fine-tuned networks: with `ac-nc` − `source-acc` nothing is shown on four domains of "
        f"development data ({said})."
        if tuned
        else "Whether this holds for networks that were fine-tuned."
    )
    return Claim(
        f"{clause()}\n\n"
        f"**Not known.** {networks} Validation by groups on other data: it was measured on these "
        "alone. Shifts of another kind. And *one* new place: there every contrast of these 24 "
        "places may be zero or reversed, so what helps on average may do harm where you deploy it. "
        "A registration cannot prove that targets were unread.",
        (
            *(each["new_low"] < 0 < each["new_high"] for each in first if each["new_low"]),
            *(not each.excludes_zero for each in tuned.values()),
        ),
    )


def details() -> list[Claim]:
    """What stands behind the five numbers."""
    return [*_averaging(), _choosing(), _validating(), left_out(), _calibrating()]


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


def _validating() -> Claim:
    both = effect(SITES, f"source-acc@groups{SOFT}", f"source-acc{SOFT}")
    against = effect(SITES, "source-acc@groups", f"source-acc{SOFT}")
    return Claim(
        "**Validating by sites.** With T ≥ 1, fitted on the same validation set, on both sides: "
        f"{both.plain}. Raw probabilities of the checkpoint chosen by sites − softened ones of "
        f"that chosen by images: {against.plain}. Both are estimates.",
        (both.excludes_zero, both.mean < 0, against.excludes_zero, against.mean < 0),
    )


def _calibrating() -> Claim:
    one, say = registered_table.named(SITES), registered_table.change
    harder = effect(SITES, "source-acc+ts-max", f"source-acc{SOFT}")
    return Claim(
        f"**Calibrating** (estimates). Where plain temperature scaling sharpens "
        f"({one['T ≥ 1']['runs']} of {one['a']['runs']} runs, {one['T ≥ 1']['places']} places), "
        f"T ≥ 1 is better by {say(one['T ≥ 1'])}. The largest temperature of any source domain, "
        f"`ts-max`, does more: {harder.plain} against T ≥ 1 ([calibrating](calibrating.md)).",
        (one["T ≥ 1"]["high"] < 0, harder.mean < 0, harder.excludes_zero),
    )


def _detectable(each: dict[str, Any]) -> str:
    return registered_table.plain(each, each["detectable"])


def _accuracy(each: dict[str, Any]) -> str:
    condition = each["condition"]
    ends = [number(condition[end], 2, signed=True) for end in ("mean", "low", "high")]
    return f"{ends[0]} [{ends[1]}, {ends[2]}]"
