"""The study's pages, one per question, show what the kept outcomes and packed journals give."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.stats

from checkwise.records import RunKey, Trajectory
from checkwise.selection import Columns, select
from checkwise.store.unpack import unpack
from checkwise.study import Cohort
from checkwise.study.methods import method
from tests.docs.test_pages import ROOT, builder

STUDY = ROOT / "docs" / "study"
PAGES = {
    **builder("question_tables").PAGES,
    "results": builder("results").parts,
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
def test_a_verdict_is_where_the_interval_over_places_lies(
    side: str, places: list[float], verdict: str
) -> None:
    claims = builder("paper_claims")
    keys = [RunKey("data", "ERM", (name,), 0, 0) for name in "abcd"]
    claim = claims.PaperClaim("", "a", "b", "target_nll", side, None)
    found = builder("effects").of_values("target_nll", keys, np.array(places))
    assert claims.judged(claim, found) == verdict


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
