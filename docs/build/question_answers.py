"""The answer at the top of every page of a question, in sentences that are checked."""

from __future__ import annotations

from answer import points
from contrast import Claim
from effects import Effect, effect
from outcomes import read

SITES = "taicam-sites"
DEVELOPMENT = {"OfficeHome": "officehome-erm", "PACS": "pacs-erm"}
SOFT = "+ts-soften"
ACCURACY = "target_accuracy"


def choosing() -> str:
    """Does choosing by reliability help?"""
    raw, left = _on_sites("ac-nc"), _on_sites(f"ac-nc{SOFT}", f"source-acc{SOFT}")
    pure, early = _on_sites("pure-nll"), _on_sites("ac-early", "ac-nc")
    return points(
        [
            Claim(
                f"**For raw probabilities, yes; after calibration, no.** On 24 unseen places "
                f"`ac-nc` changes NLL by {raw.plain}. With T ≥ 1 on both sides {left.plain} is "
                "left.",
                (raw.excludes_zero, raw.mean < 0, not left.excludes_zero),
            ),
            Claim(
                f"Simpler rules did better there: the earliest checkpoint in the tolerance "
                f"({early.plain} beside `ac-nc`), and the lowest source NLL without a tolerance "
                f"({pure.plain} beside `source-acc`).",
                (early.mean < 0, early.excludes_zero, pure.mean < raw.mean),
            ),
        ]
    )


def averaging() -> str:
    """Does averaging checkpoints help?"""
    nll = _on_sites("deploy-mean-probs", f"source-acc{SOFT}")
    gained = _on_sites("deploy-mean-probs", f"source-acc{SOFT}", ACCURACY)
    others = developed("deploy-mean-probs", f"source-acc{SOFT}", ACCURACY)
    return points(
        [
            Claim(
                f"**Not found on 24 unseen places.** Mean probabilities change NLL by {nll.plain} "
                f"and accuracy by {gained.plain} points, with T ≥ 1 on both sides.",
                (not nll.excludes_zero, not gained.excludes_zero),
            ),
            Claim(
                f"On development data they raise accuracy, in points: {said(others)}.",
                tuple(each.excludes_zero and each.mean > 0 for each in others.values()),
            ),
        ]
    )


def calibrating() -> str:
    """Which calibrator?"""
    soft, harder = _on_sites(f"source-acc{SOFT}"), _on_sites("source-acc+ts-max")
    place, worst = soft.worst
    temperature = read(SITES).temperature("source-acc+ts")
    sharper = temperature < 1
    larger = read(SITES).temperature("source-acc+ts-oracle")[sharper] > temperature[sharper]
    return points(
        [
            Claim(
                f"**One temperature, fitted on all source validation and never below 1.** On 24 "
                f"unseen places it changes the NLL of `source-acc` by {soft.plain}, and made none "
                f"of them worse (smallest change {soft.text(worst)}, at {place}).",
                (soft.excludes_zero, soft.mean < 0, worst < 0),
            ),
            Claim(
                f"Plain temperature scaling sharpened in {int(sharper.sum())} of {len(sharper)} "
                f"runs. In {int(larger.sum())} of these the target wants a larger temperature. The "
                f"largest of any source domain, `ts-max`, gained more: {harder.plain}.",
                (larger.mean() > 0.9, harder.mean < soft.mean),
            ),
        ]
    )


def validating() -> str:
    """Does validating on unseen groups choose better?"""
    raw = _on_sites("source-acc@groups", "source-acc")
    soft = _on_sites(f"source-acc@groups{SOFT}", f"source-acc{SOFT}")
    gained = _on_sites("source-acc@groups", "source-acc", ACCURACY)
    return points(
        [
            Claim(
                f"**Yes, more than anything else here.** Validating on whole unseen sites changes "
                f"the NLL of `source-acc` by {raw.plain}; with T ≥ 1, fitted on the same "
                f"validation set, by {soft.plain}. Accuracy: {gained.plain} points, not shown.",
                (raw.excludes_zero, soft.excludes_zero, soft.mean < 0, not gained.excludes_zero),
            )
        ]
    )


def harms() -> str:
    """When does it do harm?"""
    choice, soft = _on_sites("ac-nc"), _on_sites(f"source-acc{SOFT}")
    low, high = choice.over.new_place()
    worse = int((choice.values > 0).sum())
    return points(
        [
            Claim(
                f"**At single places.** `ac-nc` raised NLL at {worse} of {len(choice.names)} "
                f"places and in {choice.worse} of {choice.runs} runs; at one more place of the "
                f"kind a change between {choice.text(low)} and {choice.text(high)} is expected.",
                (worse > 0, high > 0),
            ),
            Claim(
                f"T ≥ 1 raised it in {soft.worse} of {soft.runs} runs there.",
                (soft.worse == 0,),
            ),
        ]
    )


def _on_sites(recipe: str, reference: str = "source-acc", metric: str = "target_nll") -> Effect:
    return effect(SITES, recipe, reference, metric)


def developed(
    recipe: str, reference: str = "source-acc", metric: str = "target_nll"
) -> dict[str, Effect]:
    """The same contrast on each development cohort."""
    return {data: effect(name, recipe, reference, metric) for data, name in DEVELOPMENT.items()}


def said(found: dict[str, Effect]) -> str:
    """Effects with the data that they are on."""
    return ", ".join(f"{each.plain} on {data}" for data, each in found.items())
