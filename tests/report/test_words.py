"""Differences in words: honest in every direction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkwise.report import words
from checkwise.study import Contrast

NAN = float("nan")


def contrast(metric: str, mean: float, low: float, high: float, n: int = 30) -> Contrast:
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
    )


GAIN = contrast("target_nll", -0.021, -0.04, -0.004)
HARM = contrast("target_nll", 0.021, 0.004, 0.04)
EVEN = contrast("target_accuracy", -0.1, -0.5, 0.3)
DROP = contrast("target_accuracy", -0.9, -1.5, -0.3)


def test_a_gain_is_told_with_its_interval_and_what_accuracy_did() -> None:
    assert words.answer([EVEN, GAIN]) == (
        "Against source-acc, ac-nc lowered target NLL by 0.021 [0.004, 0.040] on 30 runs; it "
        "changed target accuracy by −0.10 points [−0.50, 0.30], an interval that includes zero."
    )
    assert words.headline([EVEN, GAIN]) == "ac-nc: lower NLL, no clear change in accuracy"


def test_bad_news_is_told_as_plainly() -> None:
    assert words.answer([DROP, HARM]) == (
        "Against source-acc, ac-nc raised target NLL by 0.021 [0.004, 0.040] on 30 runs; it "
        "lowered target accuracy by 0.90 points [0.30, 1.50]."
    )
    assert words.headline([DROP, HARM]) == "ac-nc: higher NLL and lower accuracy"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (GAIN, "better"),
        (HARM, "worse"),
        (EVEN, "unclear"),
        (DROP, "worse"),
        (replace(DROP, mean=0.9, low=0.3, high=1.5), "better"),
        (replace(GAIN, low=NAN, high=NAN, n=1), "unclear"),
        (replace(GAIN, high=0.0), "unclear"),
    ],
)
def test_a_verdict_needs_the_whole_interval_on_one_side(row: Contrast, expected: str) -> None:
    assert words.verdict(row) == expected


def test_one_run_has_no_interval_and_says_so() -> None:
    rows = [replace(row, low=NAN, high=NAN, n=1) for row in (EVEN, GAIN)]
    assert "by −0.021 no interval from one run on 1 run;" in words.answer(rows)
    assert words.headline(rows) == "ac-nc: too few runs to tell"


def test_numbers_have_no_negative_zero() -> None:
    assert words.number(-0.0001, "target_accuracy", signed=True) == "0.00"
    assert words.number(-0.25, "target_accuracy") == "−0.25"
    assert words.number(0.25, "target_nll", signed=True) == "+0.250"
    assert words.number(NAN, "target_nll") == "–"


def test_the_headline_says_only_what_also_holds_across_seeds() -> None:
    firm = replace(GAIN, seed_groups=9, seed_low=-0.041, seed_high=-0.001)
    shaky = replace(GAIN, seed_groups=9, seed_low=-0.050, seed_high=0.008)
    assert words.headline([EVEN, firm]) == "ac-nc: lower NLL, no clear change in accuracy"
    assert words.headline([EVEN, shaky]) == "ac-nc: no clear difference in NLL or accuracy"
    assert words.answer([EVEN, shaky]).startswith(
        "Against source-acc, ac-nc changed target NLL by −0.021 [−0.040, −0.004] on 30 runs, which "
        "is unclear across seeds; it changed"
    )
    even = replace(EVEN, seed_groups=9, seed_low=-0.7, seed_high=0.5)
    assert words.across_seeds([even, shaky]) == (
        "Runs with the same seeds are not independent. With their 9 groups as the unit: "
        "NLL −0.021 [−0.050, 0.008], accuracy −0.10 [−0.70, 0.50] points."
    )


def test_two_groups_of_seeds_are_too_few_to_say() -> None:
    two = replace(GAIN, seed_groups=2, seed_low=-1.0, seed_high=0.9)
    assert words.firm_verdict(two) == "better"
    said = "ac-nc on these 30 runs: lower NLL, no clear change in accuracy"
    assert words.headline([EVEN, two]) == said
    assert words.across_seeds([EVEN, two]) == (
        "These 30 runs share 2 choices of seeds: too few to say whether the same would come out "
        "with others."
    )
    assert words.across_seeds([EVEN, replace(two, n=1)]) == ""
