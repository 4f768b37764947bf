"""Numbers of a table and the heads of their columns, as people read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isnan

from checkwise.metrics import METRICS
from checkwise.study.tables.table import Cell, Table
from checkwise.words import listed, number, printable

COUNTS = frozenset(
    (
        *("gain", "equal", "lose", "lose_1pp", "runs", "feasible_total", "singletons", "multi"),
        *("differs", "nondominated_one", "nondominated_many", "pairs", "pairs_opposed"),
        *("disagree", "same_checkpoint", "choices_changed", "checkpoints", "valid", "step"),
        *("sign_changes", "nll_above_100", "cells_improved", "cells"),
    )
)
# Behind a measure of changes, which by itself has the interval that leads:
OVER_RUNS = "_over_runs"  # the mean over runs with the percentile interval, as the paper has it
BY_BLOCK = "_by_block"  # over blocks of seeds
BY_DOMAIN = "_by_domain"  # over held-out domains, each counting once
NEW_PLACE = "_new_place"  # and where it is expected at one new place
BESIDE = {
    OVER_RUNS: "over runs",
    BY_BLOCK: "by block",
    BY_DOMAIN: "by held-out domain",
    NEW_PLACE: "at a new place",
}
TITLES = {
    "gap_pp": "Gap (pp)",
    "eligible": "Eligible",
    "whd": "WHD",
    "whd_cells": "WHD (cells resampled)",
    "step": "Mean step",
    "step_0_share": "At step 0 (%)",
    "lose_1pp": "Lose ≥ 1 point",
    "lose_1pp_share": "Lose ≥ 1 point (%)",
    "percentile_5": "5th percentile",
    "feasible_total": "Feasible checkpoints",
    "differs": "Differ from source-acc",
    "differs_share": "Differ, of multi (%)",
    "nondominated_one": "One nondominated",
    "nondominated_many": "Several nondominated",
    "pairs_opposed": "Opposed pairs",
    "rho": "Spearman ρ",
    "tau": "Kendall τ",
    "rho_given_step": "ρ given the step",
    "rho_by_step": "ρ of earlier first",
    "omega": "Mean ω",
    "kept_share": "Order kept (%)",
    "certain_share": "Certain (%)",
    "detectable": "Detectable change",
    "change_90": "Change [90% interval]",
    "p": "p",
    "p_equivalent": "p, equivalent",
    "p_noninferior": "p, non-inferior",
    "p_holm": "p, Holm",
    "p_max_t": "p, max-t",
    "own_change": "Change in this run",
    "change_without": "Mean without it",
    "moved_errors": "Moved (standard errors)",
    "nll_above_100": "NLL > 100",
    "risk_area": "Area under risk–coverage",
}
_NAMES = {
    "accuracy": "acc.",
    "nll": "NLL",
    "ece": "ECE",
    "cwece": "CwECE",
    "brier": "Brier",
    "hard_ece": "hard ECE",
    "hard_cwece": "hard CwECE",
    "worst_class_accuracy": "WC",
}
_DECIMALS = {"eligible": 2, "whd": 2, "whd_cells": 2}
_UNSIGNED = ("p", "p_holm", "p_max_t", "p_equivalent", "p_noninferior", "detectable", "eligible")


def shown_cell(cell: Cell, *, signed: bool = False) -> str:
    text = _number(cell.measure, cell.value, signed=signed)
    if isnan(cell.low):
        return text
    return f"{text} [{_number(cell.measure, cell.low)}, {_number(cell.measure, cell.high)}]"


def _number(measure: str, value: float, *, signed: bool = False) -> str:
    if is_count(measure):
        return number(value, 0)
    return number(value, _places(measure), signed=signed and measure not in _UNSIGNED)


def is_count(measure: str) -> bool:
    is_step = measure.startswith("step_") and not measure.endswith("_share")
    return measure in COUNTS or is_step or measure.startswith("improved_")


def _places(measure: str) -> int:
    measure, _ = base_and_ending(measure)
    if measure.endswith("_share"):
        return 1
    if measure.startswith("tau_"):
        return 3
    if measure.startswith(("range_", "p_")) or measure in ("p", "gap_pp") or "nll" in measure:
        return 4  # one more than in sentences, as the paper prints them
    known = METRICS.get(measure) or METRICS.get(measure.partition("_")[2])
    if known is not None:
        return known.decimals
    return _DECIMALS.get(measure, _DECIMALS.get(measure.partition("_")[2], 3))


def base_and_ending(measure: str) -> tuple[str, str]:
    """A measure without what says how its interval counts, and that.

    Example:
        >>> base_and_ending("target_nll_over_runs"), base_and_ending("target_nll")
        (('target_nll', '_over_runs'), ('target_nll', ''))
    """
    end = next((end for end in BESIDE if measure.endswith(end)), "")
    return measure.removesuffix(end), end


def column_title(measure: str) -> str:
    if measure in TITLES:
        return TITLES[measure]
    for end, words in (
        ("_median", " median"),
        ("_trimmed", " 5%-trimmed"),
        *((end, f" {words}") for end, words in BESIDE.items()),
    ):
        if measure.endswith(end):
            return column_title(measure.removesuffix(end)) + words
    for start, words in (
        ("range_source_", "Source range of "),
        ("range_target_", "Target range of "),
        ("source_", "Source "),
        ("target_", "Target "),
        ("regret_", "Regret in "),
        ("tau_", "τ_b of "),
        ("improved_", "Cells improved in "),
    ):
        if measure.startswith(start):
            name = measure.removeprefix(start)
            return words + _NAMES.get(name, name)
    if measure.startswith("step_"):
        return f"Mean step, {measure.removeprefix('step_').replace('_', '-')}"
    if measure.startswith("risk_"):
        return f"Error at {measure.removeprefix('risk_')}% coverage (%)"
    return measure.replace("_", " ").capitalize()


Row = tuple[str, ...]
Counted = dict[str, list[Row]]  # what intervals count → the rows where they do

ELSEWHERE = "a new place, "
FEW_NAMES = 3  # rows that are still named one by one where most rows are meant


def interval_sentences(cells: Iterable[tuple[Row, Cell]]) -> list[str]:
    """A sentence for all columns whose intervals count the same, but for those over runs."""
    by_measure: dict[str, Counted] = {}
    for row, cell in cells:
        if cell.counted_by:
            rows = by_measure.setdefault(cell.measure, {}).setdefault(cell.counted_by, [])
            rows.append(row)
    groups: list[tuple[str, Counted, list[str]]] = []
    for measure, counted in by_measure.items():
        _, end = base_and_ending(measure)
        alike = next((group for group in groups if group[:2] == (end, counted)), None)
        if alike is None:
            groups.append((end, counted, [measure]))
        else:
            alike[2].append(measure)
    told = [group for group in groups if group[0] != OVER_RUNS]
    return [
        f"Intervals{_words_of(end, measures, groups)} are {_units(end, counted)}."
        for end, counted, measures in told
    ]


def _words_of(
    end: str, measures: Sequence[str], groups: Sequence[tuple[str, Counted, list[str]]]
) -> str:
    """Which columns are meant; nothing where these are all."""
    if len(groups) == 1:
        return ""
    if end and [group[0] for group in groups].count(end) == 1:
        return f" {BESIDE[end]}"
    return f" of {listed([column_title(measure) for measure in measures])}"


def _units(end: str, counted: Counted) -> str:
    """``over 9 blocks × 4 domains (evaluation) and 8 places (development)``."""
    every = [row for rows in counted.values() for row in rows]
    names = {
        over: _names(rows, [row for row in every if row not in rows])
        for over, rows in counted.items()
    }
    most = max(counted, key=lambda over: len(counted[over]))
    if len(names[most]) > FEW_NAMES:
        names = {**{over: names[over] for over in names if over != most}, most: ["the other rows"]}
    said = [
        over.removeprefix(ELSEWHERE) + (f" ({'; '.join(where)})" if where else "")
        for over, where in names.items()
    ]
    return f"{'' if end == NEW_PLACE else 'over '}{listed(said)}"


def _names(rows: Sequence[Row], others: Sequence[Row]) -> list[str]:
    """What tells some rows of a table from the others: as few labels as do."""
    if not others:
        return []
    positions = range(len(rows[0]))
    for size in range(1, len(positions) + 1):
        found = []
        for chosen in combinations(positions, size):
            mine, theirs = (
                dict.fromkeys(tuple(row[i] for i in chosen) for row in side)
                for side in (rows, others)
            )
            if not mine.keys() & theirs.keys():
                found.append([", ".join(filter(None, names)) for names in mine])
        if found:
            return min(found, key=len)
    return []


_MATHS = {
    "Θ": "Theta",
    "δ": "delta",
    "Δ": "Delta",
    "η": "eta",
    "ψ": "psi",
    "ρ": "rho",
    "τ": "tau",
    "ω": "omega",
    "≥": "ge",
    "×": "times",
    "∞": "infty",
}
_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{letter: f"${letter}$" for letter in "<>|"},
    **{letter: f"$\\{name}$" for letter, name in _MATHS.items()},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "−": "$-$",
    "–": "--",
    "…": r"\dots{}",
}


@dataclass(frozen=True)
class Wide:
    """A table as it is printed: one row per label and role, one column per measure."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int


def wide(table: Table) -> Wide:
    """Measures side by side; ``n`` as a range where it differs between them."""
    measures = list(dict.fromkeys(cell.measure for cell in table.cells))
    grouped: dict[tuple[tuple[str, ...], str], dict[str, Cell]] = {}
    for cell in table.cells:
        grouped.setdefault((cell.row, cell.role), {})[cell.measure] = cell
    rows = []
    for (_, role), by_measure in grouped.items():
        sizes = sorted({cell.n for cell in by_measure.values() if cell.unit == "runs"})
        n = "–".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1]))) if sizes else ""
        cells = [
            shown_cell(by_measure[m], signed=table.signed) if m in by_measure else ""
            for m in measures
        ]
        named = _named(next(iter(by_measure.values())))
        rows.append((*named[:-1], *cells, n, role))
    header = (*table.labels, *(column_title(measure) for measure in measures), "runs", "role")
    return Wide(header, tuple(rows), len(table.labels))


def caption(table: Table) -> str:
    """What goes below a table: scales, seeds, what intervals count, the note."""
    scales: dict[str, set[int]] = {}
    for cell in table.cells:
        if not is_count(cell.measure):
            scales.setdefault(base_and_ending(cell.measure)[0], set()).add(cell.scale)
    hundred = [column_title(measure) for measure, factors in scales.items() if factors == {100}]
    mixed = [column_title(measure) for measure, factors in scales.items() if len(factors) > 1]
    parts = [f"Multiplied by 100: {', '.join(hundred)}."] if hundred else []
    parts += [f"{name}: multiplied by 100 for all metrics but NLL." for name in mixed]
    parts += _draws(table)
    levels = {cell.level for cell in table.cells if not isnan(cell.low)}
    parts += [f"Intervals: {100 * level:.0f}%." for level in sorted(levels)]
    parts += _intervals(table) if levels else ()
    others: dict[str, list[Cell]] = {}  # that do not say over how many
    for cell in table.cells:
        if cell.unit != "runs" and not cell.over:
            others.setdefault(cell.unit, []).append(cell)
    for unit, counting in others.items():
        most = max(cell.n for cell in counting)
        titles = dict.fromkeys(column_title(cell.measure) for cell in counting)
        parts.append(f"Over {unit} (up to {most}): {', '.join(titles)}.")
    return " ".join([*parts, table.note]).strip()


def _draws(table: Table) -> list[str]:
    """How often something was drawn at random, by seed."""
    by_seed: dict[int, set[int]] = {}
    for cell in table.cells:
        if cell.seed is not None:
            by_seed.setdefault(cell.seed, set()).add(cell.resamples)
    return [
        f"Random draws: {listed([f'{size:,}' for size in sorted(sizes)])} with seed {seed}."
        for seed, sizes in sorted(by_seed.items())
    ]


def _intervals(table: Table) -> list[str]:
    """What intervals count, and where there are groups enough for none."""
    if "clusters" in table.labels:
        return ["They are over the clusters that the row names."]
    said = interval_sentences((_named(cell), cell) for cell in table.cells)
    over_runs = {(c.row, c.role, c.measure) for c in table.cells if c.measure.endswith(OVER_RUNS)}
    if any(
        isnan(cell.low) and (cell.row, cell.role, cell.measure + OVER_RUNS) in over_runs
        for cell in table.cells
    ):
        said.append("None but that over runs where blocks and domains are fewer than three.")
    return said


def _named(cell: Cell) -> tuple[str, ...]:
    """The names of a cell's row, as they are shown; its role last."""
    labels = [column_title(text) if text.startswith("target_") else text for text in cell.row]
    return (*labels, cell.role)


def markdown(table: Table) -> str:
    printed = wide(table)
    numbers = len(printed.header) - printed.labels
    lines = [
        f"# {_escaped(table.title)}",
        "",
        _line(printed.header),
        f"|{'|'.join([':--'] * printed.labels + ['--:'] * numbers)}|",
        *map(_line, printed.rows),
        "",
        _escaped(caption(table)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


_MARKDOWN = {
    "\\": "\\\\",
    "|": "\\|",
    "<": "&lt;",
    "*": "\\*",
    "`": "\\`",
    "](": "]\\(",  # a link or a picture
    "://": "&#58;//",  # an address, which some renderers link by itself
}
_SPECIAL = re.compile("|".join(re.escape(text) for text in _MARKDOWN))


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is, in a cell or a line.

    Example:
        >>> print(_escaped("[now](https://a) | <b> `x`"))
        [now]\\(https&#58;//a) \\| &lt;b> \\`x\\`
    """
    return _SPECIAL.sub(lambda match: _MARKDOWN[match[0]], printable(text))


def latex(table: Table) -> str:
    """A booktabs table; needs ``\\usepackage{booktabs}``."""
    printed = wide(table)
    columns = "l" * printed.labels + "r" * (len(printed.header) - printed.labels - 1) + "l"
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{tex(table.title)}. {tex(caption(table))}}}",
        rf"\label{{tab:{table.name}}}",
        r"\small",
        rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
        r"\toprule",
        _row(printed.header),
        r"\midrule",
        *_body(printed),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _body(printed: Wide) -> list[str]:
    """Rows, with a rule where the first of several labels changes."""
    lines: list[str] = []
    before = ""
    for row in printed.rows:
        if lines and printed.labels > 1 and row[0] != before:
            lines.append(r"\midrule")
        before = row[0]
        lines.append(_row(row))
    return lines


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(tex, cells)) + r" \\"


def tex(text: str) -> str:
    """Text that LaTeX prints as it is.

    Example:
        >>> tex("Real_World & δ = 0.5")
        'Real\\\\_World \\\\& $\\\\delta$ = 0.5'
    """
    return "".join(_LATEX.get(letter, letter) for letter in printable(text))
