"""The answer at the top of every page of a question, in sentences that are checked."""

from __future__ import annotations

from typing import Literal

from answer import points
from cohorts import there
from contrast import Claim
from effects import Effect, effect
from outcomes import read

SITES, REGIONS = "taicam-sites", "taicam-frozen"
FIVE = ("officehome-frozen", "pacs-frozen")  # five algorithms, with inner runs
SOFT = "+ts-soften"
ACCURACY = "target_accuracy"


def choosing() -> str:
    """Does choosing by reliability help?"""
    raw, left = _on_sites("ac-nc"), _on_sites(f"ac-nc{SOFT}", f"source-acc{SOFT}")
    pure, early = _on_sites("pure-nll"), _on_sites("ac-early", "ac-nc")
    others = by_cohort("ac-nc", role="development")
    soft = by_cohort(f"ac-nc{SOFT}", f"source-acc{SOFT}", role="development")
    return points(
        [
            Claim(
                f"**After softening, nothing was found.** With T ≥ 1 on both sides `ac-nc` changes "
                f"NLL on 24 unseen places by {left.plain}. On development data the interval "
                f"excludes zero on {counted_on(soft)}.",
                (not left.excludes_zero, not any(each.excludes_zero for each in soft.values())),
            ),
            Claim(
                f"**For raw probabilities it helps**: {raw.plain} on the 24 places. On development "
                f"data the interval excludes zero on {counted_on(others)}.",
                (raw.excludes_zero, raw.mean < 0, *_all_below(others)),
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
    others = by_cohort("mean-probs", metric=ACCURACY)
    del others["camera traps, 24 places"]
    return points(
        [
            Claim(
                f"**Not found on 24 unseen places.** Mean probabilities change NLL by {nll.plain} "
                f"and accuracy by {gained.plain} points, with T ≥ 1 on both sides.",
                (not nll.excludes_zero, not gained.excludes_zero),
            ),
            Claim(
                "On the other data, of which only the four regions are evaluation, the interval of "
                f"accuracy lies above zero on {counted_on(others)}.",
                tuple(each.mean > 0 for each in others.values() if each.excludes_zero),
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
    pure = _on_sites(f"pure-nll@groups{SOFT}", f"source-acc@groups{SOFT}")
    return points(
        [
            Claim(
                f"**Yes, more than any other recipe on these places.** Validating on whole unseen "
                f"sites changes the NLL of `source-acc` by {raw.plain}; with T ≥ 1, fitted on the "
                f"same validation set, by {soft.plain}. Accuracy: {gained.plain} points, not "
                "shown.",
                (raw.excludes_zero, soft.excludes_zero, soft.mean < 0, not gained.excludes_zero),
            ),
            Claim(
                "Validated so, choosing still adds a little after softening: `pure-nll` − "
                f"`source-acc` {pure.plain}.",
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
            *(not effect(name, "ac-lodo").excludes_zero for name in FIVE),
        ),
    )


def harms() -> str:
    """When does it do harm?"""
    choice, soft = _on_sites("ac-nc"), _on_sites(f"source-acc{SOFT}")
    low, high = choice.over.new_place()
    worse = int((choice.values > 0).sum())
    others = {data: each for data, each in by_cohort(f"source-acc{SOFT}").items() if each.worse}
    return points(
        [
            Claim(
                f"**At single places.** `ac-nc` raised NLL at {worse} of {len(choice.names)} "
                f"places and in {choice.worse} of {choice.runs} runs; at one more place of the "
                f"kind a change between {choice.text(low)} and {choice.text(high)} is expected.",
                (worse > 0, high > 0),
            ),
            Claim(
                f"T ≥ 1 raised it in {_worse(others)}; on the 24 places in {soft.worse} of "
                f"{soft.runs} runs.",
                (soft.worse == 0, bool(others)),
            ),
        ]
    )


def _worse(found: dict[str, Effect]) -> str:
    return "; ".join(f"{each.worse} of {each.runs} runs on {data}" for data, each in found.items())


def _on_sites(recipe: str, reference: str = "source-acc", metric: str = "target_nll") -> Effect:
    return effect(SITES, recipe, reference, metric)


def by_cohort(
    recipe: str,
    reference: str = "source-acc",
    metric: str = "target_nll",
    role: Literal["", "development", "evaluation"] = "",
) -> dict[str, Effect]:
    """One contrast on every cohort, or on those with a role, by the name of the data."""
    return {
        described.data: effect(kept, recipe, reference, metric)
        for described, kept in there()
        if role in ("", described.role)
    }


def counted_on(found: dict[str, Effect]) -> str:
    """On how many data the interval excludes zero, and on which."""
    shown = [data for data, each in found.items() if each.excludes_zero]
    named = f" ({'; '.join(shown)})" if shown else ""
    return f"{len(shown) or 'none'} of {len(found)}{named}"


def _all_below(found: dict[str, Effect]) -> tuple[bool, ...]:
    """Whether every interval that excludes zero lies below it."""
    return tuple(each.mean < 0 for each in found.values() if each.excludes_zero)
