"""The study's pages, one per question, show what the kept outcomes and packed journals give."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from pandas import read_csv

from checkwise.records import RunKey, Trajectory
from checkwise.selection import Columns, select
from checkwise.study import Cohort, Pool, method
from checkwise.study.folder import open_cohort, unpack, verify, write_cohort
from checkwise.study.tables.rank_agreement import inside_feasible
from studies.page import DATA
from tests.docs.test_pages import ROOT, builder

DOCS = ROOT / "docs"
STUDY = DOCS / "study"
PAGES = builder("pages")


def test_every_part_and_every_number_of_a_page_is_rebuilt() -> None:
    stale = []
    for page, rebuilt in PAGES.parts().items():
        file = STUDY / f"{page}.md"
        marks = set(re.findall(r"<!-- ([a-z-]+) -->", file.read_text()))
        assert marks - {"tables"} == set(rebuilt)  # `test_cohort_tables` has that one
        stale += [f"{page}: {n}" for n, c in rebuilt.items() if builder("page").part(file, n) != c]
    stale += [page for page, text in PAGES.numbers() if (DOCS / page).read_text() != text]
    assert stale == [], "run `python -m studies.paper.pages`"


def test_every_table_behind_the_pages_is_rebuilt() -> None:
    files = PAGES.files()
    found = {name: (PAGES.FOLDER / name).read_text() for name in files}
    assert [name for name, text in files.items() if found[name] != text] == []
    groups = {name.partition("/")[0] for name in files}
    there = {
        f"{group}/{file.name}" for group in groups for file in (PAGES.FOLDER / group).iterdir()
    }
    assert there == set(files)


LOWER, HIGHER = {"lower", "below", "fell"}, {"higher", "above", "rose", "raised"}


def test_words_agree_with_the_sign_of_the_numbers_after_them() -> None:
    wrong, checked = [], 0
    for page in PAGES.NUMBERED:
        text = (DOCS / page).read_text()
        for found in builder("page").NUMBER.finditer(text):
            change = PAGES.change_of(found[1])
            if change is None:
                continue
            clause = re.split(r"[.:;(]\s|, and | and |\n\n", text[: found.start()])[-1]
            said = [w for w in re.findall(r"[a-z]+", clause.lower()) if w in LOWER | HIGHER]
            mean = change if isinstance(change, float) else change.mean
            checked += bool(said)
            if said and (mean < 0) != (said[-1] in LOWER):
                wrong.append(f"{page}: {clause} {found[2]}")
            if isinstance(change, float):
                continue
            if re.search(r"no gain[^.]*(shown|found)", clause, re.IGNORECASE):
                assert not change.excludes_zero, clause
    assert wrong == []
    assert checked >= 12


def test_wald_chooses_as_ac_ece_on_the_runs_of_the_design() -> None:
    with builder("tables").pooled() as pool:
        same = [wald_is_ac_ece(pool.trajectory(key)) for key in pool.keys]
    assert all(same)


def test_tables_from_logits_are_those_of_the_packed_camera_traps(tmp_path: Path) -> None:
    module = builder("kept_tables")
    (name,) = module.SETS[module.CAMERA_TRAPS]
    unpack(DATA / f"{name}.tar.xz", tmp_path / name)
    cohort = Cohort.open(tmp_path / name)
    again = [key for key in cohort.usable if key.algorithm == "ERM"]
    kept = json.loads(module.file_of(module.CAMERA_TRAPS).read_text())["journals"]
    assert kept == {name: module.fingerprint(cohort.path, [str(key) for key in again])}
    for rule in ("source-acc", "ac-nc"):
        rows = {one.key: one.row for one in cohort.outcomes(method(rule), held_out=True)}
        for measure, scale in (("target_nll", 1), ("target_accuracy", 100)):
            found = module.read("temperature", module.CAMERA_TRAPS).value(rule, measure=measure)
            expected = scale * np.mean([rows[key][measure] for key in again])
            assert found == pytest.approx(expected, abs=1e-6)


def test_temperature_tables_show_levels_runs_and_cells() -> None:
    page = builder("logits_tables")
    for data, name in {"camera traps, 4 regions": "taicam-frozen", "PACS, ERM": "pacs-erm"}.items():
        values = builder("outcomes").read(name).values
        raw, scaled = (values[r]["target_nll"] for r in ("ac-nc", "ac-nc+ts"))
        (row,) = rows_of(page.levels(), data, "`ac-nc`", "`ts`")
        assert float(row[5]) == pytest.approx(scaled.mean(), abs=6e-4)
        assert float(row[6]) == pytest.approx(np.median(scaled), abs=6e-4)
        assert float(row[7]) == pytest.approx(scipy.stats.trim_mean(scaled, 0.05), abs=6e-4)
        assert int(row[10]) == (scaled < raw).sum()
    kept = [builder("outcomes").read(name) for name in page.COHORTS]
    cells = [
        np.mean([c[k] for k, key in enumerate(one.keys) if key.algorithm == algorithm])
        for one in kept
        for c in [one.values["ac-nc+ts"]["target_cwece"] - one.values["ac-nc"]["target_cwece"]]
        for algorithm in {key.algorithm for key in one.keys}
    ]
    assert len(cells) == 5 + 1 + 1
    (row,) = rows_of(page.cells(), "`ac-nc`", "`ts`")
    assert (int(row[2]), int(row[5])) == (len(cells), sum(cell < 0 for cell in cells))


def rows_of(table: str, *labels: str) -> list[list[str]]:
    """The rows of a Markdown table that have some labels."""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return [row for row in rows if set(labels) <= set(row)]


def test_single_runs_show_the_median_and_the_trimmed_mean() -> None:
    single, kept = builder("single_runs"), builder("outcomes").read("pacs-resnet50")
    ours, theirs = (kept.values[name]["target_nll"] for name in ("swad", "source-acc"))
    texts = single.spread(kept, "swad").replace("−", "-").split(" / ")
    expected = [np.median(ours - theirs), scipy.stats.trim_mean(ours - theirs, 0.05)]
    assert [float(text) for text in texts] == pytest.approx(expected, abs=6e-4)
    assert single.medians(kept, "swad") == f"{np.median(ours):.3f} ({np.median(theirs):.3f})"


def wald_is_ac_ece(run: Trajectory) -> bool:
    """Whether Wald's rule, half a point below the best accuracy, chooses as ac-ece does."""
    threshold = 100 * Columns.of(run).standings("accuracy")[0].best - Fraction(1, 2)
    return select(run, "wald", threshold_pp=threshold).step == select(run, "ac-ece").step


def kept() -> list[str]:
    return sorted(file.name.partition(".")[0] for file in builder("outcomes").FOLDER.iterdir())


@pytest.mark.parametrize("name", kept())
def test_outcomes_are_those_of_the_packed_journals(name: str, tmp_path: Path) -> None:
    """About 30 seconds of one core for all of them."""
    outcomes, module = builder("outcomes").read(name), builder("keep_outcomes")
    folders = unpacked(name, tmp_path)
    for folder in folders:  # results.md: each is as it was written
        assert verify(folder) == []
    cohort = Cohort.open(folders[0])
    assert builder("kept_tables").fingerprint(cohort.path) == outcomes.journals
    assert cohort.role == outcomes.role
    assert tuple(sorted(cohort.usable)) == outcomes.keys
    recipes = builder("recipes")
    rows = {**recipes.FROM_JOURNALS, **(recipes.LODO if len(folders) > 1 else {})}
    for title, row in rows.items():
        expected = {each.key: each.row for each in cohort.outcomes(row, held_out=True)}
        for metric in journal_metrics(outcomes, title):
            found = [expected.get(key, {}).get(metric, np.nan) for key in outcomes.keys]
            same(outcomes.values[title][metric], found, f"{title}: {metric}")
    ranks = inside_feasible(Pool([cohort]))
    for column in module.RANKS:
        found = [getattr(ranks[key], column) for key in outcomes.keys]
        same(outcomes.values["ac-nc"][column], found, column)


def unpacked(name: str, folder: Path) -> list[Path]:
    """A packed cohort and, where there are any, its inner runs beside it."""
    names = [each for each in (name, f"{name}-lodo") if (DATA / f"{each}.tar.xz").exists()]
    for each in names:
        unpack(DATA / f"{each}.tar.xz", folder / each)
    return [folder / each for each in names]


def journal_metrics(outcomes: Any, title: str) -> list[str]:
    """What every recipe has, and the hard-bin metrics of those that have them too."""
    module = builder("outcomes")
    assert set(module.METRICS) <= set(outcomes.values[title])
    return [name for name in (*module.METRICS, *module.HARD) if name in outcomes.values[title]]


def same(kept: np.ndarray, found: list[float], what: str) -> None:
    assert kept == pytest.approx(np.array(found, dtype=float), abs=1e-6, nan_ok=True), what


def test_an_effect_is_a_t_test_over_the_means_of_the_places() -> None:
    outcomes = builder("outcomes").read("officehome-erm")
    found = builder("effects").effect(outcomes, "ac-nc", "source-acc", "target_nll")
    values = outcomes.values["ac-nc"]["target_nll"] - outcomes.values["source-acc"]["target_nll"]
    places = [key.held_out for key in outcomes.keys]
    means = [values[[p == place for p in places]].mean() for place in sorted(set(places))]
    test = scipy.stats.ttest_1samp(means, 0)
    assert found.mean == pytest.approx(np.mean(means))
    assert found.over.p == pytest.approx(test.pvalue)
    assert found.over.interval() == pytest.approx(tuple(test.confidence_interval(0.95)))
    low, high = found.over.new_place()
    half = (high - low) / 2
    spread = np.std(means, ddof=1) * np.sqrt(1 + 1 / 4) * scipy.stats.t.ppf(0.975, 3)
    assert half == pytest.approx(spread)


def spread_of_sums(residuals: list[float], labels: list[Any]) -> float:
    """The variance of a mean whose terms are independent between groups, written out."""
    groups = sorted(set(labels))
    sums = [sum(r for r, one in zip(residuals, labels, strict=True) if one == g) for g in groups]
    n, count = len(residuals), len(groups)
    return count / (count - 1) * sum(each**2 for each in sums) / n**2


def test_where_domains_share_seeds_the_interval_is_over_blocks_and_domains() -> None:
    outcomes = builder("outcomes").read("officehome-erm")
    found = builder("effects").effect(outcomes, "ac-nc", "source-acc", "target_nll")
    values = outcomes.values["ac-nc"]["target_nll"] - outcomes.values["source-acc"]["target_nll"]
    residuals = [float(value - values.mean()) for value in values]
    blocks = [(key.hparams_seed, key.trial_seed) for key in outcomes.keys]
    domains = [key.held_out for key in outcomes.keys]
    one_way = [spread_of_sums(residuals, labels) for labels in (blocks, domains)]
    both = sum(one_way) - spread_of_sums(residuals, list(zip(blocks, domains, strict=True)))
    half = scipy.stats.t.ppf(0.975, 4 - 1) * max(both, *one_way) ** 0.5  # the smaller: 4 domains
    assert (len(set(blocks)), len(set(domains))) == (9, 4)
    assert found.interval == pytest.approx((values.mean() - half, values.mean() + half))
    own = builder("effects").effect("taicam-sites", "ac-nc")
    assert own.interval == own.over.interval()


def test_a_place_whose_changes_cancel_is_not_worse() -> None:
    keys = [RunKey("data", "ERM", (place,), 1, i) for i, place in enumerate("aaabbb")]
    changes = np.array([0.1, 0.2, -0.3, 1.0, 1.0, -1.0])  # the first sum is 5.6e-17
    assert builder("effects").of_values("target_nll", keys, changes).places_worse == 1
    assert builder("effects").of_values("target_accuracy", keys, -changes).places_worse == 1


@pytest.mark.parametrize("cohort", ["taicam-sites", "taicam-frozen"])
def test_what_was_registered_is_what_the_kept_outcomes_give(cohort: str) -> None:
    table = builder("registered_table")
    one = table.read(cohort)
    assert one["registered"]["state"] == "before"
    assert one["registered"]["at"] < one["registered"]["opened"]
    assert one["same_code"]
    outcomes = builder("outcomes").read(cohort)
    for name, each in table.named(cohort).items():
        if each["at"] == "worst place":
            at_the_worst_place(outcomes, each)
            continue
        some = outcomes.temperature("source-acc+ts") < 1 if name == "T ≥ 1" else None
        sides = (each["rule"], each["reference"], each["metric"])
        found = builder("effects").effect(outcomes, *sides, keep=some)
        assert found.mean == pytest.approx(each["mean"], abs=1e-5), name
        assert found.over.interval() == pytest.approx((each["low"], each["high"]), abs=1e-5)
        assert found.over.new_place() == pytest.approx(
            (each["new_low"], each["new_high"]), abs=1e-5
        )
        assert (len(found.names), found.runs) == (each["places"], each["runs"])


def at_the_worst_place(outcomes: Any, each: dict[str, Any]) -> None:
    """The lowest mean accuracy of any place with the rule, minus that with the reference."""
    places = np.array(["+".join(key.held_out) for key in outcomes.keys])
    lowest = [
        min(100 * outcomes.values[recipe][each["metric"]][places == p].mean() for p in set(places))
        for recipe in (each["rule"], each["reference"])
    ]
    assert lowest == pytest.approx(list(each["by_place"].values()), abs=1e-4)
    assert lowest[0] - lowest[1] == pytest.approx(each["mean"], abs=1e-4)


def test_holm_over_the_registered_family_by_hand() -> None:
    named = builder("registered_table").named("taicam-sites").values()
    main = sorted((e for e in named if e["family"] == "main"), key=lambda each: each["p"])
    assert len(main) == 4
    largest = 0.0
    for place, each in enumerate(main):
        largest = max(largest, min(1.0, (4 - place) * each["p"]))
        assert each["holm"] == pytest.approx(largest)
        assert each["verdict"] == ("found" if largest < 0.05 and each["mean"] < 0 else "not found")


# Three hparams seeds × three trial seeds at each of four places, as in most cohorts.
CROSSED = [
    RunKey("data", "ERM", (place,), h, t) for place in "abcd" for h in range(3) for t in range(3)
]


def judged(side: str, keys: list[RunKey], values: list[float]) -> tuple[str, list[str]]:
    """The verdict on hand-made changes, and what is named as not bearing it out."""
    claim = builder("paper_says").PaperClaim("", "a", "b", "target_nll", side, None)
    found = builder("effects").of_values("target_nll", keys, np.array(values))
    verdict, against = builder("judged_claims").judged(claim, found)
    return verdict, found.named(against)


@pytest.mark.parametrize(
    ("side", "places", "verdict"),
    [
        ("below", [-1.0, -1.1, -0.9, -1.0], "found"),
        ("above", [-1.0, -1.1, -0.9, -1.0], "contradicted"),
        ("below", [-1.0, 1.2, -0.9, 1.0], "not found"),
        ("small", [0.1, -0.1, 0.2, 0.0], "found"),
        ("small", [0.1, -0.1, 2.0, 0.0], "not found"),
        ("small", [0.9, 1.0, 1.1, 1.0], "contradicted"),
    ],
)
def test_where_seeds_change_nothing_places_decide(
    side: str, places: list[float], verdict: str
) -> None:
    at = dict(zip("abcd", places, strict=True))
    for keys in ([RunKey("data", "ERM", (name,), 0, 0) for name in "abcd"], CROSSED):
        assert judged(side, keys, [at[key.held_out[0]] for key in keys]) == (verdict, [])


def minus_one(added: Callable[[int, int, int], float]) -> list[float]:
    """−1 in every run, and what its hparams seed, trial seed and place add; places all get −1."""
    return [-1 + added(k.hparams_seed, k.trial_seed, "abcd".index(k.held_out[0])) for k in CROSSED]


# Half widths by hand: t × √(G/(G−1) Σ (sum of residuals of a group)²) / 36 runs.
VETOES: dict[str, list[float]] = {
    # 4.303 × 0.346 by three splits; by block × domain 3.182 × 0.173.
    "splits": minus_one(lambda h, t, place: 0.6 * (t - 1)),
    # Seed 0 is one draw of 12 runs: 2.447 × 0.443 by seven draws; by block × domain 3.182 × 0.285.
    "draws": minus_one(lambda h, t, place: 1.14 if h == 0 else -0.57),
    # Splits cancel and the draw of seed 0 does too: 2.306 × 0.495 by nine blocks, 2.447 × 0.356.
    "blocks": minus_one(lambda h, t, place: 2.1 * (h < 2) * (-1) ** h * (1, -1, 0)[t]),
    # 2.306 × 0.346 by nine blocks, but 3.182 × 0.346 with the degrees of freedom of four domains.
    "blocks × domains": minus_one(lambda h, t, place: 1.2 * (0, 1, -1)[h]),
    # Every group's runs cancel; by single runs 1.96 × 0.54.
    "runs": minus_one(lambda h, t, place: 4 * (-1) ** place * (1, -1, 0)[t]),
}


@pytest.mark.parametrize("unit", VETOES)
def test_each_unit_can_take_back_what_places_say_and_is_named(unit: str) -> None:
    values = VETOES[unit]
    printed = unit.startswith("blocks")  # the interval that is printed includes zero then
    for side, verdict in (("below", "found in part"), ("above", "contradicted in part")):
        assert judged(side, CROSSED, values) == (
            ("not found", []) if printed else (verdict, [unit])
        )
    assert judged("below", CROSSED, [-1 + 0.1 * (value + 1) for value in values]) == ("found", [])


def test_a_small_change_is_small_by_every_unit() -> None:
    by_split = [0.1 * (key.trial_seed - 1) for key in CROSSED]  # 4.303 × 0.058 = 0.25
    assert judged("small", CROSSED, by_split) == ("found", [])
    assert judged("small", CROSSED, [0.3 + each for each in by_split]) == (
        "found in part",
        ["splits"],
    )
    assert judged("small", CROSSED, [0.7 + each for each in by_split]) == (
        "contradicted in part",
        ["splits"],
    )
    assert judged("small", CROSSED, [0.8 + each for each in by_split]) == ("contradicted", [])


def own_seeds(runs: dict[str, list[float]]) -> tuple[list[RunKey], list[float]]:
    """Runs that share nothing but their place, with the change of each."""
    made = [(place, value) for place, values in runs.items() for value in values]
    return [RunKey("data", "ERM", (p,), 1, i) for i, (p, _) in enumerate(made)], [
        v for _, v in made
    ]


def test_runs_with_seeds_of_their_own_are_judged_by_runs_and_places() -> None:
    spread = own_seeds({place: [-4.0, 2.0, -1.0] for place in "abcd"})
    assert judged("below", *spread) == ("found in part", ["runs"])  # 1.96 × 0.71
    # By run 2.2 × 0.42; by block × domain it would be 3.182 × 0.42.
    assert judged("below", *own_seeds({place: [-2.7, 0.7, -1.0] for place in "abcd"})) == (
        "found",
        [],
    )


def test_domains_also_count_by_their_runs() -> None:
    # Place means −1, −1, −1, −0.2 give −0.8 ± 0.64; 36 runs −0.33 ± 3.182 × 0.148.
    runs = {place: [-1.0, -1.0] for place in "abc"} | {"d": [-0.2] * 30}
    assert judged("below", *own_seeds(runs)) == ("found in part", ["domains by their runs"])


def test_class_subsets_of_a_domain_are_one_domain() -> None:
    keys = [RunKey(f"classes {i % 3}", "ERM", ("abcd"[i // 3],), 1, i) for i in range(12)]
    found = builder("effects").of_values("target_nll", keys, np.arange(12.0) ** 2)
    assert found.units["domain"] == pytest.approx(found.over.interval())


def test_a_cell_names_the_units_that_do_not_bear_it_out() -> None:
    claims = builder("judged_claims")
    found = builder("effects").of_values("target_nll", CROSSED, np.array(VETOES["splits"]))
    cell = claims.Cell("data", "evaluation", "found in part", found, ("draw", "trial"))
    assert str(cell) == "−1.000 [−1.551, −0.449], found in part (not over draws or splits)"
    assert str(replace(cell, verdict="found", against=())).startswith("**−1.000")


def test_a_temperature_changes_no_prediction() -> None:
    for name in kept():
        outcomes = builder("outcomes").read(name)
        plain = outcomes.values["source-acc"]["target_accuracy"]
        if name in builder("recipes").JOURNALS_ONLY:
            continue
        for suffix in ("ts", "ts-soften", "ts-max"):
            scaled = outcomes.values[f"source-acc+{suffix}"]["target_accuracy"]
            assert scaled == pytest.approx(plain, abs=1e-9)
        assert (outcomes.temperature("source-acc+ts-soften") >= 1).all()
        best = outcomes.values["source-acc+ts-oracle"]["target_nll"]
        for suffix in ("ts", "ts-soften", "ts-max"):
            assert (best <= outcomes.values[f"source-acc+{suffix}"]["target_nll"] + 1e-6).all()


def test_the_order_of_all_checkpoints_runs_against_the_target_on_camera_traps() -> None:
    table = read_csv(builder("tables").FOLDER / "paper-design" / "kendall.csv")
    rows = table[(table.dataset == "TaiCam") & (table.measure == "tau_nll")]
    highs = dict(zip(rows.algorithm, rows.high, strict=True))
    assert [name for name, high in highs.items() if high > 0] == ["IRM"]
    assert len(highs) == 5


def test_every_design_has_108_packed_inner_runs() -> None:
    for name in ("pacs-frozen", "officehome-frozen", "taicam-frozen"):
        with tarfile.open(DATA / f"{name}-lodo.tar.xz") as archive:
            runs = [member for member in archive.getnames() if member.endswith("/run.json")]
        assert len(runs) == 108


def test_blocks_that_were_trained_apart_join_to_the_cohort_that_they_are_of(tmp_path: Any) -> None:
    join, record = builder("join_blocks"), builder("outcomes").record_of("digits")
    unpack(DATA / "digits.tar.xz", tmp_path / "whole")
    whole = open_cohort(tmp_path / "whole")
    every = whole.study["algorithms"]
    blocks: list[Path] = []
    for seeds, algorithms in (([1, 2], every), ([3], every[:1]), ([3], every[1:])):
        blocks.append(tmp_path / f"block-{len(blocks)}")
        keys = [
            key for key in whole.runs if key.hparams_seed in seeds and key.algorithm in algorithms
        ]
        study = {**whole.study, "hparams_seeds": seeds, "algorithms": algorithms}
        write_cohort(
            blocks[-1],
            name=whole.name,
            roles=whole.roles,
            study=study,
            metrics=whole.metrics,
            keys=keys,
        )
        for key in keys:
            folder = whole.runs[key]
            shutil.copytree(folder, blocks[-1] / folder.relative_to(whole.path))
    join.join_journals(blocks, tmp_path / "joined")
    fingerprint = builder("kept_tables").fingerprint(tmp_path / "joined")
    assert fingerprint == record["journals"]
    assert open_cohort(tmp_path / "joined").study == whole.study
    joined = join.join_outcomes(of_seeds(record, [1, 2]), of_seeds(record, [3]), fingerprint)
    assert joined["runs"] == record["runs"]
    assert joined["values"] == record["values"]


def test_the_median_time_of_blocks_is_that_of_all_their_runs_where_it_is_known() -> None:
    join, timed = builder("join_blocks"), {"runs": 3, "seconds": [1, 2, 9], "median_seconds": 2}
    old = {"runs": 1, "median_seconds": 10, "wall_minutes": 4}  # single times were not kept

    def trained(*blocks: dict[str, Any]) -> dict[str, Any]:
        first, second = ({"runs": [], "values": {}, "trained": each} for each in blocks)
        return dict(join.join_outcomes(first, second, "")["trained"])

    later = {"runs": 2, "seconds": [8, 7], "median_seconds": 8, "wall_minutes": 5}
    joined = trained(timed, later)
    assert joined == {"runs": 5, "seconds": [1, 2, 9, 8, 7], "median_seconds": 7}
    joined = trained(old, later)
    assert joined == {"runs": 3, "wall_minutes": 9, "median_seconds": 9, "about": True}
    again = trained(joined, later)
    assert again == {"runs": 5, "wall_minutes": 14, "median_seconds": 9, "about": True}


def of_seeds(record: dict[str, Any], seeds: list[int]) -> dict[str, Any]:
    """The outcomes of some draws."""
    keep = [run["hparams_seed"] in seeds for run in record["runs"]]
    values = {
        recipe: {name: list(compress(column, keep)) for name, column in columns.items()}
        for recipe, columns in record["values"].items()
    }
    return {**record, "runs": list(compress(record["runs"], keep)), "values": values}


def test_accuracy_that_runs_lose_is_counted_by_hand() -> None:
    kept = builder("outcomes").read("taicam-sites")
    ours, theirs = (kept.values[name]["target_accuracy"] for name in ("ac-nc", "source-acc"))
    changes = [round(100 * (a - b), 4) for a, b in zip(ours, theirs, strict=True)]
    table = builder("accuracy_losses").table().replace("−", "-")
    (row,) = rows_of(table, "camera traps, 24 places", "`ac-nc`")
    assert row[2] == f"{sum(change <= -1 for change in changes)} of {len(changes)}"
    assert float(row[3]) == pytest.approx(np.percentile(changes, 5), abs=6e-3)
    assert float(row[4]) == pytest.approx(min(changes), abs=6e-3)
    places: dict[str, list[float]] = {}
    for key, change in zip(kept.keys, changes, strict=True):
        places.setdefault(key.held_out[0], []).append(change)
    lower = [name for name, found in places.items() if sum(found) < 0]
    assert row[5] == f"{len(lower)} of {len(places)}"
    assert builder("accuracy_losses").of_the_paper() == "76 of 540, 14.1%"


def test_the_ends_of_an_interval_show_on_which_side_of_zero_they_are() -> None:
    found = builder("effects").effect("officehome-erm", "ac-nc")
    ends = [found.end(value) for value in (-0.12, 0.0004, -0.00004, 0.0)]
    assert ends == ["−0.120", "+0.0004", "−0.00004", "0.000"]


def test_runs_of_five_algorithms_stand_beside_those_of_erm() -> None:
    for part in ("nll", "accuracy", "early", "typical"):
        table = builder("question_tables").choosing()[part]
        for data in ("OfficeHome", "PACS"):
            counts = [row[2] for row in rows_of(table, f"{data}, five algorithms")]
            assert [int(count.rpartition(" ")[2]) for count in counts] == [180], (part, data)
            assert rows_of(table, f"{data}, ERM")
