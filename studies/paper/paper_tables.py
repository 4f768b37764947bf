"""Every table of the paper on the 540 runs of its design: study/tables.md, from packed journals.

Run by ``make pages``; ``tests/docs`` checks that the page shows what this computes. The tables of
other cohorts are made of the same functions by ``cohort_tables.py``; ``logits_page.py`` has what
needs logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from checkwise.errors import InputError
from checkwise.store import inner_path
from checkwise.study import Pool, clusters, usual_unit
from checkwise.study.folder import SUFFIX
from checkwise.study.tables import AVERAGED, PENALISED, Table, build, markdown
from checkwise.words import listed
from studies.page import DATA, DOCS, fill
from studies.paper.logit_tables import NAMES as FROM_LOGITS
from studies.paper.packed import packed_cohorts
from studies.paper.recast import as_development

PAGE = DOCS / "study" / "tables.md"
PART, NOT_HERE = "tables", "not-here"
COHORTS = ("pacs-frozen", "officehome-frozen", "taicam-frozen")
SEEN = ("officehome-frozen",)  # evaluation data of the first study, which shaped the recipes
# Inner runs of ERM and VREx, beside the runs that they belong to.
INNER = tuple(f"{name}-lodo" for name in COHORTS if (DATA / f"{name}-lodo{SUFFIX}").exists())
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
    """The runs of all three benchmarks, unpacked for a while."""
    with packed_cohorts((*COHORTS, *INNER)) as cohorts:
        yield Pool([as_development(cohorts[n]) if n in SEEN else cohorts[n] for n in COHORTS])


def tables(pool: Pool, level: int = 2) -> str:
    """Every table that the runs allow, under its title."""
    missing = left_out(pool)
    made = (_once(build(name, pool), pool) for name in NAMES if name not in missing)
    return "\n\n".join(f"{'#' * (level - 1)}{markdown(table).strip()}" for table in made)


def left_out(pool: Pool) -> dict[str, str]:
    """The tables that the runs do not allow, and what they would need."""
    return {name: needed for name, (allows, needed) in NEEDS.items() if not allows(pool)}


def lacks(pool: Pool) -> str:
    """The tables that are not here, by what they need; packed journals have no logits."""
    by_need: dict[str, list[str]] = {}
    for name, needed in {**left_out(pool), **dict.fromkeys(FROM_LOGITS, "saved logits")}.items():
        by_need.setdefault(needed, []).append(f"`{name}`")
    parts = [f"{listed(names)} ({needed})" for needed, names in by_need.items()]
    return f"Not here, with what the packed runs lack for them: {', '.join(parts)}."


def shares_seeds(pool: Pool) -> bool:
    """Whether runs differ in the held-out domain or the algorithm alone."""
    return clusters(pool.keys, "block").count < len(pool)


def algorithms(pool: Pool) -> list[str]:
    """What the runs were trained with."""
    return sorted({key.algorithm for key in pool.keys})


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


NEEDS: dict[str, tuple[Callable[[Pool], bool], str]] = {
    "by-algorithm": (lambda pool: len(algorithms(pool)) > 1, "several algorithms"),
    "without-penalties": (
        lambda pool: 0 < len(set(algorithms(pool)) & set(PENALISED)) < len(algorithms(pool)),
        "IRM or VREx beside others",
    ),
    "swad": (_has_averages, "averages of weights beside the journals"),
    "lodo": (_has_inner, "inner runs"),
    "lodo-changes": (_has_inner, "inner runs"),
    "pair": (lambda pool: "VREx" in algorithms(pool), "VREx"),
    "multiplicity": (_can_test, "three held-out domains or blocks of seeds"),
}


def _once(table: Table, pool: Pool) -> Table:
    """A table without its rows over all data sets or algorithms where there is one."""
    single = {
        "dataset": len({key.dataset for key in pool.keys}) == 1,
        "algorithm": len(algorithms(pool)) == 1,
    }

    def repeats(row: tuple[str, ...]) -> bool:
        over = [name for name, value in zip(table.labels, row, strict=True) if value == "all"]
        return bool(over) and all(single.get(name, False) for name in over)

    return replace(table, cells=tuple(cell for cell in table.cells if not repeats(cell.row)))


def main() -> None:
    with pooled() as pool:
        fill(PAGE, NOT_HERE, lacks(pool))
        fill(PAGE, PART, tables(pool))


if __name__ == "__main__":
    main()
