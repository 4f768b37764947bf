"""The answer at the top of every page of a question, in sentences that are checked."""

from __future__ import annotations

from typing import Literal

import numpy as np

from studies.paper import accuracy_losses, stopping
from studies.paper.answer import points
from studies.paper.cohorts import FIVE, there, widest
from studies.paper.contrast import Claim
from studies.paper.effects import Effect, effect
from studies.paper.outcomes import read

SITES, REGIONS = "taicam-sites", "taicam-frozen"
PLACES = "camera traps, 24 places"
SOFT = "+ts-soften"
ACCURACY, ECE, CWECE = "target_accuracy", "target_ece", "target_cwece"
FEW_HUNDREDTHS = 0.06
OTHERS = ("ac-early", "pure-nll", "last")


def choosing() -> str:
    """Does choosing by reliability help?"""
    raw, left = on_sites("ac-nc"), on_sites(f"ac-nc{SOFT}", f"source-acc{SOFT}")
    pure, early = on_sites("pure-nll"), on_sites("ac-early", "ac-nc")
    others = by_cohort("ac-nc", role="development")
    soft, regions = after_softening("ac-nc"), effect(REGIONS, "ac-nc")
    return points(
        [
            Claim(
                f"**After softening, no gain of `ac-nc` is shown.** With T ≥ 1 on both sides it "
                f"changes NLL on 24 unseen places by {left.plain}. On the other data the interval "
                f"excludes zero on {counted_on(soft)}.",
                (not left.excludes_zero, not any(each.excludes_zero for each in soft.values())),
            ),
            _other_rules(),
            Claim(
                f"**For raw probabilities it lowered NLL** on the 24 places: {raw.plain}. On the "
                f"four regions: {regions.plain}. On development data the interval excludes zero on "
                f"{counted_on(others)}.",
                (raw.excludes_zero, raw.mean < 0, not regions.excludes_zero, *_all_below(others)),
            ),
            Claim(
                f"Simpler rules did better there: the earliest checkpoint in the tolerance "
                f"({early.plain} beside `ac-nc`), and the lowest source NLL without a tolerance "
                f"({pure.plain} beside `source-acc`).",
                (early.mean < 0, early.excludes_zero, pure.mean < raw.mean),
            ),
        ]
    )


def _other_rules() -> Claim:
    """What rules beside ac-nc do after softening, on all but the 24 places."""
    cells = [each for rule in OTHERS for each in after_softening(rule).values()]
    shown = [each for each in cells if each.excludes_zero]
    return Claim(
        f"Other rules differ there by a few hundredths in the mean. Of {len(cells)} intervals "
        f"{len(shown)} exclude zero, where one or two would by chance: "
        f"{'; '.join(both_ways(rule) for rule in OTHERS)}.",
        (
            *(abs(each.mean) < FEW_HUNDREDTHS for each in cells),
            len({each.mean > 0 for each in shown}) == 2,
            20 < len(cells) < 40,
        ),
    )


def averaging() -> str:
    """Does averaging checkpoints help?"""
    nll = on_sites("deploy-mean-probs", f"source-acc{SOFT}")
    gained = on_sites("deploy-mean-probs", f"source-acc{SOFT}", ACCURACY)
    others = by_cohort("mean-probs", metric=ACCURACY)
    soft = by_cohort("deploy-mean-probs", f"source-acc{SOFT}")
    del others[PLACES], soft[PLACES]
    return points(
        [
            Claim(
                f"**Not found on 24 unseen places.** Mean probabilities change NLL by {nll.plain} "
                f"and accuracy by {gained.plain} points, with T ≥ 1 on both sides.",
                (not nll.excludes_zero, not gained.excludes_zero),
            ),
            Claim(
                "On the other data, of which only the four regions are evaluation, the interval of "
                f"accuracy lies above zero on {counted_on(others)}. That of NLL, with T ≥ 1 on "
                f"both sides, lies below zero on {counted_on(soft)}.",
                (
                    *(each.mean > 0 for each in others.values() if each.excludes_zero),
                    *_all_below(soft),
                    set(by_cohort("mean-probs", role="evaluation")) - set(others) == {PLACES},
                    len(by_cohort("mean-probs", role="evaluation")) == 2,
                ),
            ),
        ]
    )


def calibrating() -> str:
    """Which calibrator?"""
    soft = on_sites(f"source-acc{SOFT}")
    contrast = "source-acc+ts-max", f"source-acc{SOFT}"
    harder, regions = on_sites(*contrast), effect(REGIONS, *contrast)
    others = by_cohort(*contrast, role="development")
    place, worst = soft.worst
    temperature = read(SITES).temperature("source-acc+ts")
    sharper = temperature < 1
    larger = read(SITES).temperature("source-acc+ts-oracle")[sharper] > temperature[sharper]
    return points(
        [
            Claim(
                f"**One temperature, fitted on all source validation and never below 1.** On 24 "
                f"unseen places it changes the NLL of `source-acc` by {soft.plain} (median run "
                f"{soft.text(float(np.median(soft.by_run)))}), and made none of them worse "
                f"(smallest change {soft.text(worst)}, at {place}).",
                (soft.excludes_zero, soft.mean < 0, worst < 0),
            ),
            Claim(
                f"Plain temperature scaling sharpened in {int(sharper.sum())} of {len(sharper)} "
                f"runs. In {int(larger.sum())} of these a larger temperature fits the target "
                "better.",
                (larger.mean() > 0.9,),
            ),
            Claim(
                "**The largest temperature of any source domain**, `ts-max`, gained more there: "
                f"{harder.plain} against `ts-soften`, and {regions.plain} on the four regions. On "
                f"development data the interval excludes zero on {counted_on(others)}. It is not "
                "the default: it needs several source domains, and follows the one that is "
                "calibrated worst.",
                (harder.excludes_zero and harder.mean < 0, regions.mean < 0, *_all_below(others)),
            ),
        ]
    )


def validating() -> str:
    """Does validating on unseen groups choose better?"""
    raw = on_sites("source-acc@groups", "source-acc")
    soft = on_sites(f"source-acc@groups{SOFT}", f"source-acc{SOFT}")
    gained, ece, cwece = (
        on_sites("source-acc@groups", "source-acc", metric) for metric in (ACCURACY, ECE, CWECE)
    )
    pure = on_sites(f"pure-nll@groups{SOFT}", f"source-acc@groups{SOFT}")
    return points(
        [
            Claim(
                f"**Yes: lower NLL.** Validating on whole unseen sites changes the NLL of "
                f"`source-acc` by {raw.plain}; with T ≥ 1, fitted on the same validation set, by "
                f"{soft.plain}. Accuracy: {gained.plain} points, not shown; a point or more is "
                f"lost in {accuracy_losses.lost(gained)} of {gained.runs} runs and gained in "
                f"{accuracy_losses.gained(gained)}. ECE and CwECE "
                f"(× 100): {ece.plain} and {cwece.plain}.",
                (
                    *(raw.excludes_zero, raw.mean < 0, soft.excludes_zero, soft.mean < 0),
                    *(not gained.excludes_zero, ece.mean < 0, cwece.mean < 0),
                ),
            ),
            stopping.early_stop(),
            Claim(
                "With validation by sites, `pure-nll` still gains a little after softening: "
                f"{pure.plain} against `source-acc`.",
                (pure.excludes_zero, pure.mean < 0),
            ),
            left_out(),
        ]
    )


def left_out() -> Claim:
    """What leaving whole domains out gives, with and without softening the reference."""
    raw = effect(REGIONS, "ac-lodo")
    soft = effect(REGIONS, "ac-lodo", f"source-acc{SOFT}")
    return Claim(
        "**Leaving whole domains out** (LODO) needs no groups, but one more run for every pair of "
        f"domains. On the four regions `ac-lodo` − `source-acc` is {raw.plain}, and {soft.plain} "
        f"against `source-acc` with T ≥ 1 ({raw.runs} runs, estimates). On OfficeHome and PACS no "
        "change of NLL is shown ([methods](methods.md)).",
        (
            raw.excludes_zero and soft.excludes_zero and soft.mean < 0,
            *(
                not effect(name, "ac-lodo").excludes_zero
                for name in (each.name for each in FIVE.values())
            ),
        ),
    )


def on_sites(recipe: str, reference: str = "source-acc", metric: str = "target_nll") -> Effect:
    """A contrast on the 24 places."""
    return effect(SITES, recipe, reference, metric)


def by_cohort(
    recipe: str,
    reference: str = "source-acc",
    metric: str = "target_nll",
    role: Literal["", "development", "evaluation"] = "",
) -> dict[str, Effect]:
    """One contrast on every cohort, or on those with a role, by the name of the data.

    Of OfficeHome and PACS on the runs of five algorithms, if these have the contrast.
    """
    rows = [widest(*one, recipe, reference) for one in there()]
    return {
        described.data: effect(kept, recipe, reference, metric)
        for described, kept in rows
        if role in ("", described.role)
    }


def after_softening(rule: str) -> dict[str, Effect]:
    """A rule − source-acc, both with T ≥ 1, on everything but the 24 places."""
    found = by_cohort(f"{rule}{SOFT}", f"source-acc{SOFT}")
    del found[PLACES]
    return found


def both_ways(rule: str) -> str:
    """Where the interval of a rule after softening excludes zero, better and worse."""
    shown = {data: each for data, each in after_softening(rule).items() if each.excludes_zero}
    sides = [
        f"{word} on {', '.join(f'{data} ({each.plain})' for data, each in on.items())}"
        for word, on in (
            ("lower", {data: each for data, each in shown.items() if each.mean < 0}),
            ("higher", {data: each for data, each in shown.items() if each.mean > 0}),
        )
        if on
    ]
    return f"`{rule}` is {' and '.join(sides) or 'shown to differ on none of them'}"


def counted_on(found: dict[str, Effect]) -> str:
    """On how many data the interval excludes zero, and on which."""
    shown = [data for data, each in found.items() if each.excludes_zero]
    named = f" ({'; '.join(shown)})" if shown else ""
    return f"{len(shown) or 'none'} of {len(found)}{named}"


def _all_below(found: dict[str, Effect]) -> tuple[bool, ...]:
    """Whether every interval that excludes zero lies below it."""
    return tuple(each.mean < 0 for each in found.values() if each.excludes_zero)
