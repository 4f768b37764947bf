"""Every table of the paper on the 540 runs of its design: study/tables.md, from packed journals.

Run by ``make pages``; ``tests/docs`` checks that the page shows what this computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from packed import DATA, packed_cohorts

from checkwise.store.pack import SUFFIX
from checkwise.study.pool import Pool
from checkwise.tables import build
from checkwise.tables.typeset import markdown
from page import fill

PAGE = Path(__file__).parents[1] / "study" / "tables.md"
PART = "tables"
COHORTS = ("pacs-frozen", "officehome-frozen", "taicam-frozen")
# Inner runs of ERM and VREx, beside the runs that they belong to.
INNER = tuple(f"{name}-lodo" for name in COHORTS if (DATA / f"{name}-lodo{SUFFIX}").exists())
# Those that the journals alone give, in the order of the paper.
NAMES = (
    *("main", "main-changes", "by-algorithm", "losses"),
    *("component-source", "component-dataset", "component-changes", "controls", "pure"),
    *("objectives", "distances", "objective-changes"),
    *("tolerance", "tolerance-dataset", "tolerance-changes"),
    *("composition", "disagreement", "plateau"),
    *("rank-correlation", "kendall", "ordering-transfer", "ranking-value"),
    *("lodo", "lodo-changes"),
    *("regret", "pair", "inference", "multiplicity"),
)


@contextmanager
def pooled() -> Iterator[Pool]:
    """The runs of all three benchmarks, unpacked for a while."""
    with packed_cohorts((*COHORTS, *INNER)) as cohorts:
        yield Pool([cohorts[name] for name in COHORTS])


def tables(pool: Pool) -> str:
    """Every table under its title."""
    return "\n\n".join(f"#{markdown(build(name, pool)).strip()}" for name in NAMES)


def main() -> None:
    with pooled() as pool:
        fill(PAGE, PART, tables(pool))


if __name__ == "__main__":
    main()
