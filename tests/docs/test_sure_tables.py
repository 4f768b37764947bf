"""What is said of how sure a choice is, and its tables, are those of the kept rows."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pandas
import pytest
from scipy.stats import t

from tests.docs.test_pages import builder

DOCS = Path(__file__).parents[2] / "docs"
COHORTS = ("officehome-erm", "pacs-erm")


def test_the_tables_of_rules_are_those_of_a_literal_calculation() -> None:
    """Mean changes, t intervals over blocks × domains, and the least domain of every block.

    Every pair of a block and a domain is one run here, so the two-way variance is that of the means
    of blocks, and that of domains, less that of the runs; at least the larger one-way variance.
    """

    def shown(value: float, decimals: int) -> str:
        text = f"{value:+.{decimals}f}"
        return text if float(text) else text[1:]

    module = builder("sure_rules")
    data = pandas.read_csv(module.DATA)
    assert data.groupby(["cohort", "method"]).size().eq(36).all()
    assert set(module.METHODS) <= set(data.method)
    lines = module.table(module.read(), "ac-nc").splitlines()
    for cohort, method in (("officehome-erm", "ac-nc, paired"), ("pacs-erm", "source-acc")):
        here = data[data.cohort == cohort].set_index(["method", "run"]).sort_index()
        one, other = here.loc[method], here.loc["ac-nc"]
        assert one.index.tolist() == other.index.tolist()
        (row,) = (line for line in lines if line.startswith(f"| {cohort} | {method} |"))
        cells = [cell.strip().replace("−", "-") for cell in row.strip("|").split("|")]
        assert cells[2] == f"{(one.step != other.step).sum()} of 36"
        for cell, measure, scale, decimals in ((3, "accuracy", 100, 2), (5, "nll", 1, 3)):
            change = scale * (one[measure] - other[measure])
            by_domain = change.groupby(one.domain).mean().var(ddof=1) / 4
            by_block = change.groupby(one.block).mean().var(ddof=1) / 9
            both = by_domain + by_block - change.var(ddof=1) / 36
            half = t.ppf(0.975, 3) * max(both, by_domain, by_block) ** 0.5
            ends = (change.mean(), change.mean() - half, change.mean() + half)
            mean, low, high = (shown(end, decimals) for end in ends)
            assert cells[cell] == f"{mean} [{low}, {high}]"
        assert cells[4] == str((one.accuracy - other.accuracy <= -0.01 + 1e-9).sum())
        worst = one.groupby("block").accuracy.min() - other.groupby("block").accuracy.min()
        assert cells[8].startswith(f"{shown(100 * worst.mean(), 2)} [")


def test_the_sentences_about_rules_are_borne_out() -> None:
    module = builder("sure_rules")
    rows = module.read()

    def cells(cohort: str, name: str, reference: str) -> list[str]:
        of = {
            one: [row for row in rows if (row["cohort"], row["method"]) == (cohort, one)]
            for one in (name, reference)
        }
        return list(module.line(of[name], of[reference])[1])

    every = [
        cells(data, name, "source-acc")
        for data in COHORTS
        for name in module.METHODS
        if name != "source-acc"
    ]
    for one in every:
        low, high = one[3].replace("−", "-").split("[")[1].strip("]").split(", ")
        assert float(low) <= 0 <= float(high)
    gone = {row["method"] for row in rows} - set(module.METHODS)
    assert len(gone) == 11
    for data, name in ((data, name) for data in COHORTS for name in ("ac-nc, paired", *gone)):
        low, high = (
            cells(data, name, "ac-nc")[3].replace("−", "-").split("[")[1].strip("]").split(", ")
        )
        assert float(low) <= 0 <= float(high)
    differs = [cells(data, "ac-nc, certified", "source-acc")[0] for data in COHORTS]
    assert differs == ["0 of 36"] * 2


def test_the_sizes_on_the_page_are_those_of_the_file() -> None:
    data = pandas.read_csv(builder("sure_sizes").DATA)
    text = " ".join((DOCS / "sure.md").read_text().split())
    here = data[data.cohort == "officehome-erm"]
    assert len(here) == 36
    outcomes, half, logits = (
        here[f"{kind}_bytes"].mean() / 1e6 for kind in ("outcomes", "half", "logits")
    )
    assert (
        f"take {outcomes:.1f} MB a run, logits in half precision {outcomes + half:.1f} MB" in text
    )
    assert f"in single precision {logits:.1f} MB" in text
    assert data.largest_gap.max() < 0.0001
    assert data.same_choice.sum() >= len(data) - 1


def test_every_method_saw_every_subset() -> None:
    module = builder("sure_harm")
    with module.DATA.open(newline="") as file:
        rows = list(csv.DictReader(file))
    runs = {(row["cohort"], row["run"]) for row in rows}
    of_page = [row for row in rows if row["method"] in module.METHODS]
    assert len(of_page) == len(runs) * len(module.SIZES) * module.DRAWS * len(module.METHODS)
    usual = [row for row in rows if row["method"] == "source-acc"]
    assert all(float(row["accuracy"]) == 0 and row["differs"] == "0" for row in usual)


@pytest.mark.parametrize("cohort", COHORTS)
def test_rows_are_of_the_cohort_that_they_name(cohort: str) -> None:
    """Its kept outcomes are the same numbers, to the six decimals of the file."""
    kept = builder("outcomes").read(cohort)
    runs = [str(key) for key in kept.keys]
    data = pandas.read_csv(builder("sure_rules").DATA)
    here = data[data.cohort == cohort].set_index(["method", "run"])
    for method in ("source-acc", "ac-nc"):
        nll = here.loc[method].loc[runs, "nll"].to_numpy()
        assert nll == pytest.approx(kept.values[method]["target_nll"], abs=1e-6)
    small = pandas.read_csv(builder("sure_harm").DATA)
    assert set(small[small.cohort == cohort].run) == set(runs)


@pytest.mark.parametrize("script", ["sure_harm", "sure_rules"])
def test_rows_of_other_cohorts_stay(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of another cohort on the same data set, and of a method that is gone."""
    module = builder(script)
    blank = dict.fromkeys(module.COLUMNS, "0")

    def row(cohort: str, step: str) -> dict[str, str]:
        return {
            **blank,
            "cohort": cohort,
            "dataset": "PACS",
            "step": step,
            "method": "ac-nc, paired",
        }

    monkeypatch.setattr(module, "DATA", tmp_path / "rows.csv")
    monkeypatch.setattr(module, "outcomes", lambda path: [row(path.name, path.parent.name)])
    gone = {**row("first", "0"), "method": "ac-nc-stable"}
    module.DATA.write_text(",".join(gone) + "\n" + ",".join(gone.values()) + "\n")
    for folder in ("1/first", "2/second", "3/first"):
        module.compute([Path(folder)])
    assert [(one["cohort"], one["step"]) for one in module.read()] == [
        ("first", "0"),
        ("second", "2"),
        ("first", "3"),
    ]


def test_no_table_has_a_negative_zero() -> None:
    tables = builder("tables").FOLDER / "sure"
    for file in tables.glob("*.csv"):
        assert re.search(r"[-−]0\.?0*(?![.\d])", file.read_text()) is None, file.name
