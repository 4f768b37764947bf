"""The tables of ``checkwise study report``, each as Markdown, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, nan
from pathlib import Path

from checkwise.cli import printing
from checkwise.cli.command import (
    OUTPUT,
    PATH,
    Shared,
    argument,
    command,
    field,
    names,
    option,
    takes,
)
from checkwise.cli.compare import check_metrics, reference_option, role_option
from checkwise.cli.importing import cohort_at
from checkwise.cli.options import (
    RuleSettings,
    data_option,
    load_plugins,
    open_option,
    out_option,
    pairs,
)
from checkwise.cli.places import check_file, check_folder
from checkwise.errors import InputError, require
from checkwise.records import RunKey
from checkwise.selection import DEFAULT_RULE, REFERENCE
from checkwise.store import write_text
from checkwise.study import Cohort, Pool, Rehearsal, with_shared
from checkwise.study.figures import FIGURES, write_figures
from checkwise.study.folder import is_cohort
from checkwise.study.report import RULES, write_report
from checkwise.study.tables import (
    ABOUT_THE_RULE,
    EQUIVALENCE,
    PAPER,
    TABLES,
    Table,
    build,
    build_all,
    check_name,
    latex,
    markdown,
    usual_names,
)
from checkwise.words import counted

KINDS = (".md", ".csv", ".tex")
OTHERS = "all"  # the folder of what is not for a paper
TOGETHER = "tables.md"


def write_tables(
    pool: Pool, out: Path, only: Sequence[str] | None, margins: Mapping[str, float]
) -> None:
    """The table for a paper in ``out``, the others in a folder there; and say what is missing."""
    results: Sequence[Table | tuple[str, str]]
    if only is None:
        results = list(build_all(pool, margins=margins))
    else:
        results = [build(name, pool, margins=margins) for name in only]
    tables = [result for result in results if isinstance(result, Table)]
    (out / OTHERS).mkdir(parents=True, exist_ok=True)
    for table in tables:
        texts = (markdown(table), printing.csv_text(table.records()), latex(table))
        for kind, text in zip(KINDS, texts, strict=True):
            write_text((out / _place(table.name)).with_suffix(kind), text)
    write_text(out / OTHERS / TOGETHER, "\n".join(map(markdown, tables)))
    fixed = [table.name for table in tables if table.name not in ABOUT_THE_RULE]
    if pool.contrast != f"{DEFAULT_RULE} − {REFERENCE}" and fixed:
        printing.say(
            f"About {DEFAULT_RULE} and others at their defaults, whatever the options say: "
            f"{', '.join(fixed)}."
        )
    are = "is" if len(tables) == 1 else "are"
    printing.say(
        f"{counted(len(tables), 'table')} of {counted(len(pool), 'run')} ({pool.name}) {are} in "
        f"{out}.",
        *(f"Without {r[0]}: {r[1]}" for r in results if not isinstance(r, Table)),
    )


def _place(name: str) -> Path:
    return Path(name) if name == PAPER else Path(OTHERS) / name


def read_margins(written: Sequence[str]) -> dict[str, float]:
    """``target_accuracy=0.5`` as a metric and a size."""
    margins = {}
    for name, size in pairs("--margin", written, "METRIC=SIZE").items():
        check_metrics([name.strip()])
        try:
            margins[name.strip()] = float(size)
        except ValueError:
            margins[name.strip()] = nan
        if not 0 < margins[name.strip()] < inf:
            raise InputError(
                "Expected --margin with a finite size above 0 (the largest difference that would "
                f"not matter), but got {size!r} for {name}: give one."
            )
    return margins


class Parts(Shared, under="Tables and figures"):
    """Which tables and figures, and what they need."""

    only: tuple[str, ...] | None = field(
        "--only NAMES", "Only these, comma separated. [default: all]", type=names
    )
    margin: tuple[str, ...] = field(
        "--margin METRIC=SIZE…",
        "The largest harmless change, as target_accuracy=0.5: adds a table of equivalence.",
    )
    run: str | None = field("--run NAME", "The run that figures of a single run show.")
    data: tuple[str, ...] = data_option.but(under="Tables and figures").field


@command(
    "report",
    examples=[
        "checkwise study report out/study -o page.html --open",
        "checkwise study report out/study --tables out/tables --figures out/figures",
    ],
)
@argument("paths", metavar="STUDY...", nargs=-1, required=True)
@option(
    "--rules NAMES",
    f"Rules, comma separated; the first leads. [default: {','.join(RULES)}]",
    type=names,
)
@reference_option
@role_option
@takes(RuleSettings, "settings")
@takes(Parts, "parts")
@out_option.but(metavar="PAGE.html", help="The page: one file that opens offline.")
@option(
    "--tables DIR",
    "A table for a paper, as .md, .csv and .tex, and all others in DIR/all.",
    type=PATH,
    under=OUTPUT,
)
@option("--figures DIR", "Figures, as .pdf and .png.", type=PATH, under=OUTPUT)
@open_option
def report_command(
    paths: tuple[Path, ...],
    rules: tuple[str, ...] | None,
    reference: str,
    role: str | None,
    settings: RuleSettings,
    parts: Parts,
    out: Path | None,
    tables: Path | None,
    figures: Path | None,
    show: bool,
) -> None:
    """Write a page about STUDY, or tables and figures of one or several.

    The page has the answer first, then what it rests on.
    """
    load_plugins(settings.plugin)
    if out is None and tables is None and figures is None:
        raise InputError(
            "Expected what to write: -o PAGE.html, --tables DIR or --figures DIR.", code="missing"
        )
    if out is None and show:
        raise InputError("Expected -o PAGE.html with --open: add it.", code="missing")
    if out is not None and len(paths) > 1:
        raise InputError(
            f"Expected one STUDY with -o, because a page is about one, but got {len(paths)}: write "
            "a page of each by itself."
        )
    check_file(out, paths[0], makes_folder=True)
    margins = read_margins(parts.margin)
    only_tables, only_figures = _only(parts.only, tables, figures, margins)
    if tables is not None:
        places = map(_place, only_tables or usual_names(margins))
        files = [str(place.with_suffix(kind)) for place in places for kind in KINDS]
        check_folder(tables, [*files, f"{OTHERS}/{TOGETHER}"])
    if figures is not None:
        drawn = only_figures or FIGURES
        check_folder(figures, [f"{name}{kind}" for name in drawn for kind in (".pdf", ".png")])
    require("scipy", *(["matplotlib"] if figures else []))  # before held-out results are opened
    roots = {}
    if parts.data:  # pages and tables need no torch, which sweeps do
        from checkwise.study.sweep import read_roots

        roots = read_roots(parts.data)
    studies = _opened(paths, role)
    asked = rules or _usual_rules(studies)
    if tables is not None or figures is not None:
        pool = _pool(studies, asked, reference, settings, page=out is not None)
        run = _run(pool, parts.run) if parts.run else None
        if tables is not None:
            rehearsal = Rehearsal.of_pool(pool)  # refuses before held-out results are opened
            for name in only_tables or ():
                build(name, rehearsal, margins=margins)
        if figures is not None:
            for name, reason in write_figures(
                pool, figures, only=only_figures, run=run, roots=roots
            ):
                made = f"{figures / name}.pdf, .png"
                printing.say(made if reason is None else f"Without {name}: {reason}")
        if tables is not None:
            write_tables(pool, tables, only_tables, margins)
    if out is not None:
        choosing = {**settings.weighting, **settings.params}
        write_report(studies[0], out, reference=reference, rules=asked, **choosing)
        printing.say(f"The page is {out.resolve()}")
        if show:
            printing.open_page(out)


def _only(
    asked: Sequence[str] | None,
    tables: Path | None,
    figures: Path | None,
    margins: Mapping[str, float],
) -> tuple[list[str] | None, list[str]]:
    """The tables and the figures that ``--only`` names; None and nothing stand for all."""
    if asked is None:
        return None, []
    known = {
        "--tables": [] if tables is None else [*TABLES, EQUIVALENCE],
        "--figures": [] if figures is None else [*FIGURES],
    }
    for name in asked:
        if not any(name in there for there in known.values()):
            every = ", ".join(dict.fromkeys([*known["--tables"], *known["--figures"]]))
            raise InputError(
                f"Expected --only with some of {every}, but got {name!r}.", code="unknown"
            )
    found = {option: [n for n in asked if n in there] for option, there in known.items()}
    for option_name, there in known.items():
        if there and not found[option_name]:
            raise InputError(
                f"Expected --only to name one for {option_name} too, but got {', '.join(asked)}: "
                f"add one, or leave out {option_name}."
            )
    for name in found["--tables"]:
        check_name(name, margins)
    return found["--tables"], found["--figures"]


def _opened(paths: Sequence[Path], role: str | None) -> list[Cohort]:
    try:
        places = [cohort_at(path) for path in paths]
        return [Cohort.open(place, role=role) for place in places]
    except InputError as error:
        if len(paths) > 1 or is_cohort(paths[0]) or not paths[0].exists():
            raise
        raise InputError(
            f"{error} A page of one run: checkwise select {paths[0]} --page FILE", code=error.code
        ) from error


def _usual_rules(studies: Sequence[Cohort]) -> Sequence[str]:
    """The rules of a report that names none: those for which imported runs have metrics."""
    first = next((study.usual_rule for study in studies if study.imported), DEFAULT_RULE)
    return RULES if first == RULES[0] else (first, "ac-mean")


def _pool(
    studies: Sequence[Cohort],
    rules: Sequence[str],
    reference: str,
    settings: RuleSettings,
    *,
    page: bool,
) -> Pool:
    """The runs, and the rules that tables and figures are about; refuses what cannot choose."""
    if settings.weights != "equal":
        raise InputError(
            "Expected no --weights, because in tables and figures every domain counts the same: "
            "leave it out, or use `checkwise study compare`.",
            code="unsupported",
        )
    others = [name for name in rules[1:] if name != reference]
    rows = with_shared((rules[0], *others, reference), settings.params)
    if page:
        studies[0].check_one_role()
        rows[0].check_is_rule()
    rows = tuple(replace(row, title="") for row in rows)  # named by what was set
    for study in studies:
        for row in rows:
            study.outcomes(row, held_out=False)
    return Pool(studies, rule=rows[0], others=rows[1:-1], reference=rows[-1])


def _run(pool: Pool, name: str) -> RunKey:
    by_name = {str(key): key for key in pool.keys}
    if name not in by_name:
        shown = ", ".join(list(by_name)[:3])
        raise InputError(f"Expected a run such as {shown}, but got {name!r}.", code="unknown")
    return by_name[name]
