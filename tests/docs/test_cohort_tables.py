"""The tables of the studies are what their packed journals give, number by number.

All cohorts together take about 20 seconds of one core.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest

from checkwise.records import RunKey
from checkwise.selection import select
from checkwise.study import Pool
from checkwise.study.tables import TABLES as BUILT
from tests.docs.test_pages import builder

TABLES = builder("tables")


def read(source: Path | io.StringIO) -> pandas.DataFrame:
    return pandas.read_csv(source, keep_default_na=False, na_values=[""])


def differ(path: Path, text: str) -> bool:
    """Whether a file is not what was computed now, to nine digits."""
    kept, now = read(path), read(io.StringIO(text))
    if list(kept) != list(now) or len(kept) != len(now):
        return True
    return any(
        not np.allclose(kept[name], now[name], rtol=1e-9, atol=1e-12, equal_nan=True)
        if pandas.api.types.is_numeric_dtype(kept[name])
        else not kept[name].equals(now[name])
        for name in kept
    )


def check(folder: Path, pool: Pool) -> None:
    made = TABLES.tables(pool)
    assert {path.stem for path in folder.iterdir()} == set(made)
    assert [n for n, text in made.items() if differ(folder / f"{n}.csv", text)] == []


def linked(text: str) -> set[str]:
    return set(re.findall(r"\]\(\.\./\.\./studies/tables/([\w-]+)\)", text))


@pytest.mark.parametrize("name", list(TABLES.described()))
def test_the_tables_of_a_cohort_are_rebuilt(name: str) -> None:
    with TABLES.pools(name) as by_data:
        for row in TABLES.described()[name]:
            pool = by_data[row.data]
            check(TABLES.folder_of(row), pool)
            kept = builder("outcomes").read(name)
            kept = kept.of_dataset(row.dataset) if row.dataset else kept
            assert len(kept.keys) == len(pool)
            values = kept.values["ac-nc"]["target_nll"] - kept.values["source-acc"]["target_nll"]
            changes = read(TABLES.folder_of(row) / "main-changes.csv")
            assert np.isclose(changes[changes.measure == "target_nll"].value, values.mean()).any()


def test_the_tables_of_the_paper_are_rebuilt() -> None:
    with TABLES.pooled() as pool:
        assert len(pool.keys) == 540
        roles = {key.dataset: role for key, role in zip(pool.keys, pool.roles, strict=True)}
        assert [data for data, role in roles.items() if role == "evaluation"] == ["TaiCam"]
        check(TABLES.FOLDER / TABLES.DESIGN, pool)


def test_every_cohort_with_tables_is_in_the_index_and_no_other() -> None:
    expected = {TABLES.folder_of(row).name for rows in TABLES.described().values() for row in rows}
    assert linked(builder("page").part(TABLES.PAGE, TABLES.PART)) == {TABLES.DESIGN, *expected}


def test_every_folder_of_tables_is_on_the_page_of_data() -> None:
    assert linked(TABLES.PAGE.read_text()) == {path.name for path in TABLES.FOLDER.iterdir()}


def test_every_table_is_made_or_needs_logits() -> None:
    assert sorted({*TABLES.NAMES, *TABLES.FROM_LOGITS}) == sorted(set(BUILT) - {"paper"})


def test_parts_of_a_data_set_keep_their_random_draws() -> None:
    with builder("packed").packed_cohorts(("officehome-small",)) as cohorts:
        parts = cohorts["officehome-small"]
        whole = builder("recast").as_whole(parts, "OfficeHome, 5 classes")
        seeds = {key.trial_seed: key for key in whole.usable}
        assert len(seeds) == len(parts.usable) == 52
        assert len({key.held_out for key in whole.usable}) == 4
        for key, run in parts.usable.items():
            again = whole.usable[seeds[key.trial_seed]]
            assert select(again, "ac-random").step == select(run, "ac-random").step


def test_parts_whose_runs_would_have_one_key_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = builder("recast")
    runs = {RunKey(part, "ERM", ("Art",), 0, 0): Path(part) for part in ("first", "second")}
    monkeypatch.setattr(module, "open_cohort", lambda path: SimpleNamespace(runs=runs))
    with pytest.raises(SystemExit, match="the 2 runs of parts would have 1 keys"):
        module.as_whole(SimpleNamespace(path=Path("parts")), "whole")
