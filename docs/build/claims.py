"""What the study says, in sentences that are checked against its numbers when the page is built."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from contrast import Change, change
from logit_tables import read
from result_tables import Results
from verdicts import ACCURACY, MARGIN, NLL, SECONDARY

from checkwise.study.clusters import clusters
from checkwise.study.equivalence import equivalence
from checkwise.study.multiplicity import holm
from checkwise.study.tables import build

EVALUATION, DEVELOPMENT = "evaluation", "development"


@dataclass(frozen=True)
class Claim:
    """A sentence, and whether the numbers bear it out."""

    text: str
    holds: bool


def claims(results: Results) -> str:
    """Two lists; building the page fails where a sentence has become untrue."""
    lines = []
    for head, found in (
        ("**Holds:**", _favourable(results)),
        ("**Does not hold, or not as one might read it:**", _unfavourable(results)),
    ):
        for claim in found:
            if not claim.holds:
                raise SystemExit(f"Expected the numbers to bear out: {claim.text}")
        lines += [head, "", *(f"- {claim.text}" for claim in found), ""]
    return "\n".join(lines).strip()


def _favourable(results: Results) -> list[Claim]:
    pool = results.main
    ours, theirs = change(pool, EVALUATION), change(pool, DEVELOPMENT)
    nll, accuracy = ours[NLL], ours[ACCURACY]
    ranks = results.table("rank-correlation")
    rho = {
        (data, proxy): ranks.value(data, proxy, measure="rho")
        for data in ("OfficeHome", "PACS")
        for proxy in ("AC utility", "source accuracy")
    }
    mean = change(pool, EVALUATION, reference="ac-mean")[NLL]
    by_algorithm = [c for c in results.table("by-algorithm").cells if c.measure == NLL]
    harmless = _equivalent(results)
    lost = results.table("losses").value("OfficeHome", "ac-nc − source-acc", measure="lose_1pp")
    return [
        Claim(
            f"Target NLL falls on OfficeHome ({nll}) and on PACS ({theirs[NLL]}), by the intervals "
            "that the protocol lets decide. The mean change is negative for all five algorithms on "
            "both data sets.",
            nll.high < 0
            and theirs[NLL].high < 0
            and len(by_algorithm) == 10
            and all(cell.value < 0 for cell in by_algorithm),
        ),
        Claim(
            f"Target accuracy on OfficeHome is not only non-inferior but equivalent within "
            f"±{MARGIN} points (p = {harmless:.1g}); {lost:.0f} of {accuracy.n} runs lose a point "
            "or more.",
            harmless < 0.05 and accuracy.low > -MARGIN,
        ),
        Claim(
            "Inside the feasible set the order of source reliability carries over to the target "
            f"(mean ρ {rho['OfficeHome', 'AC utility']:.2f} on OfficeHome, "
            f"{rho['PACS', 'AC utility']:.2f} on PACS); the order of source accuracy does not "
            f"({rho['OfficeHome', 'source accuracy']:.2f} and "
            f"{rho['PACS', 'source accuracy']:.2f}).",
            min(rho["OfficeHome", "AC utility"], rho["PACS", "AC utility"]) > 0.4
            and max(abs(rho[d, "source accuracy"]) for d in ("OfficeHome", "PACS")) < 0.1,
        ),
        Claim(
            "It is the ranking and not merely leaving the best accuracy: against the expectation "
            f"over the same feasible set, NLL on OfficeHome changes by {mean}.",
            mean.high < 0,
        ),
    ]


def _equivalent(results: Results) -> float:
    keep = np.array([role == EVALUATION for role in results.main.roles])
    found = results.main.differences("ac-nc", "source-acc", [ACCURACY], keep)
    groups = clusters(found.keys, "block")
    return equivalence(found.values[:, 0], groups, MARGIN, higher_is_better=True).p_equivalent


def _unfavourable(results: Results) -> list[Claim]:
    pool = results.main
    nll = change(pool, EVALUATION)[NLL]
    other = {by: change(pool, EVALUATION, by=by)[NLL] for by in ("draw", "trial")}
    keep = np.array([key.algorithm not in ("IRM", "VREx") for key in pool.keys])
    plain = change(pool, EVALUATION, keep=keep)[NLL]
    early = change(pool, EVALUATION, reference="ac-early")[NLL]
    early_pacs = change(pool, DEVELOPMENT, reference="ac-early")[NLL]
    pure = change(pool, EVALUATION, rule="pure-nll")
    pure_pacs = change(pool, DEVELOPMENT, rule="pure-nll")
    single = [change(pool, EVALUATION, reference=rule)[NLL] for rule in ("ac-nll", "ac-cwece")]
    secondary = holm(np.array([change(pool, EVALUATION)[metric].p for metric in SECONDARY]))
    smallest = min(
        c.value
        for c in results.table("multiplicity").cells
        if c.measure == "p_holm" and c.role == EVALUATION and c.row[0] == NLL
    )
    share, runs = _share_of_top(results)
    return [
        Claim(
            f"It is a close call. Nine clusters are few, and with the {other['draw'].clusters} "
            f"distinct hyperparameter draws as clusters the interval on OfficeHome is "
            f"{other['draw']}, with the {other['trial'].clusters} splits {other['trial']}; both "
            f"contain zero. So does {plain}, without IRM and VREx. The secondary metrics have "
            f"p = {secondary.min():.3f} after Holm's correction, and corrected for comparing eight "
            f"rules no p-value of NLL is below {smallest:.2f}.",
            nll.high > -0.01
            and all(_contains_zero(each) for each in (*other.values(), plain))
            and secondary.min() > 0.05
            and smallest > 0.05,
        ),
        Claim(
            f"A typical run gains nothing: the median change in NLL on OfficeHome is "
            f"{nll.text(nll.median, signed=True)}, and the {runs} runs that gain most make up "
            f"{100 * share:.0f}% of the sum. The rule helps where training has gone on for too "
            "long, and otherwise changes little.",
            abs(nll.median) < 0.01 and share > 0.5,
        ),
        Claim(
            "The earliest feasible checkpoint (`ac-early`), which looks at no probability, does as "
            f"well: `ac-nc` − `ac-early` is {early} on OfficeHome and {early_pacs} on PACS. On "
            "these trajectories calibration worsens as training goes on, so that early and "
            "reliable are nearly the same thing; in the paper's fine-tuned runs on PACS they are "
            "not.",
            _contains_zero(early) and early_pacs.low > 0,
        ),
        Claim(
            "The accuracy constraint is not what helps: unconstrained NLL (`pure-nll`) lowers NLL "
            f"more ({pure[NLL]} on OfficeHome, {pure_pacs[NLL]} on PACS, against `source-acc`) "
            f"without a visible loss of target accuracy ({pure[ACCURACY]}, "
            f"{pure_pacs[ACCURACY]}). What the constraint buys is the bound on source accuracy.",
            pure[NLL].mean < nll.mean
            and pure_pacs[NLL].mean < change(pool, DEVELOPMENT)[NLL].mean
            and _contains_zero(pure[ACCURACY])
            and _contains_zero(pure_pacs[ACCURACY]),
        ),
        Claim(
            "No objective stands out: on OfficeHome `ac-nc` differs from `ac-nll` by "
            f"{single[0]} and from `ac-cwece` by {single[1]} in NLL.",
            all(_contains_zero(each) for each in single),
        ),
        *_conditions(results),
    ]


def _conditions(results: Results) -> list[Claim]:
    """When there is anything to gain, and what scaling leaves of it."""
    rates = build("learning-rate", results.ladder)
    low, high = (
        [rates.value(data, rate, measure=NLL) for data in ("OfficeHome", "PACS")]
        for rate in ("5e-05", "0.003")
    )
    short, long = (
        [results.table("length").value(data, until, measure=NLL) for data in ("OfficeHome", "PACS")]
        for until in ("1000", "5000")
    )
    scaled = read("temperature-changes")
    after = scaled.cell("(ac-nc − source-acc) after scaling", measure=NLL, role=EVALUATION)
    levels = read("temperature")
    scaling = levels.value("source-acc+ts", measure=NLL, role=EVALUATION) - levels.value(
        "source-acc", measure=NLL, role=EVALUATION
    )
    lodo = results.table("lodo")
    cells = [(a, d) for d in ("OfficeHome", "PACS") for a in ("ERM", "VREx")]
    inner, outer = (
        [lodo.value(*cell, rule, measure=NLL) for cell in cells] for rule in ("ac-lodo", "ac-nc")
    )
    return [
        Claim(
            "The effect depends on how hard the head is trained: at learning rate 5e-5 the change "
            f"in NLL is {_signed(low)} (OfficeHome, PACS), at 3e-3 {_signed(high)}; had training "
            f"stopped after 1,000 updates it would be {_signed(short)} instead of "
            f"{_signed(long)}.",
            max(map(abs, low)) < 0.05 and max(high) < -0.2 and min(short) > -0.03,
        ),
        Claim(
            "One temperature fitted on source validation does more than choosing: it changes the "
            f"NLL of `source-acc` on OfficeHome by {_signed([scaling])}, and after scaling both, "
            f"`ac-nc` − `source-acc` is {_signed([after.value])} "
            f"[{_signed([after.low])}, {_signed([after.high])}] (over runs).",
            scaling < change(results.main, EVALUATION)[NLL].mean and after.value > -0.02,
        ),
        Claim(
            "Validating on left-out domains does more too, at the price of training every pair of "
            "domains: the mean NLL of `ac-lodo` is below that of `ac-nc` in all four cells, by "
            f"{min(np.subtract(outer, inner)):.2f} to {max(np.subtract(outer, inner)):.2f}.",
            all(a < b for a, b in zip(inner, outer, strict=True)),
        ),
    ]


def _share_of_top(results: Results) -> tuple[float, int]:
    """What the tenth of the runs that gain most adds to the sum of changes."""
    keep = np.array([role == EVALUATION for role in results.main.roles])
    values = np.sort(results.main.differences("ac-nc", "source-acc", [NLL], keep).values[:, 0])
    runs = len(values) // 10
    return float(values[:runs].sum() / values.sum()), runs


def _contains_zero(found: Change) -> bool:
    return found.low <= 0 <= found.high


def _signed(values: list[float]) -> str:
    return " and ".join(f"{value:+.3f}".replace("-", "−") for value in values)
