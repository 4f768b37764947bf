"""Which interval leads a table of changes, what stands beside it, and what the caption says of it.

Expected ends are worked out here, from the changes that the runs were written with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from checkwise.records import RunKey
from checkwise.study import Cohort, Pool
from checkwise.study.inference import holm, max_t, numbered
from checkwise.study.tables import build
from checkwise.study.tables.table import Cell
from checkwise.study.tables.typeset import caption, interval_sentences, wide
from tests.study.cohorts import WrittenRun, tiny_runs, write_cohort
from tests.tables.two_way import two_way_error

NLL = "target_nll"
KEYS = [
    RunKey("Tiny", algorithm, (domain,), h, t)
    for algorithm in ("ERM", "IRM")
    for domain in "abcd"
    for h in (1, 2)
    for t in (0, 1)
]


def runs_with(changes: Mapping[RunKey, float]) -> list[WrittenRun]:
    """Runs whose target NLL changes by this much from source-acc to ac-nc."""
    return [
        replace(
            tiny_runs()[0],
            key=key,
            target={"nll": (2.0, 2.0 + change, 1.0), "cwece": (0.1, 0.1, 0.1)},
            extra={"hparams": {"lr": 0.001}},
        )
        for key, change in changes.items()
    ]


def pool_of(path: Path, changes: Mapping[RunKey, float], role: str = "development") -> Pool:
    return Pool([Cohort.open(write_cohort(path, runs_with(changes), role=role))])


def drawn(keys: Iterable[RunKey], seed: int = 0) -> dict[RunKey, float]:
    """Changes with a share of their own for every block and every domain."""
    random = np.random.default_rng(seed)
    shared: dict[tuple[object, object], float] = {}
    changes = {}
    for key in sorted(keys):
        groups = ((key.hparams_seed, key.trial_seed), (key.dataset, key.held_out))
        common = sum(shared.setdefault(group, random.normal(0, 0.1)) for group in groups)
        changes[key] = float(-0.2 + common + random.normal(0, 0.05))
    return changes


def blocks(keys: Iterable[RunKey]) -> list[tuple[int, int]]:
    return [(key.hparams_seed, key.trial_seed) for key in keys]


def ends(cell: Cell) -> tuple[float, float]:
    return cell.low, cell.high


PAIRED = ("main-changes", "without-penalties", "learning-rate", "length")


@pytest.mark.parametrize("name", PAIRED)
def test_few_domains_and_shared_seeds_lead_by_both_at_once(tmp_path: Path, name: str) -> None:
    changes = drawn(KEYS)
    table = build(name, pool_of(tmp_path / "few", changes))
    row = next(cell.row for cell in reversed(table.cells) if cell.measure == NLL)
    keys = [key for key in sorted(changes) if name != "without-penalties" or key.algorithm == "ERM"]
    values = np.array([changes[key] for key in keys])
    error = two_way_error(values, blocks(keys), [key.held_out for key in keys])
    leading = table.cell(*row, measure=NLL)
    half = scipy.stats.t(3).ppf(0.975) * error
    assert ends(leading) == pytest.approx((values.mean() - half, values.mean() + half))
    assert (leading.counted_by, leading.seed) == ("4 blocks × 4 domains", None)


def test_the_interval_of_the_paper_stands_beside(tmp_path: Path) -> None:
    changes = drawn(KEYS)
    table = build("main-changes", pool_of(tmp_path / "few", changes))
    values = np.array([changes[key] for key in sorted(changes)])
    at = np.random.default_rng(20260908).integers(0, len(values), (10_000, len(values)))
    expected = np.percentile(values[at].mean(axis=1), [2.5, 97.5])
    over_runs = table.cell(measure=f"{NLL}_over_runs")
    assert ends(over_runs) == pytest.approx(tuple(expected))
    assert (over_runs.counted_by, over_runs.seed, over_runs.n) == ("runs", 20260908, len(values))
    by_domain = table.cell(measure=f"{NLL}_by_domain")
    means = [np.mean([c for k, c in changes.items() if k.held_out == (d,)]) for d in "abcd"]
    assert ends(by_domain) == pytest.approx(
        tuple(scipy.stats.ttest_1samp(means, 0).confidence_interval())
    )
    heads = [head for head in wide(table).header if head.startswith("Target NLL")]
    assert heads[:3] == ["Target NLL", "Target NLL over runs", "Target NLL by held-out domain"]
    # Over runs it would be told as a change that both lines together do not show.
    leading = table.cell(measure=NLL)
    assert leading.low < over_runs.low
    assert over_runs.high < leading.high


def test_domains_lead_where_every_run_has_seeds_of_its_own(tmp_path: Path) -> None:
    keys = [RunKey("Tiny", "ERM", ("abcd"[i % 4],), 1, i) for i in range(12)]
    changes = drawn(keys)
    table = build("main-changes", pool_of(tmp_path / "own", changes))
    means = [np.mean([c for k, c in changes.items() if k.held_out == (d,)]) for d in "abcd"]
    leading = table.cell(measure=NLL)
    assert ends(leading) == pytest.approx(
        tuple(scipy.stats.ttest_1samp(means, 0).confidence_interval())
    )
    assert leading.counted_by == "4 domains"
    assert not [cell for cell in table.cells if cell.measure.endswith("_by_domain")]
    assert table.cell(measure=f"{NLL}_over_runs").counted_by == "runs"


def test_blocks_lead_where_domains_are_too_few(tmp_path: Path) -> None:
    changes = drawn(key for key in KEYS if key.held_out[0] in "ab")
    leading = build("main-changes", pool_of(tmp_path / "two", changes)).cell(measure=NLL)
    means = [
        np.mean([c for k, c in changes.items() if (k.hparams_seed, k.trial_seed) == of])
        for of in sorted(set(blocks(changes)))
    ]
    assert ends(leading) == pytest.approx(
        tuple(scipy.stats.ttest_1samp(means, 0).confidence_interval())
    )
    assert leading.counted_by == "4 blocks"


def test_where_both_are_too_few_there_is_an_interval_over_runs_alone(tmp_path: Path) -> None:
    keys = [key for key in KEYS if key.held_out[0] in "ab" and key.hparams_seed == 1]
    table = build("main-changes", pool_of(tmp_path / "two", drawn(keys)))
    assert np.isnan(table.cell(measure=NLL).low)
    assert table.cell(measure=f"{NLL}_over_runs").low < table.cell(measure=NLL).value
    said = "None but that over runs where blocks and domains are fewer than three."
    assert said in caption(table)
    assert said not in caption(build("main-changes", pool_of(tmp_path / "four", drawn(KEYS))))


def test_many_places_lead_and_the_runs_stand_beside_with_their_own_mean(tmp_path: Path) -> None:
    keys = [RunKey("Tiny", "ERM", (f"p{i % 6}",), 1, i) for i in range(7)]
    changes = drawn(keys)
    table = build("main-changes", pool_of(tmp_path / "many", changes))
    places = [
        np.mean([c for k, c in changes.items() if k.held_out == (f"p{i}",)]) for i in range(6)
    ]
    assert table.value(measure=NLL) == pytest.approx(np.mean(places))
    over_runs = table.value(measure=f"{NLL}_over_runs")
    assert over_runs == pytest.approx(np.mean(list(changes.values())))
    assert over_runs != pytest.approx(np.mean(places))


def test_many_rules_are_tested_by_block_and_domain_at_once(tmp_path: Path) -> None:
    changes = drawn(KEYS)
    table = build("multiplicity", pool_of(tmp_path / "few", changes))
    values = np.array([changes[key] for key in sorted(changes)])
    domains = [key.held_out for key in sorted(changes)]
    error = two_way_error(values, blocks(sorted(changes)), domains)
    p = 2 * scipy.stats.t(3).sf(abs(values.mean()) / error)
    row = (NLL, "ac-nc", "4 blocks × 4 domains")
    assert table.value(*row, measure="p") == pytest.approx(p)
    tested = [cell.value for cell in table.cells if cell.row[0] == NLL and cell.measure == "p"]
    corrected = holm(np.array(tested))[0]
    assert table.value(*row, measure="p_holm") == pytest.approx(corrected)
    largest = table.cell(*row, measure="p_max_t")
    assert largest.value >= 1 / 8  # four domains: 8 patterns of signs
    by_block = max_t(values[:, None], numbered(blocks(sorted(changes)), "block"))[0]
    assert largest.value >= by_block
    assert largest.seed is None  # every pattern was tried
    assert "Random draws" not in caption(table)


def test_equivalence_is_tested_by_block_and_domain_at_once(tmp_path: Path) -> None:
    changes = drawn(KEYS)
    table = build("equivalence", pool_of(tmp_path / "few", changes), margins={NLL: 0.4})
    values = np.array([changes[key] for key in sorted(changes)])
    domains = [key.held_out for key in sorted(changes)]
    error = two_way_error(values, blocks(sorted(changes)), domains)
    t = scipy.stats.t(3)
    row = (NLL, "0.4", "4 blocks × 4 domains")
    half = t.ppf(0.95) * error
    found = ends(table.cell(*row, measure="change_90"))
    assert found == pytest.approx((values.mean() - half, values.mean() + half))
    expected = max(t.sf((values.mean() + 0.4) / error), t.cdf((values.mean() - 0.4) / error))
    assert table.value(*row, measure="p_equivalent") == pytest.approx(expected)
    assert "They are over the clusters that the row names." in caption(table)


def test_captions_say_which_rows_have_which_unit(tmp_path: Path) -> None:
    few, many = drawn(KEYS), drawn(RunKey("Other", "ERM", (f"p{i}",), 1, i) for i in range(6))
    development = write_cohort(tmp_path / "few", runs_with(few), name="few")
    evaluation = write_cohort(tmp_path / "many", runs_with(many), name="many", role="evaluation")
    pool = Pool([Cohort.open(development), Cohort.open(evaluation)])
    said = caption(build("main-changes", pool))
    assert (
        "are over 6 places (evaluation), 4 blocks × 4 domains (development) and "
        "8 blocks × 10 places (development + evaluation)." in said
    )
    assert (
        "Intervals by held-out domain are over 4 domains (development) and 10 places "
        "(development + evaluation)." in said
    )
    assert (
        "Intervals at a new place are from 6 places (evaluation), from 4 domains (development) and "
        "from 10 places (development + evaluation)." in said
    )
    assert "Intervals of Gap (pp), Target acc., Target ECE, Target CwECE and Target NLL are" in said
    assert "Target acc. over runs" not in said
    by_data = caption(build("length", pool))
    assert "are over 6 places (Other) and 4 blocks × 4 domains (Tiny)." in by_data


def cells(*over: tuple[tuple[str, ...], str]) -> list[tuple[tuple[str, ...], Cell]]:
    return [
        (row, Cell(row, NLL, 0.0, 9, "development", low=-1.0, high=1.0, over=unit))
        for row, unit in over
    ]


def test_rows_are_named_by_as_few_labels_as_tell_them_apart() -> None:
    one = (("PACS", "a"), "9 blocks")
    assert interval_sentences(cells(one)) == ["Intervals are over 9 blocks."]
    two = (("PACS", "b"), "4 domains")
    assert interval_sentences(cells(one, two)) == [
        "Intervals are over 9 blocks (a) and 4 domains (b)."
    ]
    crossed = [(("Office", "a"), "4 domains"), (("Office", "b"), "4 domains")]
    assert interval_sentences(cells(one, two, *crossed)) == [
        "Intervals are over 9 blocks (PACS, a) and 4 domains (PACS, b; Office, a; Office, b)."
    ]
    more = (("TaiCam", "a"), "4 domains")
    assert interval_sentences(cells(two, *crossed, one, more)) == [
        "Intervals are over 9 blocks (PACS, a) and 4 domains (the other rows)."
    ]


def test_what_was_not_drawn_at_random_is_not_called_a_draw(tmp_path: Path) -> None:
    table = build("inference", pool_of(tmp_path / "few", drawn(KEYS)))
    by_block = next(c for c in table.cells if c.row[1:] == ("block", "4", "wild"))
    by_run = next(c for c in table.cells if c.row[1:] == ("run", "32", "wild"))
    assert (by_block.seed, by_run.seed, by_run.resamples) == (None, 20260908, 5000)
    assert "Random draws: 5,000 and 10,000 with seed 20260908." in caption(table)
    assert "They are over the clusters that the row names." in caption(table)
