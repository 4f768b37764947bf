"""The study's pages, one per question, show what the kept outcomes and packed journals give."""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import compress
from typing import Any

import numpy as np
import pytest
import scipy.stats

from checkwise.records import RunKey, Trajectory
from checkwise.selection import Columns, select
from checkwise.store.cohort import open_cohort, write_cohort
from checkwise.store.unpack import unpack
from checkwise.study import Cohort
from checkwise.study.methods import method
from tests.docs.test_pages import ROOT, builder

STUDY = ROOT / "docs" / "study"
PAGES = {
    **builder("question_tables").PAGES,
    "results": builder("results").parts,
    "sites-protocol": builder("results").protocol,
    "claims": builder("paper_claims").parts,
    "methods": builder("method_rows").parts,
}


@pytest.mark.parametrize("name", PAGES)
def test_every_part_of_a_page_is_rebuilt(name: str) -> None:
    page = STUDY / f"{name}.md"
    rebuilt = PAGES[name]()
    assert sorted(re.findall(r"<!-- ([a-z-]+) -->", page.read_text())) == sorted(rebuilt)
    for part, content in rebuilt.items():
        assert builder("page").part(page, part) == content, part


def test_the_tables_of_the_paper_are_rebuilt() -> None:
    module = builder("paper_tables")
    with module.pooled() as pool:
        assert len(pool.keys) == 540
        roles = {key.dataset: role for key, role in zip(pool.keys, pool.roles, strict=True)}
        assert [data for data, role in roles.items() if role == "evaluation"] == ["TaiCam"]
        assert builder("page").part(module.PAGE, module.PART) == module.tables(pool)
        same = [wald_is_ac_ece(pool.trajectory(key)) for key in pool.keys]
    assert "chooses the same checkpoint in all 540 runs" in (STUDY / "methods.md").read_text()
    assert all(same)


def wald_is_ac_ece(run: Trajectory) -> bool:
    """Whether Wald's rule, half a point below the best accuracy, chooses as ac-ece does."""
    threshold = 100 * Columns.of(run).best("accuracy") - Fraction(1, 2)
    return select(run, "wald", threshold_pp=threshold).step == select(run, "ac-ece").step


def kept() -> list[str]:
    return sorted(file.name.partition(".")[0] for file in builder("outcomes").FOLDER.iterdir())


@pytest.mark.parametrize("name", kept())
def test_outcomes_belong_to_the_packed_journals(name: str, tmp_path: Any) -> None:
    outcomes = builder("outcomes").read(name)
    unpack(STUDY / "data" / f"{name}.tar.xz", tmp_path / name)
    cohort = Cohort.open(tmp_path / name)
    assert builder("logit_tables").fingerprint(cohort.path) == outcomes.journals
    assert cohort.role == outcomes.role
    assert tuple(sorted(cohort.usable)) == outcomes.keys
    for rule in ("source-acc", "ac-nc", "ac-early"):
        found = {one.key: one for one in cohort.outcomes(method(rule), held_out=True)}
        for metric in ("target_nll", "target_accuracy"):
            expected = [found[key].row[metric] for key in outcomes.keys]
            assert outcomes.values[rule][metric] == pytest.approx(np.array(expected), abs=1e-6)


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


@pytest.mark.parametrize("cohort", ["taicam-sites", "taicam-frozen"])
def test_what_was_registered_is_what_the_kept_outcomes_give(cohort: str) -> None:
    table = builder("registered_table")
    one = table.read(cohort)
    assert one["registered"]["state"] == "before"
    assert one["registered"]["at"] < one["registered"]["opened"]
    assert one["same_code"]
    outcomes = builder("outcomes").read(cohort)
    for name, each in table.named(cohort).items():
        if each["at"] != "mean" or name == "T ≥ 1":  # of some runs only
            continue
        found = builder("effects").effect(outcomes, each["rule"], each["reference"], each["metric"])
        assert found.mean == pytest.approx(each["mean"], abs=1e-5), name
        assert found.over.interval() == pytest.approx((each["low"], each["high"]), abs=1e-5)
        assert found.over.new_place() == pytest.approx(
            (each["new_low"], each["new_high"]), abs=1e-5
        )
        assert len(found.names) == each["places"]


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
    claims = builder("paper_claims")
    claim = claims.PaperClaim("", "a", "b", "target_nll", side, None)
    found = builder("effects").of_values("target_nll", keys, np.array(values))
    verdict, against = claims.judged(claim, found)
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
    assert judged("below", CROSSED, values) == ("places only", [unit])
    assert judged("above", CROSSED, values) == ("places only", [unit])
    assert judged("below", CROSSED, [-1 + 0.1 * (value + 1) for value in values]) == ("found", [])


def test_a_small_change_is_small_by_every_unit() -> None:
    by_split = [0.1 * (key.trial_seed - 1) for key in CROSSED]  # 4.303 × 0.058 = 0.25
    assert judged("small", CROSSED, by_split) == ("found", [])
    assert judged("small", CROSSED, [0.3 + each for each in by_split]) == (
        "places only",
        ["splits"],
    )
    assert judged("small", CROSSED, [0.7 + each for each in by_split]) == (
        "places only",
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
    assert judged("below", *spread) == ("places only", ["runs"])  # 1.96 × 0.71
    # By run 2.2 × 0.42; by block × domain it would be 3.182 × 0.42.
    assert judged("below", *own_seeds({place: [-2.7, 0.7, -1.0] for place in "abcd"})) == (
        "found",
        [],
    )


def test_domains_also_count_by_their_runs() -> None:
    # Place means −1, −1, −1, −0.2 give −0.8 ± 0.64; 36 runs −0.33 ± 3.182 × 0.148.
    runs = {place: [-1.0, -1.0] for place in "abc"} | {"d": [-0.2] * 30}
    assert judged("below", *own_seeds(runs)) == ("places only", ["domains by their runs"])


def test_class_subsets_of_a_domain_are_one_domain() -> None:
    keys = [RunKey(f"classes {i % 3}", "ERM", ("abcd"[i // 3],), 1, i) for i in range(12)]
    found = builder("effects").of_values("target_nll", keys, np.arange(12.0) ** 2)
    assert found.units["domain"] == pytest.approx(found.over.interval())


def test_a_cell_names_the_units_that_do_not_bear_it_out() -> None:
    claims = builder("paper_claims")
    found = builder("effects").of_values("target_nll", CROSSED, np.array(VETOES["splits"]))
    cell = claims.Cell("data", "evaluation", "places only", found, ("draw", "trial"))
    assert str(cell) == "−1.000 [−1.000, −1.000], places only (not over draws or splits)"
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
        for suffix in ("ts", "ts-soften", "ts-max"):  # ts-mix is more than a temperature
            assert (best <= outcomes.values[f"source-acc+{suffix}"]["target_nll"] + 1e-6).all()


def test_the_page_of_harms_says_what_the_tables_show_of_the_order_of_all_checkpoints() -> None:
    row = re.compile(r"^\| TaiCam \| (\w+) \| [^|]+ \| [^|]+, ([+−]?[\d.]+)\] \|", re.M)
    title = "Kendall's τ_b of source and target over all checkpoints"
    section = (STUDY / "tables.md").read_text().partition(title)[2].partition("\n## ")[0]
    highs = {name: float(high.replace("−", "-")) for name, high in row.findall(section)}
    assert [name for name, high in highs.items() if high > 0] == ["IRM"]
    assert len(highs) == 5


def test_the_packed_inner_runs_are_as_many_as_the_page_says() -> None:
    for name in ("pacs-frozen", "officehome-frozen", "taicam-frozen"):
        with tarfile.open(STUDY / "data" / f"{name}-lodo.tar.xz") as archive:
            runs = [member for member in archive.getnames() if member.endswith("/run.json")]
        assert len(runs) == 108
        assert "108 inner runs" in (STUDY / "results.md").read_text()


def test_blocks_that_were_trained_apart_join_to_the_cohort_that_they_are_of(tmp_path: Any) -> None:
    join, record = builder("join_blocks"), builder("outcomes").record_of("digits")
    unpack(STUDY / "data" / "digits.tar.xz", tmp_path / "whole")
    whole = open_cohort(tmp_path / "whole")
    blocks = []
    for seeds in ([1, 2], [3]):
        blocks.append(tmp_path / f"block-{seeds[0]}")
        keys = [key for key in whole.runs if key.hparams_seed in seeds]
        study = {**whole.study, "hparams_seeds": seeds}
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
    fingerprint = builder("logit_tables").fingerprint(tmp_path / "joined")
    assert fingerprint == record["journals"]
    assert open_cohort(tmp_path / "joined").study == whole.study
    joined = join.join_outcomes(of_seeds(record, [1, 2]), of_seeds(record, [3]), fingerprint)
    assert joined["runs"] == record["runs"]
    assert joined["values"] == record["values"]


def of_seeds(record: dict[str, Any], seeds: list[int]) -> dict[str, Any]:
    """The outcomes of some draws."""
    keep = [run["hparams_seed"] in seeds for run in record["runs"]]
    values = {
        recipe: {name: list(compress(column, keep)) for name, column in columns.items()}
        for recipe, columns in record["values"].items()
    }
    return {**record, "runs": list(compress(record["runs"], keep)), "values": values}
