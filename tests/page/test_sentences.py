"""Differences in sentences: honest in every direction, and never further than the units reach."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkwise.study import SEED_UNITS, Contrast, PlaceInterval, sentences
from checkwise.study.compare import over_leading_unit
from checkwise.study.report.tables import unit_table
from checkwise.study.units import UnitInterval

NAN = float("nan")
GROUPS = {"block": 9, "draw": 7, "trial": 3, "domain": 4, "block_domain": 4}


def contrast(metric: str, mean: float, low: float, high: float, n: int = 30) -> Contrast:
    """A difference whose intervals by unit are those over runs."""
    return Contrast(
        rule="ac-nc",
        reference="source-acc",
        metric=metric,
        scale=1 if metric == "target_nll" else 100,
        n=n,
        mean=mean,
        low=low,
        high=high,
        median=mean,
        trimmed=mean,
        wins=20,
        ties=4,
        losses=6,
        lose_1pp=0.1 if metric == "target_accuracy" else NAN,
        missing=0,
        units={unit: UnitInterval(groups, low, high, 0.5) for unit, groups in GROUPS.items()},
    )


def but(row: Contrast, *units: str, low: float = -0.05, high: float = 0.008) -> Contrast:
    """The same, with other ends by some units."""
    changed = {unit: replace(row.units[unit], low=low, high=high) for unit in units}
    return replace(row, units={**row.units, **changed})


def few(row: Contrast, **groups: int) -> Contrast:
    """The same, with fewer groups of some units."""
    changed = {unit: replace(row.units[unit], groups=n) for unit, n in groups.items()}
    return replace(row, units={**row.units, **changed})


GAIN = contrast("target_nll", -0.021, -0.04, -0.004)
HARM = contrast("target_nll", 0.021, 0.004, 0.04)
EVEN = contrast("target_accuracy", -0.1, -0.5, 0.3)
DROP = contrast("target_accuracy", -0.9, -1.5, -0.3)


def test_a_gain_is_told_with_its_interval_and_what_accuracy_did() -> None:
    assert sentences.answer([EVEN, GAIN]) == (
        "Against source-acc, ac-nc lowered target NLL by 0.021 [0.004, 0.040] over 30 runs; it "
        "changed target accuracy by −0.10 points [−0.50, 0.30], an interval that includes zero."
    )
    assert sentences.headline([EVEN, GAIN]) == "ac-nc: lower NLL, no clear change in accuracy"


def test_bad_news_is_told_as_plainly() -> None:
    assert sentences.answer([DROP, HARM]) == (
        "Against source-acc, ac-nc raised target NLL by 0.021 [0.004, 0.040] over 30 runs; it "
        "lowered target accuracy by 0.90 points [0.30, 1.50]."
    )
    assert sentences.headline([DROP, HARM]) == "ac-nc: higher NLL and lower accuracy"


def test_a_terminal_is_told_the_same_in_short() -> None:
    even = contrast("target_nll", -0.01, -0.06, 0.04)
    assert sentences.in_short([EVEN, even]) == (
        "No difference shown: NLL −0.010 [−0.060, 0.040], accuracy −0.10 points [−0.50, 0.30]."
    )
    assert sentences.in_short([DROP, HARM]).startswith(
        "Higher NLL and lower accuracy: NLL +0.021 ["
    )
    shaky = sentences.in_short([EVEN, but(GAIN, "draw")])
    assert shaky.startswith("No difference shown: NLL −0.021 [−0.040, −0.004], which draws do not")
    ece, cwece = (contrast(f"target_{name}", -0.8, -1.5, -0.1) for name in ("ece", "cwece"))
    assert sentences.in_short([EVEN, even, ece, but(cwece, "trial")]) == (
        "No difference shown in NLL and accuracy: NLL −0.010 [−0.060, 0.040], accuracy −0.10 "
        "points [−0.50, 0.30]. Other metrics: lower ECE −0.800 [−1.500, −0.100]; CwECE −0.800 "
        "[−1.500, −0.100], which splits do not bear out."
    )
    alone = replace(GAIN, low=NAN, high=NAN, n=1, units={})
    assert sentences.in_short([alone]) == "Too few runs to tell: NLL −0.021."


@pytest.mark.parametrize(
    ("units", "named"),
    [
        (("block",), "blocks"),
        (("draw",), "draws"),
        (("trial",), "splits"),
        (("draw", "trial"), "draws and splits"),
        (("draw", "trial", "domain", "block_domain"), "draws, splits and domains"),
        (("draw", "block_domain"), "draws and blocks × domains"),
        (("domain", "block_domain"), "domains"),
        (("block_domain",), "blocks × domains"),
    ],
)
def test_what_some_unit_does_not_bear_out_is_not_claimed(
    units: tuple[str, ...], named: str
) -> None:
    shaky = but(GAIN, *units)
    assert sentences.headline([EVEN, shaky]) == "ac-nc: no clear difference in NLL or accuracy"
    assert sentences.answer([EVEN, shaky]).startswith(
        "Against source-acc, ac-nc changed target NLL by −0.021 [−0.040, −0.004] over 30 runs, "
        f"which {named} do not bear out; it changed"
    )
    assert sentences.badge(shaky) == f"not borne out by {named.replace(' and ', ' or ')}"


def test_what_domains_are_too_few_to_decide_is_said_of_these_domains() -> None:
    row = few(GAIN, domain=2, block_domain=2)
    expected = "ac-nc on these domains: lower NLL, no clear change in accuracy"
    assert sentences.headline([EVEN, row]) == expected
    assert "over 30 runs (shown for these domains, not for new ones); it" in sentences.answer(
        [EVEN, row]
    )
    assert sentences.badge(row) == "better on these domains"
    one = few(GAIN, domain=1, block_domain=1)
    assert sentences.headline([EVEN, one]).startswith("ac-nc on this domain: lower NLL")


def test_the_headline_reaches_no_further_than_the_narrower_of_its_claims() -> None:
    narrow = few(DROP, domain=2, block_domain=2)
    assert sentences.headline([narrow, HARM]) == (
        "ac-nc on these domains: higher NLL and lower accuracy"
    )
    unclear = but(DROP, "draw", "domain", low=-2.0, high=0.2)
    assert sentences.headline([unclear, HARM]) == "ac-nc: higher NLL, no clear change in accuracy"


def test_intervals_by_unit_are_listed_with_their_numbers_of_groups() -> None:
    assert sentences.by_unit([EVEN, but(GAIN, "draw")]) == [
        "target NLL −0.021, by unit: 9 blocks [−0.040, −0.004], 7 draws [−0.050, 0.008], "
        "3 splits [−0.040, −0.004], 4 domains [−0.040, −0.004], blocks × domains [−0.040, −0.004].",
        "target accuracy −0.10 points, by unit: 9 blocks [−0.50, 0.30], 7 draws [−0.50, 0.30], "
        "3 splits [−0.50, 0.30], 4 domains [−0.50, 0.30], blocks × domains [−0.50, 0.30].",
    ]


def test_units_with_too_few_groups_are_named_and_decide_nothing() -> None:
    one_draw = few(but(GAIN, "draw"), draw=1)
    assert sentences.headline([EVEN, one_draw]) == "ac-nc: lower NLL, no clear change in accuracy"
    assert sentences.by_unit([EVEN, one_draw])[-1] == (
        "There are too few draws (1) to say whether others would give the same."
    )
    seeds = few(but(GAIN, "block", "draw", "trial"), block=2, draw=1, trial=2, block_domain=2)
    said = "ac-nc on these 30 runs: lower NLL, no clear change in accuracy"
    assert sentences.headline([EVEN, seeds]) == said
    assert "over 30 runs (shown for these runs, not for new seeds); it" in sentences.answer(
        [EVEN, seeds]
    )
    two = replace(seeds, n=2)
    assert "over 2 runs (seen, not shown: fewer than 6 runs show nothing); it" in sentences.answer(
        [replace(EVEN, n=2), two]
    )
    lines = sentences.by_unit([EVEN, seeds])
    assert lines[0] == "target NLL −0.021, by unit: 4 domains [−0.040, −0.004]."
    assert lines[-1] == (
        "There are too few blocks (2), draws (1) and splits (2) to say whether others would give "
        "the same."
    )


def test_one_run_has_no_interval_and_says_so() -> None:
    rows = [replace(row, low=NAN, high=NAN, n=1, units={}) for row in (EVEN, GAIN)]
    assert sentences.answer(rows) == (
        "Against source-acc, ac-nc changed target NLL by −0.021 on 1 run, too few for an interval; "
        "it changed target accuracy by −0.10 points."
    )
    assert sentences.headline(rows) == "ac-nc: too few runs to tell"
    assert sentences.by_unit(rows) == []


def at_places(row: Contrast, places: int, low: float, high: float) -> Contrast:
    """The same, with its mean and interval over so many places."""
    found = PlaceInterval(places, row.mean, low, high, 0.5, low - 1, high + 1)
    domain = replace(row.units["domain"], groups=places, low=low, high=high)
    seeds = {unit: replace(row.units[unit], groups=row.n) for unit in SEED_UNITS}
    units = {**row.units, **seeds, "domain": domain}
    return over_leading_unit(replace(row, places=found, units=units, crossed=False))


def test_many_places_are_named_and_the_next_one_is_expected_wider() -> None:
    row = at_places(GAIN, 24, -0.035, -0.007)
    said = sentences.answer([row])
    assert "lowered target NLL by 0.021 [0.007, 0.035] over 24 places" in said
    expected = (
        "At a new place of the same kind, expect target NLL to change by −0.021 [−1.035, 0.993] "
        "(95%, from 24 places; mean ± t·s·√(1 + 1/G))."
    )
    assert expected in sentences.by_unit([row])


def test_many_places_that_do_not_agree_decide() -> None:
    row = at_places(GAIN, 24, -0.05, 0.008)
    assert sentences.headline([EVEN, row]) == "ac-nc: no clear difference in NLL or accuracy"
    assert sentences.badge(row) == "includes zero"
    assert ", an interval that includes zero" in sentences.answer([row])


def test_few_places_are_said_to_be_few() -> None:
    row = at_places(GAIN, 4, -0.05, 0.008)
    assert sentences.answer([row]).endswith(
        "changed target NLL by −0.021 [−0.050, 0.008] over 4 domains, an interval that includes "
        "zero."
    )
    (few,) = [line for line in sentences.by_unit([EVEN, row]) if line.startswith("There are only")]
    assert few.startswith("There are only 4 held-out domains: intervals over so few are wide")
    assert sentences.by_unit([row])[-1] == (
        "At a new place of the same kind, expect target NLL to change by −0.021 [−1.050, 1.008] "
        "(95%, from 4 domains; mean ± t·s·√(1 + 1/G))."
    )


def test_domains_that_share_seeds_are_counted_with_them() -> None:
    row = over_leading_unit(but(GAIN, "block_domain", low=-0.045, high=-0.001))
    said = sentences.answer([row])
    assert "lowered target NLL by 0.021 [0.001, 0.045] over 9 blocks × 4 domains." in said
    assert row.over_runs == (GAIN.low, GAIN.high)
    alone = over_leading_unit(few(GAIN, domain=1, block_domain=1))
    assert sentences.over(alone) == "9 blocks"
    assert over_leading_unit(few(GAIN, domain=1, block=30)).over == "runs"  # each by itself
    assert over_leading_unit(few(GAIN, domain=1, block=2)).over == "runs"  # too few


def test_other_metrics_follow_nll_and_accuracy_and_are_told_where_neither_is() -> None:
    ece = contrast("target_ece", -0.3, -0.5, -0.1)
    lines = sentences.by_unit([contrast("gap_pp", 0.2, 0.1, 0.3), ece, EVEN, GAIN])
    assert [line.partition(" −")[0] for line in lines] == [
        "target NLL",
        "target accuracy",
        "target ECE",
    ]
    assert sentences.answer([ece]) == (
        "Against source-acc, ac-nc lowered target ECE by 0.300 [0.100, 0.500] over 30 runs."
    )
    assert "ECE" not in sentences.answer([ece, EVEN, GAIN])
    assert sentences.by_unit([contrast("gap_pp", 0.2, 0.1, 0.3)]) == []


def test_blocks_of_one_run_are_single_runs() -> None:
    alone = replace(few(GAIN, block=30, draw=30, trial=30, domain=4), crossed=False)
    assert sentences.by_unit([alone])[0] == (
        "target NLL −0.021, by unit: 30 single runs [−0.040, −0.004], 4 domains [−0.040, −0.004]."
    )
    shaky = but(alone, "block", "draw", "trial")
    assert sentences.badge(shaky) == "not borne out by single runs"
    page = str(unit_table([alone, EVEN]))
    assert "30 single runs" in page
    assert "blocks" not in page
