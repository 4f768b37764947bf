"""The tables of the first study are what the packed journals give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.stats

from checkwise.study import sentences
from checkwise.study.pool import BOTH_ROLES
from checkwise.study.tables import Table
from checkwise.study.tables.table import Cell
from tests.docs.test_pages import builder


@pytest.fixture(scope="module")
def results() -> Iterator[Any]:
    with builder("packed").packed_cohorts() as cohorts:
        yield builder("result_tables").Results(cohorts)


def test_tables_from_logits_belong_to_the_packed_journals(results: Any) -> None:
    module = builder("kept_tables")
    kept = json.loads(module.file_of(module.FIRST_STUDY).read_text())["journals"]
    for name in module.SETS[module.FIRST_STUDY]:
        assert kept[name] == module.fingerprint(results.cohorts[name].path)


@pytest.mark.parametrize("role", ["development", "evaluation"])
def test_tables_from_logits_agree_with_the_journals(results: Any, role: str) -> None:
    read, main = builder("kept_tables").read, results.table("main")
    (data,) = {
        key.dataset
        for key, each in zip(results.main.keys, results.main.roles, strict=True)
        if each == role
    }
    for rule in ("source-acc", "ac-nc"):
        for measure in ("target_accuracy", "target_nll", "target_ece", "target_cwece"):
            expected = main.value(data, rule, measure=measure)
            found = read("temperature").value(rule, measure=measure, role=role)
            assert found == pytest.approx(expected, abs=1e-6)
        error = read("risk-coverage").value(data, rule, measure="risk_100")
        accuracy = main.value(data, rule, measure="target_accuracy")
        assert error == pytest.approx(100 - accuracy, abs=1e-6)
    as_recorded = ("B = 15, h = 0.1", "ac-nc")
    assert read("binning").value(*as_recorded, measure="choices_changed", role=role) == 0


def test_every_packed_cohort_is_small_and_used() -> None:
    packed = builder("packed")
    files = {file.name.removesuffix(".tar.xz"): file for file in packed.DATA.glob("*.tar.xz")}
    kept = {file.name.partition(".")[0] for file in builder("outcomes").FOLDER.iterdir()}
    inner = builder("tables").INNER
    assert sorted(files) == sorted({*packed.NAMES, *kept, *inner})
    assert max(file.stat().st_size for file in files.values()) < 5_000_000


def test_by_domain_the_registered_contrast_is_what_was_found_independently(results: Any) -> None:
    module = builder("contrast")
    nll = module.change(results.main, "evaluation")["target_nll"]
    domain = nll.row.units["domain"]
    assert (nll.mean, domain.low, domain.high) == pytest.approx((-0.075, -0.168, 0.019), abs=6e-4)
    assert domain.groups == 4
    keys = [key for key in results.main.keys if key.dataset == "OfficeHome"]
    held = np.array([key.held_out for key in keys])[:, 0]
    keep = np.array([role == "evaluation" for role in results.main.roles])
    values = results.main.differences("ac-nc", "source-acc", ["target_nll"], keep).values[:, 0]
    means = [values[held == name].mean() for name in sorted(set(held))]
    expected = scipy.stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert (domain.low, domain.high) == pytest.approx((expected.low, expected.high))


def test_page_and_command_line_claim_no_gain_on_officehome(results: Any) -> None:
    rows = results.cohorts["officehome-frozen"].contrasts()
    assert sentences.headline(rows) == "ac-nc: no clear difference in NLL or accuracy"
    assert "over 9 blocks × 4 domains, an interval that includes zero" in sentences.answer(rows)


def test_published_numbers_stand_below_ours_as_they_were_printed() -> None:
    beside = builder("beside")

    class Published:
        def text(self, key: Any, *, signed: bool) -> str:
            wanted = ("main", "PACS", "", "ac-nc", "", "target_nll")
            return "0.7728" if key == wanted and not signed else ""

        def runs(self, key: Any) -> int:
            return 180

    table = Table(
        "main",
        "",
        ("dataset", "rule"),
        (
            Cell(("PACS", "ac-nc"), "target_nll", 1.5, 3, "development"),
            Cell(("all", "ac-nc"), "target_nll", 1.5, 3, "development"),
        ),
    )
    assert beside.beside(table, ["target_nll"], paper=Published()).splitlines() == [
        "| data | rule | Target NLL | runs |",
        "|:--|:--|--:|--:|",
        "| PACS | ac-nc | 1.5000 | 3 |",
        "| *paper* | ac-nc | *0.7728* | *180* |",
    ]


def test_changes_over_runs_stand_beside_those_by_held_out_domain() -> None:
    beside = builder("beside")

    def cell(measure: str, role: str, end: float, over: str, seed: int | None = None) -> Cell:
        return Cell((), measure, 0.0, 180, role, low=-end, high=end, over=over, seed=seed)

    few = "evaluation"
    cells = (
        cell("target_nll", few, 3, "9 blocks × 4 domains"),
        cell("target_nll_over_runs", few, 1, "", 7),
        cell("target_nll_by_domain", few, 2, "4 domains"),
        cell("target_nll", BOTH_ROLES, 2, "8 places"),
        cell("target_nll_over_runs", BOTH_ROLES, 1, "", 7),
    )
    table = Table("main-changes", "", (), cells, signed=True)
    measures = beside.runs_and_domains(["target_nll"])

    class Published:
        def text(self, key: Any, *, signed: bool) -> str:
            return "−0.02 [−0.05, 0.01]" if key[-1] == "target_nll" and key[1] == "all" else ""

        def runs(self, key: Any) -> int:
            return 540

    assert beside.beside(table, measures, paper=Published()).splitlines() == [
        "| data | Target NLL over runs | Target NLL by held-out domain | runs |",
        "|:--|--:|--:|--:|",
        "| OfficeHome | 0.0000 [−1.0000, 1.0000] | 0.0000 [−2.0000, 2.0000] | 180 |",
        "| both | 0.0000 [−1.0000, 1.0000] | 0.0000 [−2.0000, 2.0000] | 180 |",
        "| *paper, three data sets* | *−0.02 [−0.05, 0.01]* |  | *540* |",
        "",
        "Intervals by held-out domain are over 4 domains (OfficeHome) and 8 places (both).",
    ]
