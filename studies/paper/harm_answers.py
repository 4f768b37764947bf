"""The answer at the top of study/harms.md, in sentences that are checked."""

from __future__ import annotations

from checkwise.words import number
from studies.paper import accuracy_losses
from studies.paper.answer import points
from studies.paper.cohorts import FINE_TUNED, there
from studies.paper.contradicted import contradicted
from studies.paper.contrast import Claim
from studies.paper.effects import Effect, effect
from studies.paper.method_rows import failures
from studies.paper.question_answers import ACCURACY, REGIONS, SOFT, by_cohort, on_sites

SHARED = ("shared_errors_raised", "shared_errors_lowered")
SATURATED = "OfficeHome, 5 classes"


def answer() -> str:
    """When does it do harm?"""
    return points(
        [
            *(at_places(), accuracy_lost(), by_sites(), softened()),
            *(without_statistics(), shared_errors()),
        ]
    )


def at_places() -> Claim:
    """What choosing does at single places."""
    choice = on_sites("ac-nc")
    low, high = choice.over.new_place()
    worse = choice.places_worse
    return Claim(
        f"**At single places.** `ac-nc` raised NLL at {worse} of {len(choice.names)} places and in "
        f"{choice.worse} of {choice.runs} runs. At one more place of the kind the change is "
        f"expected between {choice.text(low)} and {choice.text(high)} with 95% probability, if "
        "places are independent and their changes about normal.",
        (worse > 0, high > 0),
    )


def accuracy_lost() -> Claim:
    """What choosing does to the accuracy of single runs and places."""
    choice = on_sites("ac-nc", metric=ACCURACY)
    lost, worst = accuracy_losses.lost(choice), choice.by_run.min()
    lower = choice.places_worse
    share, theirs = f"{100 * lost / choice.runs:.1f}%", accuracy_losses.of_the_paper()
    return Claim(
        "**Accuracy, in single runs.** The tolerance bounds the loss of *source* accuracy alone. "
        f"`ac-nc` lost a point of target accuracy or more in {lost} of {choice.runs} runs "
        f"({share}; in the paper {theirs}), at most {choice.text(worst)} points; "
        f"{accuracy_losses.gained(choice)} gained one. It is below "
        f"`source-acc` at {lower} of {len(choice.names)} places. Its mean change is "
        f"{choice.plain} points; [other rules](#target-accuracy).",
        (lost > 0, worst < -1, not choice.excludes_zero),
    )


def by_sites() -> Claim:
    """What validating by sites, or by whole domains, does to the accuracy of single runs."""
    accuracy, nll = (on_sites("source-acc@groups", metric=m) for m in (ACCURACY, "target_nll"))
    lost, worst = accuracy_losses.lost(accuracy), accuracy.by_run.min()
    out = effect(REGIONS, "lodo-acc", metric=ACCURACY)
    return Claim(
        "**Validating by sites, in single runs.** A third of the runs lose accuracy: "
        f"{lost} of {accuracy.runs} lose a point or more, at most {accuracy.text(worst)} points, "
        f"{accuracy_losses.gained(accuracy)} gain one, and {accuracy.places_worse} of "
        f"{len(accuracy.names)} places are less accurate. NLL rises in {nll.worse} runs, at most "
        f"by {nll.text(nll.by_run.max())}. Leaving whole domains out (`lodo-acc`, four regions) "
        f"loses a point in {accuracy_losses.lost(out)} of {out.runs} runs.",
        (0.3 < lost / accuracy.runs < 0.4, not accuracy.excludes_zero, nll.excludes_zero),
    )


def softened() -> Claim:
    """What a temperature of at least 1 does to single runs."""
    soft = on_sites(f"source-acc{SOFT}")
    others = {data: each for data, each in by_cohort(f"source-acc{SOFT}").items() if each.worse}
    data, most = max(others.items(), key=lambda item: item[1].by_run.max())
    return Claim(
        f"**Softening, in single runs.** T ≥ 1 raised NLL in {_worse(others)}, at most by "
        f"{most.text(most.by_run.max())} ({data}); on the 24 places in {soft.worse} of {soft.runs} "
        "runs.",
        (soft.worse == 0,),
    )


def _worse(found: dict[str, Effect]) -> str:
    return "; ".join(f"{each.worse} of {each.runs} runs on {data}" for data, each in found.items())


def without_statistics() -> Claim:
    """Averages of weights whose BatchNorm statistics are those of one checkpoint."""
    said, lost = [], [0, 0]
    for described, kept in there(FINE_TUNED):
        names = ("swad-nobn", "swad", "dense-swad-nobn")
        kept_from_one, anew, dense = (failures(kept, name)[0] for name in names)
        lost = [lost[0] + kept_from_one, lost[1] + anew]
        nll = effect(kept, "swad-nobn")
        said.append(
            f"{kept_from_one} of {nll.runs} runs on {described.data} (estimated anew, `swad`: "
            f"{anew}; with those of the last update, `dense-swad-nobn`: {dense}), with a change of "
            f"NLL of {nll.plain}"
        )
    return Claim(
        "**Averaging weights where BatchNorm is live, with the statistics of one checkpoint.** "
        f"`swad-nobn` lost a point of accuracy or more in {'; '.join(said)} "
        "([methods](methods.md)).",
        (lost[0] > lost[1],),
    )


def shared_errors() -> Claim:
    """What the paper shows of errors that both choices make, and saturated data contradict."""
    found = contradicted()
    ours = {claim.metric: cell.found for claim, cell in found if cell.data == SATURATED}
    effects = [ours.get(metric) for metric in SHARED]
    shares = [_share(each) if each is not None else "" for each in effects]
    runs = " and ".join(dict.fromkeys(str(each.runs) for each in effects if each is not None))
    others = "".join(
        f" Contradicted too: {claim.title} ({cell})."
        for claim, cell in found
        if (cell.data, claim.metric) not in [(SATURATED, metric) for metric in SHARED]
    )
    return Claim(
        "**Confident errors.** The paper shows a run in which most of the errors that `ac-nc` and "
        "`source-acc` both make have less confidence and more true-label probability with `ac-nc`. "
        f"On {SATURATED}, where validation is [saturated](#saturated-validation), only {shares[1]} "
        f"have less confidence and {shares[0]} more true-label probability (means over domains, "
        f"{runs} runs in which the two choose differently; [claims](claims.md)).{others}",
        tuple(each is not None and each.mean < 0 for each in effects),
    )


def _share(found: Effect) -> str:
    """Points above 50 as a percentage, with its interval over domains."""
    mean, low, high = (number(50 + x, 1) for x in (found.mean, *found.interval))
    return f"{mean}% [{low}, {high}]"
