"""Tables of a study as Markdown and LaTeX (booktabs), and the numbers behind them as CSV."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isnan

from checkwise.tables import Cell, Table
from checkwise.tables.interval_words import interval_sentences
from checkwise.tables.titles_and_decimals import (
    OVER_RUNS,
    base_and_ending,
    is_count,
    shown,
    title,
)
from checkwise.text import listed, printable

_LATEX = {
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "−": "$-$",
    "≥": r"$\ge$",
    "Θ": r"$\Theta$",
    "δ": r"$\delta$",
    "Δ": r"$\Delta$",
    "η": r"$\eta$",
    "ψ": r"$\psi$",
    "ρ": r"$\rho$",
    "τ": r"$\tau$",
    "ω": r"$\omega$",
    "×": r"$\times$",
    "∞": r"$\infty$",
    "–": "--",
    "…": r"\dots{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
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
            shown(by_measure[m], signed=table.signed) if m in by_measure else "" for m in measures
        ]
        named = _named(next(iter(by_measure.values())))
        rows.append((*named[:-1], *cells, n, role))
    header = (*table.labels, *(title(measure) for measure in measures), "runs", "role")
    return Wide(header, tuple(rows), len(table.labels))


def caption(table: Table) -> str:
    """What goes below a table: scales, seeds, what intervals count, the note."""
    scales: dict[str, set[int]] = {}
    for cell in table.cells:
        if not is_count(cell.measure):
            scales.setdefault(base_and_ending(cell.measure)[0], set()).add(cell.scale)
    hundred = [title(measure) for measure, factors in scales.items() if factors == {100}]
    mixed = [title(measure) for measure, factors in scales.items() if len(factors) > 1]
    parts = [f"Multiplied by 100: {', '.join(hundred)}."] if hundred else []
    parts += [f"{name}: multiplied by 100 for all metrics but NLL." for name in mixed]
    parts += _draws(table)
    levels = {cell.level for cell in table.cells if not isnan(cell.low)}
    parts += [f"Intervals: {100 * level:.0f}%." for level in sorted(levels)]
    parts += _intervals(table) if levels else ()
    for unit in dict.fromkeys(cell.unit for cell in _counting_others(table)):
        parts.append(f"Over {unit} (up to {_most(table, unit)}): {_of(table, unit)}.")
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
    labels = [title(text) if text.startswith("target_") else text for text in cell.row]
    return (*labels, cell.role)


def _counting_others(table: Table) -> list[Cell]:
    """Cells over something else than runs that do not say over how many."""
    return [cell for cell in table.cells if cell.unit != "runs" and not cell.over]


def _most(table: Table, unit: str) -> int:
    return max(cell.n for cell in _counting_others(table) if cell.unit == unit)


def _of(table: Table, unit: str) -> str:
    counting = _counting_others(table)
    return ", ".join(dict.fromkeys(title(cell.measure) for cell in counting if cell.unit == unit))


def markdown(table: Table) -> str:
    """A Markdown section."""
    printed = wide(table)
    lines = [
        f"# {_escaped(table.title)}",
        "",
        _line([_escaped(text) for text in printed.header]),
        "|"
        + "|".join(":--" if i < printed.labels else "--:" for i in range(len(printed.header)))
        + "|",
        *(_line([_escaped(text) for text in row]) for row in printed.rows),
        "",
        _escaped(caption(table)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


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
        " & ".join(tex(text) for text in printed.header) + r" \\",
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
        lines.append(" & ".join(tex(text) for text in row) + r" \\")
    return lines


def tex(text: str) -> str:
    """Text that LaTeX prints as it is.

    Example:
        >>> tex("Real_World & δ = 0.5")
        'Real\\\\_World \\\\& $\\\\delta$ = 0.5'
    """
    return "".join(_LATEX.get(letter, letter) for letter in printable(text))
