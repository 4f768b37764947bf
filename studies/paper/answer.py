"""The answer of the study in a few lines, checked against its numbers when the page is built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress

import numpy as np

from checkwise.study.tables import hparam, shown_cell
from checkwise.words import number
from studies.paper.contrast import DEVELOPMENT, EVALUATION, Claim, change
from studies.paper.logit_tables import read
from studies.paper.result_tables import Results
from studies.paper.verdicts import ACCURACY, MARGIN, NLL

FAST = 1e-3  # the learning rate from which training goes far: the default, and that of the pilot

QUESTION = (
    "**Question.** A run trains on some domains (its sources) and meets another one (its target) "
    "later. Among the checkpoints within 0.5 points of the best source accuracy, `ac-nc` picks "
    "the one with the best negative log-likelihood (NLL) and class-wise calibration error (CwECE) "
    "on the sources. Is the NLL on the target lower than with `source-acc`, the highest source "
    "accuracy?"
)
TO_DO = (
    "**What to do.** See [what all studies together say](results.md). From these runs alone: if "
    "validation has many errors, as here, fit a temperature that never sharpens (T ≥ 1); the "
    "choice of checkpoint then changes little. That may fail where validation is saturated; an "
    "independent analysis says so, and in [our runs](harms.md) it was not found. If you deploy raw "
    "probabilities after long training, choose inside the tolerance. The earliest feasible "
    "checkpoint is as good a choice here as `ac-nc`."
)
NOT_KNOWN = (
    "**Not known.** Whether NLL falls with other hyperparameters, splits or domains, with "
    "fine-tuned networks or other backbones. These are small heads on the frozen features of one "
    "network; [later cohorts](results.md#development-data) have others."
)


def answer(results: Results) -> str:
    """Question, design, what was found (unfavourable first), what to do, what is not known."""
    return "\n\n".join(
        (
            QUESTION,
            checked(design(results)),
            "**Against it:**\n\n" + points(against(results)),
            "**For it:**\n\n" + points(in_favour(results)),
            TO_DO,
            NOT_KNOWN,
        )
    )


def points(claims: Iterable[Claim]) -> str:
    """Sentences as a list."""
    return "\n".join(f"- {checked(claim)}" for claim in claims)


def checked(claim: Claim) -> str:
    """The sentence; building the page fails if it is untrue."""
    if not all(claim.holds):
        raise SystemExit(f"Expected the numbers to bear out: {claim.text}")
    return claim.text


def design(results: Results) -> Claim:
    """How many runs there are, and in which units they are counted."""
    runs = {role: change(results.main, role)[NLL] for role in (EVALUATION, DEVELOPMENT)}
    units = runs[EVALUATION].row.units
    groups = {unit: units[unit].groups for unit in ("block", "draw", "trial", "domain")}
    return Claim(
        f"**Unit.** {runs[EVALUATION].n} runs on OfficeHome (evaluation) and "
        f"{runs[DEVELOPMENT].n} on PACS (development), paired by run. Runs share seeds, "
        "hyperparameters, splits and domains, so a 95% interval over runs alone is too narrow. "
        f"Each interval here counts groups of runs: {groups['block']} blocks (same two seeds), "
        f"{groups['draw']} draws (same hyperparameters), {groups['trial']} splits or "
        f"{groups['domain']} held-out domains.",
        (all(runs[DEVELOPMENT].row.units[unit].groups == count for unit, count in groups.items()),),
    )


def against(results: Results) -> Iterator[Claim]:
    """What speaks against choosing by reliability."""
    pool = results.main
    nll, theirs = (change(pool, role)[NLL] for role in (EVALUATION, DEVELOPMENT))
    yield Claim(
        "Lower NLL is not shown for other hyperparameters, splits or domains. On OfficeHome it "
        f"changes by {nll.by('draw')} by draw, {nll.interval('trial')} by split and "
        f"{nll.interval('domain')} by domain; on PACS by {theirs.by('draw')} by draw, "
        f"{theirs.interval('trial')} by split and {theirs.interval('domain')} by domain.",
        (
            nll.not_borne_out_by == "draws, splits or domains",
            theirs.not_borne_out_by == "draws or domains",
            nll.mean < 0,
        ),
    )
    yield _temperature(results)
    early, early_pacs = (
        change(pool, role, reference="ac-early")[NLL] for role in (EVALUATION, DEVELOPMENT)
    )
    yield Claim(
        "The earliest feasible checkpoint (`ac-early`), which looks at no probability, does as "
        f"well: by block, `ac-nc` − `ac-early` is {early.by('block')} on OfficeHome and "
        f"{early_pacs.by('block')} on PACS. On PACS `ac-early` is ahead by block and draw, "
        "not by split or domain; in the paper's fine-tuned runs there `ac-nc` is ahead.",
        (
            early.unclear,
            early_pacs.block.low > 0,
            early_pacs.row.units["draw"].low > 0,
            early_pacs.not_borne_out_by == "splits or domains",
            _paper_prefers_nc(results),
        ),
    )
    top, runs = _share_of_top(results)
    yield Claim(
        "A typical run gains nothing: the median change in NLL on OfficeHome is "
        f"{nll.text(nll.row.median, signed=True)}, and the {runs} runs that gain most make up "
        f"{100 * top:.0f}% of the sum.",
        (abs(nll.row.median) < 0.005, top > 0.5),
    )
    yield _far_only(results)


def in_favour(results: Results) -> Iterator[Claim]:
    """What speaks for it."""
    ours = change(results.main, EVALUATION)
    nll, accuracy = ours[NLL], ours[ACCURACY]
    yield Claim(
        "The criterion that was registered before held-out results were opened is met: on "
        f"OfficeHome by block, NLL changes by {nll.by('block')} and accuracy by "
        f"{accuracy.by('block')} points (allowed: −{MARGIN}).",
        (nll.block.high < 0, accuracy.block.low > -MARGIN),
    )


def _temperature(results: Results) -> Claim:
    levels = read("temperature")
    scaled, plain = (
        levels.value(rule, measure=NLL, role=EVALUATION) for rule in ("source-acc+ts", "source-acc")
    )
    after = read("temperature-changes").cell(
        "(ac-nc − source-acc) after scaling", measure=NLL, role=EVALUATION
    )
    return Claim(
        "One temperature fitted on source validation does more: it changes the mean NLL of "
        f"`source-acc` over {after.n} OfficeHome runs by {number(scaled - plain, 3, signed=True)}. "
        f"After scaling both, `ac-nc` − `source-acc` is {shown_cell(after, signed=True)} (an "
        "interval over runs).",
        (scaled - plain < change(results.main, EVALUATION)[NLL].mean, after.value > -0.02),
    )


def _far_only(results: Results) -> Claim:
    """There is something to gain only where training goes far."""
    pool = results.main
    fast = np.array([rate >= FAST for rate in hparam(pool, "lr")])
    default = np.array([key.hparams_seed == 0 for key in pool.keys])
    high, low = (
        [change(pool, role, keep=keep)[NLL] for role in (EVALUATION, DEVELOPMENT)]
        for keep in (fast, ~fast)
    )
    return Claim(
        "What there is to gain seems to come with long training. With a learning rate of at least "
        f"1e-3, NLL changes by {high[0].by('block')} on OfficeHome and {high[1].by('block')} on "
        f"PACS by block; with a lower one by {low[0].by('block')} and {low[1].by('block')}. The "
        "cut was made after the fact and is not identified: two draws lie above it, and one of "
        "them is the default that three trials share.",
        (
            max(c.mean for c in high) < -0.1,
            min(c.mean for c in low) > -0.05,
            all(c.row.units["draw"].groups == 2 for c in high),
            bool(fast[default].all()),
            len({key.trial_seed for key in compress(pool.keys, default)}) == 3,
        ),
    )


def _share_of_top(results: Results) -> tuple[float, int]:
    """What the tenth of the runs that gain most adds to the sum of changes."""
    keep = np.array([role == EVALUATION for role in results.main.roles])
    values = np.sort(results.main.differences("ac-nc", "source-acc", [NLL], keep).values[:, 0])
    runs = len(values) // 10
    return float(values[:runs].sum() / values.sum()), runs


def _paper_prefers_nc(results: Results) -> bool:
    nc, early = (
        float(results.paper.text(("controls", "PACS", "", rule, "", NLL), signed=False))
        for rule in ("ac-nc", "ac-early")
    )
    return nc < early
