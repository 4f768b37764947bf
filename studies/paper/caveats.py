"""What else the study says against choosing by reliability, or what narrows it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress

import numpy as np

from checkwise.study.inference import holm
from checkwise.study.tables import hparam
from checkwise.words import number
from studies.paper.answer import FAST
from studies.paper.contrast import DEVELOPMENT, EVALUATION, Claim, change
from studies.paper.logit_tables import read
from studies.paper.result_tables import Results
from studies.paper.verdicts import ACCURACY, NLL, SECONDARY


def unfavourable(results: Results) -> Iterator[Claim]:
    """What speaks against it, or narrows it."""
    yield from _fragile(results)
    yield from _rivals(results)
    yield _short_training(results)
    yield _same_examples(results)
    yield _mostly_time(results)


def _fragile(results: Results) -> Iterator[Claim]:
    pool = results.main
    ours = change(pool, EVALUATION)
    nll = ours[NLL]
    without = {
        block: change(pool, EVALUATION, keep=~_seeds(results, *block))[NLL]
        for block in sorted({(key.hparams_seed, key.trial_seed) for key in pool.keys})
    }
    lost = [block for block, left in without.items() if left.unclear]
    plain = change(pool, EVALUATION, keep=_unpenalised(results))[NLL]
    yield Claim(
        f"**A close call by block.** Without any one of {len(lost)} of the nine blocks, the "
        "interval of NLL on OfficeHome includes zero. Without IRM and VREx it does too "
        f"({plain}). Where blocks share draws and splits, as here, an interval by block that "
        "barely excludes zero is no evidence at 5% "
        "([simulated](../statistics.md#simulated-coverage)).",
        (len(without) == 9, len(lost) > 1, not nll.unclear, plain.unclear),
    )
    secondary = holm(np.array([ours[metric].block.p for metric in SECONDARY])).min()
    rules = {
        cell.row[1]: cell
        for cell in results.table("multiplicity").cells
        if (cell.row[0], cell.measure, cell.role) == (NLL, "p_holm", EVALUATION)
    }
    tried = rules["ac-nc"]
    yield Claim(
        f"**Several tests.** The secondary metrics have p = {secondary:.3f} after Holm's "
        "correction. If `ac-nc` were one of eight rules tried, its NLL would have p = "
        f"{tried.value:.2f} after the same correction, over {tried.row[2]}.",
        (secondary > 0.05, len(rules) == 8, tried.value > 0.05),
    )
    pilot = np.array([key.hparams_seed == 0 for key in pool.keys])
    rates = hparam(pool, "lr")
    rest = change(pool, EVALUATION, keep=~pilot)[NLL]
    share = 1 - rest.mean * rest.n / (nll.mean * nll.n)
    yield Claim(
        "**Partly seen before.** The contrast was chosen after a pilot on these data at learning "
        f"rate 1e-3. Hparams seed 0 repeats that rate: its runs carry {100 * share:.0f}% "
        f"of the effect on OfficeHome, and the other {rest.n} runs change NLL by {rest}.",
        (share > 0.5, rest.unclear, all(rate == FAST for rate in compress(rates, pilot))),
    )


def _rivals(results: Results) -> Iterator[Claim]:
    pool = results.main
    drawn = change(pool, EVALUATION, reference="ac-mean")[NLL]
    yield Claim(
        "**Ranking.** It is not shown that ranking adds anything to leaving the best accuracy. "
        f"Against a random draw from the same feasible set, NLL on OfficeHome changes by "
        f"{drawn}. The intervals by draw, split and domain include zero.",
        (drawn.block.high < 0, drawn.not_borne_out_by == "draws, splits or domains"),
    )
    pure, pure_pacs = (
        change(pool, role, rule="pure-nll")[ACCURACY] for role in (EVALUATION, DEVELOPMENT)
    )
    behind, behind_pacs = (
        change(pool, role, reference="pure-nll")[NLL] for role in (EVALUATION, DEVELOPMENT)
    )
    yield Claim(
        "**The accuracy constraint** is not what lowers NLL. The mean NLL of `ac-nc` is above "
        f"that of `pure-nll`, which has no constraint, by {behind} on OfficeHome and "
        f"{behind_pacs} on PACS; neither is clear. Against `source-acc`, `pure-nll` shows no loss "
        f"of target accuracy ({pure} and {pure_pacs} points). What the constraint buys is the "
        "bound on source accuracy.",
        (
            behind.mean > 0,
            behind.unclear,
            behind_pacs.mean > 0,
            not behind_pacs.found,
            pure.unclear,
            pure_pacs.unclear,
        ),
    )
    single = [change(pool, EVALUATION, reference=rule)[NLL] for rule in ("ac-nll", "ac-cwece")]
    hard = read("binning")
    row = ("15 hard bins", "ac-nc")
    changed = hard.value(*row, measure="choices_changed", role=EVALUATION)
    cost = hard.cell(*row, measure=NLL, role=EVALUATION)
    yield Claim(
        "**Which objective.** NLL, CwECE or both make no visible difference on OfficeHome "
        f"(`ac-nc` − `ac-nll` {single[0]}, − `ac-cwece` {single[1]}). The estimator does: CwECE "
        f"with hard bins changes {changed:.0f} of {cost.n} choices there, and their mean NLL by "
        f"{number(cost.value, 3, signed=True)}.",
        (*(c.unclear for c in single), changed > 50, cost.low > 0),
    )
    inner = {
        (algorithm, role): change(
            pool, role, rule="ac-lodo", reference="ac-nc", keep=_algorithm(results, algorithm)
        )[NLL]
        for role in (EVALUATION, DEVELOPMENT)
        for algorithm in ("ERM", "VREx")
    }
    yield Claim(
        "**Leave-one-domain-out validation** lowers mean NLL further in these runs, but has to "
        f"train every pair of domains. For ERM, `ac-lodo` − `ac-nc` is {inner['ERM', EVALUATION]} "
        f"on OfficeHome and {inner['ERM', DEVELOPMENT]} on PACS. For VREx it is not clear: "
        f"{inner['VREx', EVALUATION]} and {inner['VREx', DEVELOPMENT]}.",
        (
            inner["ERM", EVALUATION].mark == "†",
            inner["ERM", DEVELOPMENT].mark == "‡",
            *(inner["VREx", role].unclear for role in (EVALUATION, DEVELOPMENT)),
            all(c.mean < 0 for c in inner.values()),
        ),
    )


def _short_training(results: Results) -> Claim:
    """What narrows the finding that only long training leaves something to gain."""
    short = [
        results.table("length").value(data, "1000", measure=NLL) for data in ("OfficeHome", "PACS")
    ]
    office, pacs = (number(value, 3, signed=True) for value in short)
    fast = np.array([rate >= FAST for rate in hparam(results.main, "lr")])
    high = [change(results.main, role, keep=fast)[NLL] for role in (EVALUATION, DEVELOPMENT)]
    draws = high[0].row.units["draw"].groups
    return Claim(
        "**Short training.** If training had stopped after 1,000 updates, NLL would change by "
        f"{office} on OfficeHome and {pacs} on PACS. Only {draws} draws have a learning rate of "
        "at least 1e-3, too few for an interval by draw, and the intervals by domain include "
        f"zero: {high[0].by('domain')} and {high[1].by('domain')}.",
        (
            min(short) > -0.03,
            max(c.mean for c in high) < -0.1,
            all(not c.row.units["draw"].decides and "domain" in c.against for c in high),
        ),
    )


def _same_examples(results: Results) -> Claim:
    """What is lost if the feasible set and the ranking do not share examples."""
    halves = [
        read("cross-fit").cell("cross-fitted ac-nc − ac-nc", measure=NLL, role=role)
        for role in (EVALUATION, DEVELOPMENT)
    ]
    whole = [change(results.main, role)[NLL].mean for role in (EVALUATION, DEVELOPMENT)]
    shares = [-half.value / mean for half, mean in zip(halves, whole, strict=True)]
    return Claim(
        "**The same examples twice.** Half of the validation examples can form the feasible set "
        f"and the other half rank it. Then {100 * shares[1]:.0f}% of the mean gain is lost on "
        f"PACS, and {100 * shares[0]:.0f}% on OfficeHome, which is not clear even over runs. "
        "Fewer examples may explain a part of this.",
        (min(shares) > 0.05, halves[1].low > 0, halves[0].low < 0 < halves[0].high),
    )


def _mostly_time(results: Results) -> Claim:
    """The order of checkpoints carries over, but so does their age."""
    ranks = results.table("rank-correlation")

    def both(measure: str) -> list[float]:
        proxy = "AC utility, target NLL"
        return [ranks.value(data, proxy, measure=measure) for data in ("OfficeHome", "PACS")]

    order, age, given = both("rho"), both("rho_by_step"), both("rho_given_step")
    return Claim(
        "**Order is mostly time.** Inside the feasible set, the order of source reliability "
        f"agrees with that of target NLL (mean ρ {order[0]:.2f} on OfficeHome, {order[1]:.2f} on "
        f"PACS). Earlier checkpoints are better, and the step number alone gives {age[0]:.2f} and "
        f"{age[1]:.2f}: less on OfficeHome, more on PACS. Given the step, {given[0]:.2f} and "
        f"{given[1]:.2f} are left.",
        (
            min(order) > 0.4,
            min(age) > 0.3,
            age[0] < order[0],
            age[1] > order[1],
            max(given) < 0.3,
            min(given) > 0,
        ),
    )


def _seeds(results: Results, hparams_seed: int, trial_seed: int) -> np.ndarray:
    at = (hparams_seed, trial_seed)
    return np.array([(key.hparams_seed, key.trial_seed) == at for key in results.main.keys])


def _algorithm(results: Results, name: str) -> np.ndarray:
    return np.array([key.algorithm == name for key in results.main.keys])


def _unpenalised(results: Results) -> np.ndarray:
    return np.asarray(~(_algorithm(results, "IRM") | _algorithm(results, "VREx")))
