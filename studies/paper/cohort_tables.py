"""The tables of the paper on every further cohort that is packed: study/tables-<cohort>.md.

Run by ``make pages``, which also fills the list of these pages in study/tables.md and their places
in zensical.toml; ``tests/docs`` checks that the pages show what this computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from checkwise.study import MANY_PLACES, Cohort, Pool, clusters, usual_unit
from checkwise.study.folder import SUFFIX
from checkwise.study.tables import worst_domains
from checkwise.words import listed
from studies.page import DATA, fill
from studies.paper.beside import grid
from studies.paper.cohorts import COHORTS, Described
from studies.paper.packed import packed_cohorts
from studies.paper.paper_tables import PAGE as INDEX_PAGE
from studies.paper.paper_tables import algorithms, lacks, shares_seeds, tables
from studies.paper.recast import as_whole, on_dataset

INDEX = "further"
SITE = Path(__file__).parents[2] / "zensical.toml"
# In the order of every page; the 540 runs of the paper's design are on a page of their own.
FURTHER = (
    *("taicam-sites", "pacs-resnet50", "pacs-finetuned", "pacs-full"),
    *("officehome-small", "digits"),
)
PARTS_OF_ONE = ("officehome-small",)  # 13 sets of classes, which differ in nothing else
NAMES = {"digits": "digits"}  # of cohorts with several data sets
BESIDE = {"logits": "What needs logits"}  # pages of tables that other scripts fill
ROLES = {
    "evaluation": "Evaluation data: the recipes were fixed and [contrasts registered]"
    "(sites-protocol.md) before held-out results were opened. Only those are tests; the rest "
    "describes.",
    "development": "Development data: nothing here is a test of the recipes.",
}
ORIGIN = (
    "The same tables as for the [540 runs of the paper's design](tables.md), from the packed "
    "journals of `{name}`. What needs logits or weights is on the pages about "
    "[calibrating](calibrating.md), [averaging](averaging.md) and [other methods](methods.md)."
)


def described() -> dict[str, list[Described]]:
    """What is known of every further cohort whose archive is there."""
    known = {name: list(rows) for name, rows in groupby(COHORTS, lambda each: each.name)}
    return {name: known[name] for name in FURTHER if (DATA / f"{name}{SUFFIX}").exists()}


def title(name: str) -> str:
    """What a cohort's page is called."""
    return NAMES.get(name) or described()[name][0].data


def page_of(name: str) -> Path:
    """Where a cohort's tables are."""
    return INDEX_PAGE.with_name(f"tables-{name}.md")


@contextmanager
def pools(name: str) -> Iterator[Mapping[str, Pool]]:
    """The runs of a cohort by what tables call their data; data sets are never pooled."""
    with packed_cohorts((name,)) as cohorts:
        rows = described()[name]
        yield {row.data: Pool([_counted(cohorts[name], row)]) for row in rows}


def _counted(cohort: Cohort, row: Described) -> Cohort:
    if row.name in PARTS_OF_ONE:
        return as_whole(cohort, row.data)
    return on_dataset(cohort, row.dataset) if row.dataset else cohort


def text(name: str) -> str:
    """A whole page."""
    with pools(name) as by_data:
        several = len(by_data) > 1
        parts = [f"# The tables of the paper: {title(name)}", ORIGIN.format(name=name)]
        for row in described()[name]:
            pool = by_data[row.data]
            parts += [f"## {_capital(row.data)}"] * several
            parts += [about(row, pool), tables(pool, 3 if several else 2)]
    return "\n\n".join(parts) + "\n"


def about(row: Described, pool: Pool) -> str:
    """What was trained, how many runs, their role, the unit, and what is not shown."""
    return "\n\n".join([f"{_trained(row, pool)} {ROLES[row.role]}", _unit(row, pool), lacks(pool)])


def _trained(row: Described, pool: Pool) -> str:
    """One sentence on the runs."""
    run = pool.trajectory(pool.keys[0])
    diverged = sum(len(cohort.wrecked) for cohort in pool.cohorts)
    return (
        f"{_capital(row.network)}, trained with {listed(algorithms(pool))}: {len(pool)} runs of "
        f"{int(run.steps[-1]) + 1:,} updates with {len(run)} records, "
        f"{_places(pool)} held-out {_word(pool)}."
        + (f" {diverged} more diverged at every record and are left out." if diverged else "")
    )


def _unit(row: Described, pool: Pool) -> str:
    """What intervals count."""
    unit = usual_unit(pool.keys)
    over = (
        f"Intervals of changes are over the {unit.domains} held-out places."
        if _word(pool) == "places"
        else f"Intervals of changes are over {unit}, or what a row has of them; those in "
        "columns *over runs* are the paper's and too narrow for statements on other seeds or "
        "domains."
    )
    seeds = (
        "Runs that differ only in algorithm or held-out domain share seeds."
        if shares_seeds(pool)
        else "Every run has its own seeds, hence its own split and learning rate."
    )
    parts = [over, seeds]
    if not worst_domains(pool.outcomes("source-acc")).blocks:
        parts.append("The worst held-out domain (WHD) needs runs with the same seeds: not shown.")
    if row.name in PARTS_OF_ONE:
        parts.append(
            "The runs are on disjoint sets of classes and are shown together; a held-out domain "
            "counts once, whatever the classes. A run that is named is named for all of them; its "
            "seed (after `t`) finds it among the packed runs."
        )
    return " ".join(parts)


def _places(pool: Pool) -> int:
    return clusters(pool.keys, "domain").count


def _word(pool: Pool) -> str:
    """What tables call held-out domains."""
    return "places" if _places(pool) >= MANY_PLACES else "domains"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def index() -> str:
    """The list of these pages."""
    rows = [
        (f"[{title(name)}]({page_of(name).name})", rows[0].network, rows[0].role)
        for name, rows in described().items()
    ]
    return grid(("tables on", "trained", "role"), rows, 3)


def navigation(settings: str) -> str:
    """The site's settings with these pages, and what needs logits, behind the 540 runs."""
    place = "study/tables"
    lines = [line for line in settings.splitlines() if f'"{place}-' not in line]
    at = next(i for i, line in enumerate(lines) if f'"{place}.md"' in line)
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    titles = {**BESIDE, **{name: _capital(title(name)) for name in described()}}
    pages = [f'{indent}{{ "{words}" = "{place}-{name}.md" }},' for name, words in titles.items()]
    return "\n".join([*lines[: at + 1], *pages, *lines[at + 1 :]]) + "\n"


def main() -> None:
    for name in described():
        page_of(name).write_text(text(name), encoding="utf-8")
    fill(INDEX_PAGE, INDEX, index())
    SITE.write_text(navigation(SITE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
