"""The paper's numbers follow from each other, so a slip in copying them would show."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

from checkwise.study.tables.cells import MAIN
from checkwise.study.tables.other_methods import HARD
from tests.docs.test_paper_numbers import SOFT, cells, lines

DATASETS = ("OfficeHome", "PACS", "TerraIncognita")
ONE, THIRD, FOURTH, FIFTH = (Fraction(1, n) for n in (1, 3, 4, 5))

Label = tuple[str, ...]
Terms = list[tuple[Fraction, str]]


def follows(stated: str, terms: Terms) -> bool:
    """Whether a number is the weighted sum of others, up to the rounding of all of them."""

    def half_digit(text: str) -> Fraction:
        return Fraction(1, 2 * 10 ** len(text.partition(".")[2]))

    error = sum((weight * Fraction(text) for weight, text in terms), -Fraction(stated))
    room = sum((abs(weight) * half_digit(text) for weight, text in terms), half_digit(stated))
    return abs(error) <= room


def levels(dataset: str, rule: str, measure: str) -> list[str]:
    """A cell of the main cohort in every table that has it, most digits last."""
    tables = ("main", "pure", "tolerance-dataset", "component-dataset", "controls")
    names = (rule, "ac-nc(delta_pp=0.5)") if rule == "ac-nc" else (rule,)
    keys = [(table, dataset, "", name, "", measure) for table in tables for name in names]
    return sorted((cells()[key] for key in keys if key in cells()), key=len)


def finest(dataset: str, rule: str, measure: str) -> str:
    return levels(dataset, rule, measure)[-1]


def pooled_levels() -> Iterator[tuple[Label, str, Terms]]:
    """A pooled level is the mean of the data sets."""
    for (table, _, _, rule, _, measure), value in cells().items():
        name = "tolerance-dataset" if table == "tolerance" else "component-dataset"
        keys = [(name, d, "", rule, "", measure) for d in DATASETS]
        if table in ("tolerance", "component-source") and keys[0] in cells():
            yield (table, rule, measure), value, [(THIRD, cells()[key]) for key in keys]


def component_changes() -> Iterator[tuple[Label, str, Terms]]:
    """A pooled change is the mean over data sets of the differences of levels."""
    for (table, _, _, rule, reference, measure), value in cells().items():
        if table == "component-changes" and measure in SOFT:
            mine = [(THIRD, finest(d, rule, measure)) for d in DATASETS]
            theirs = [(-THIRD, finest(d, reference, measure)) for d in DATASETS]
            yield (table, reference, measure), value, mine + theirs


def main_changes() -> Iterator[tuple[Label, str, Terms]]:
    """All runs are two parts evaluation and one part PACS."""
    for measure in MAIN:
        every, evaluation = (
            cells()["main-changes", runs, "", "ac-nc", "source-acc", measure]
            for runs in ("all", "evaluation")
        )
        after, before = (finest("PACS", rule, measure) for rule in ("ac-nc", "source-acc"))
        terms = [(2 * THIRD, evaluation), (THIRD, after), (-THIRD, before)]
        yield ("main-changes", "all", measure), every, terms


def algorithms() -> Iterator[tuple[Label, str, Terms]]:
    """The change on a data set is the mean of its five algorithms."""
    for dataset in DATASETS:
        for measure in ("gap_pp", *MAIN):
            changes = [
                (FIFTH, value)
                for key, value in cells().items()
                if (key[0], key[1], key[5]) == ("by-algorithm", dataset, measure)
            ]
            assert len(changes) == 5
            after, before = (finest(dataset, rule, measure) for rule in ("ac-nc", "source-acc"))
            yield ("by-algorithm", dataset, measure), after, [(ONE, before), *changes]


def vrex() -> Iterator[tuple[Label, str, Terms]]:
    """Levels beside PAIR are those of the main cohort."""
    for dataset in DATASETS:
        for measure in (*MAIN, "whd"):
            change = cells()["by-algorithm", dataset, "VREx", "ac-nc", "source-acc", measure]
            terms = [
                (weight, cells()["pair", dataset, "VREx", rule, "", measure])
                for weight, rule in ((ONE, "ac-nc"), (-ONE, "source-acc"))
            ]
            yield ("pair", dataset, measure), change, terms


def lodo_changes() -> Iterator[tuple[Label, str, Terms]]:
    """Cells of algorithm and data set weigh equally."""
    where = [(d, a) for d in ("OfficeHome", "TerraIncognita") for a in ("ERM", "VREx")]
    for rule in ("ac-nc", "ac-lodo"):
        for measure in HARD:
            change = cells()["lodo-changes", "evaluation", "", rule, "lodo-acc", measure]
            terms = [
                (weight, cells()["lodo", dataset, algorithm, name, "", measure])
                for weight, name in ((FOURTH, rule), (-FOURTH, "lodo-acc"))
                for dataset, algorithm in where
            ]
            yield ("lodo-changes", rule, measure), change, terms


def direct_changes() -> Iterator[tuple[Label, str, Terms]]:
    """A direct contrast is the difference of two rows of another table."""
    half, wide = "ac-nc(delta_pp=0.5)", "ac-nc(q=inf)"
    contrasts = (
        ("distances", (wide, "ac-nc(q=1)"), "objectives", (wide, "ac-nc(q=1)")),
        ("objective-changes", ("ac-nec", "ac-nc"), "objectives", ("ac-nec(q=inf)", wide)),
        *(
            ("tolerance-changes", (rule, half), "tolerance", (rule, half))
            for rule in ("ac-nc(delta_pp=0.1)", "ac-nc(delta_pp=1.0)")
        ),
    )
    for table, pair, other, rules in contrasts:
        reference = "source-acc" if other == "objectives" else ""
        for measure in MAIN:
            change = cells()[table, "all", "", *pair, measure]
            terms = [
                (weight, cells()[other, "all", "", rule, reference, measure])
                for weight, rule in zip((ONE, -ONE), rules, strict=True)
            ]
            yield (table, *pair, measure), change, terms


def test_cells_printed_twice_agree() -> None:
    rules = {line["rule"] for line in lines()}
    pairs = [
        pair
        for dataset in DATASETS
        for rule in rules
        for measure in ("gap_pp", *SOFT)
        for pair in combinations(levels(dataset, rule, measure), 2)
    ]
    assert len(pairs) > 80
    assert [(a, b) for a, b in pairs if not follows(a, [(ONE, b)])] == []


def test_numbers_follow_from_each_other_but_for_cwece_on_pacs() -> None:
    """Levels of ac-nc on PACS say 2.7501; what changes and pooled levels say is 2.758."""
    relations = [
        *pooled_levels(),
        *component_changes(),
        *main_changes(),
        *algorithms(),
        *vrex(),
        *lodo_changes(),
        *direct_changes(),
    ]
    assert len(relations) > 80
    assert {label for label, stated, terms in relations if not follows(stated, terms)} == {
        ("by-algorithm", "PACS", "target_cwece"),
        ("component-changes", "ac-cwece", "target_cwece"),
        ("component-changes", "ac-nll", "target_cwece"),
        ("main-changes", "all", "target_cwece"),
    }
