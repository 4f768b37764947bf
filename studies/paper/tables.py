"""Every table of the paper on every packed cohort, as CSV in ``studies/tables``, and their index.

    python -m studies.paper.tables

``tests/docs`` checks that the files are what the packed journals give. Tables that need logits are
those of ``logits_tables.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from checkwise.errors import InputError
from checkwise.store import inner_path
from checkwise.study import Cohort, Pool, clusters, usual_unit
from checkwise.study.folder import SUFFIX
from checkwise.study.tables import AVERAGED, PENALISED, Table, build
from checkwise.words import listed
from studies.page import DATA, DOCS, fill
from studies.paper.beside import grid
from studies.paper.cohorts import COHORTS as DESCRIBED
from studies.paper.cohorts import Described
from studies.paper.kept_tables import NAMES as FROM_LOGITS
from studies.paper.packed import packed_cohorts
from studies.paper.recast import as_development, as_whole, on_dataset

FOLDER = Path(__file__).parents[1] / "tables"
PAGE, PART = DOCS / "study" / "data.md", "tables"
DESIGN = "paper-design"
COHORTS = ("pacs-frozen", "officehome-frozen", "taicam-frozen")
SEEN = ("officehome-frozen",)  # evaluation data of the first study, which shaped the recipes
# Inner runs of ERM and VREx, beside the runs that they belong to.
INNER = tuple(f"{name}-lodo" for name in COHORTS if (DATA / f"{name}-lodo{SUFFIX}").exists())
FURTHER = (
    *("taicam-sites", "pacs-resnet50", "pacs-finetuned", "pacs-full"),
    *("officehome-small", "digits"),
)
PARTS_OF_ONE = ("officehome-small",)  # 13 sets of classes, which differ in nothing else
# Those that journals can give, in the order of the paper; then what it does not print.
NAMES = (
    *("main", "main-changes", "by-algorithm", "losses"),
    *("component-source", "component-dataset", "component-changes", "controls", "pure"),
    *("objectives", "distances", "objective-changes"),
    *("tolerance", "tolerance-dataset", "tolerance-changes"),
    *("composition", "disagreement", "plateau"),
    *("rank-correlation", "kendall", "ordering-transfer", "ranking-value"),
    *("swad", "lodo", "lodo-changes"),
    *("regret", "pair", "inference", "multiplicity"),
    *("sensitivity", "without-penalties", "influence", "learning-rate", "length"),
)


@contextmanager
def pooled() -> Iterator[Pool]:
    """The 540 runs of the paper's design, unpacked for a while."""
    with packed_cohorts((*COHORTS, *INNER)) as cohorts:
        yield Pool([as_development(cohorts[n]) if n in SEEN else cohorts[n] for n in COHORTS])


def described() -> dict[str, list[Described]]:
    """What is known of every further cohort whose archive is there."""
    known = {name: list(rows) for name, rows in groupby(DESCRIBED, lambda each: each.name)}
    return {name: known[name] for name in FURTHER if (DATA / f"{name}{SUFFIX}").exists()}


@contextmanager
def pools(name: str) -> Iterator[dict[str, Pool]]:
    """The runs of a cohort by what tables call their data; data sets are never pooled."""
    with packed_cohorts((name,)) as cohorts:
        yield {row.data: Pool([_counted(cohorts[name], row)]) for row in described()[name]}


def _counted(cohort: Cohort, row: Described) -> Cohort:
    if row.name in PARTS_OF_ONE:
        return as_whole(cohort, row.data)
    return on_dataset(cohort, row.dataset) if row.dataset else cohort


def tables(pool: Pool) -> dict[str, str]:
    """Every table that the runs allow, by name, as CSV."""
    missing = left_out(pool)
    made = {name: _once(build(name, pool), pool) for name in NAMES if name not in missing}
    return {
        name: table.frame().to_csv(index=False, float_format="%.10g")
        for name, table in made.items()
    }


def left_out(pool: Pool) -> dict[str, str]:
    """The tables that the runs do not allow, and what they would need."""
    return {name: needed for name, (allows, needed) in NEEDS.items() if not allows(pool)}


def folder_of(row: Described) -> Path:
    """Where the tables of a cohort, or of one of its data sets, are."""
    return FOLDER / (f"{row.name}-{row.dataset}" if row.dataset else row.name)


def index_row(data: str, network: str, role: str, pool: Pool, folder: Path) -> tuple[str, ...]:
    """A cohort in the index: what was trained, how much, and which tables it does not allow."""
    lacks = [f"`{name}`" for name in left_out(pool) if name not in FROM_LOGITS]
    link = f"[{folder.name}](../../studies/tables/{folder.name})"
    runs = f"{len(pool)} ({listed(sorted({key.algorithm for key in pool.keys}))})"
    places = str(clusters(pool.keys, "domain").count)
    return link, data, network, role, runs, places, listed(lacks) if lacks else "–"


def _can_test(pool: Pool) -> bool:
    """Whether there is a unit to test over."""
    return usual_unit(pool.keys).decides


def _has_inner(pool: Pool) -> bool:
    return all(inner_path(cohort.path).exists() for cohort in pool.cohorts)


def _has_averages(pool: Pool) -> bool:
    try:
        return bool(pool.outcomes(AVERAGED[0]))
    except InputError:
        return False


def _several(pool: Pool) -> bool:
    return len({key.algorithm for key in pool.keys}) > 1


def _penalised(pool: Pool) -> bool:
    names = {key.algorithm for key in pool.keys}
    return 0 < len(names & set(PENALISED)) < len(names)


NEEDS: dict[str, tuple[Callable[[Pool], bool], str]] = {
    "by-algorithm": (_several, "several algorithms"),
    "without-penalties": (_penalised, "IRM or VREx beside others"),
    "swad": (_has_averages, "averages of weights beside the journals"),
    "lodo": (_has_inner, "inner runs"),
    "lodo-changes": (_has_inner, "inner runs"),
    "pair": (lambda pool: "VREx" in {key.algorithm for key in pool.keys}, "VREx"),
    "multiplicity": (_can_test, "three held-out domains or blocks of seeds"),
    **dict.fromkeys(FROM_LOGITS, (lambda pool: False, "saved logits")),
}


def _once(table: Table, pool: Pool) -> Table:
    """A table without its rows over all data sets or algorithms where there is one."""
    single = {
        "dataset": len({key.dataset for key in pool.keys}) == 1,
        "algorithm": not _several(pool),
    }

    def repeats(row: tuple[str, ...]) -> bool:
        over = [name for name, value in zip(table.labels, row, strict=True) if value == "all"]
        return bool(over) and all(single.get(name, False) for name in over)

    return replace(table, cells=tuple(cell for cell in table.cells if not repeats(cell.row)))


def every() -> Iterator[tuple[Path, tuple[str, ...], Pool]]:
    """Each folder of tables, its row in the index, and its runs."""
    with pooled() as pool:
        folder = FOLDER / DESIGN
        head = "head on features of EfficientNet-Lite0"
        role = "development; camera traps: evaluation"
        data = "PACS, OfficeHome, camera traps: the paper's design"
        yield folder, index_row(data, head, role, pool, folder), pool
    for name, rows in described().items():
        with pools(name) as by_data:
            for row in rows:
                folder, pool = folder_of(row), by_data[row.data]
                yield folder, index_row(row.data, row.network, row.role, pool, folder), pool


def main() -> None:
    rows = []
    for folder, row, pool in every():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, text in tables(pool).items():
            (folder / f"{name}.csv").write_text(text, encoding="utf-8")
        rows.append(row)
    head = ("tables", "data", "what learns", "role", "runs", "held-out domains", "lacks")
    fill(PAGE, PART, grid(head, rows, len(head)))


if __name__ == "__main__":
    main()
