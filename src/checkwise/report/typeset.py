"""Tables of a study as Markdown and LaTeX (booktabs), and the numbers behind them as CSV."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf, isnan

from checkwise.study.tables import Cell, Table

COUNTS = frozenset(
    (
        *("gain", "equal", "lose", "lose_1pp", "runs", "feasible_total", "singletons", "multi"),
        *("differs", "nondominated_one", "nondominated_many", "pairs", "pairs_opposed"),
        *("disagree", "same_checkpoint", "choices_changed", "checkpoints", "valid", "step"),
        *("sign_changes", "nll_above_100", "cells_improved", "cells"),
    )
)
TITLES = {
    "gap_pp": "Gap (pp)",
    "eligible": "Candidates",
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
_DECIMALS = {"accuracy": 2, "worst_class_accuracy": 2, "eligible": 2, "whd": 2, "whd_cells": 2}
_UNSIGNED = ("p", "p_holm", "p_max_t", "p_equivalent", "p_noninferior", "detectable")
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
    for (labels, role), found in grouped.items():
        sizes = sorted({cell.n for cell in found.values() if cell.unit == "runs"})
        n = "–".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1]))) if sizes else ""
        cells = [shown(found[m], signed=table.signed) if m in found else "" for m in measures]
        named = [title(text) if text.startswith("target_") else text for text in labels]
        rows.append((*named, *cells, n, role))
    header = (*table.labels, *(title(measure) for measure in measures), "runs", "role")
    return Wide(header, tuple(rows), len(table.labels))


def shown(cell: Cell, *, signed: bool = False) -> str:
    """A number with its interval."""
    text = number(cell, cell.value, signed=signed)
    if isnan(cell.low):
        return text
    return f"{text} [{number(cell, cell.low)}, {number(cell, cell.high)}]"


def number(cell: Cell, value: float, *, signed: bool = False) -> str:
    """A value with the decimals of its measure and a real minus sign; never a negative zero."""
    if isnan(value):
        return "–"
    if isinf(value):
        return "∞" if value > 0 else "−∞"
    if _counts(cell.measure):
        return f"{value:.0f}"
    text = f"{abs(value):.{_places(cell.measure)}f}"
    if float(text) == 0:
        return text
    plus = "+" if signed and cell.measure not in _UNSIGNED else ""
    return ("−" if value < 0 else plus) + text


def _counts(measure: str) -> bool:
    return measure in COUNTS or measure.startswith("improved_")


def _places(measure: str) -> int:
    if measure.endswith("_share"):
        return 1
    if measure.startswith(("range_", "p_")) or measure in ("p", "gap_pp") or "nll" in measure:
        return 4
    return _DECIMALS.get(measure, _DECIMALS.get(measure.partition("_")[2], 3))


def title(measure: str) -> str:
    """A measure as a column head."""
    if measure in TITLES:
        return TITLES[measure]
    for end, words in (("_median", " median"), ("_trimmed", " 5%-trimmed")):
        if measure.endswith(end):
            return title(measure.removesuffix(end)) + words
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
    if measure.startswith("risk_"):
        return f"Error at {measure.removeprefix('risk_')}% coverage (%)"
    return measure.replace("_", " ").capitalize()


def caption(table: Table) -> str:
    """What goes below a table: scales, seeds, the note."""
    scales = {cell.measure: cell.scale for cell in table.cells if not _counts(cell.measure)}
    hundred = [title(measure) for measure, scale in scales.items() if scale == 100]
    parts = [f"Multiplied by 100: {', '.join(hundred)}."] if hundred else []
    drawn = sorted({(c.seed, c.resamples) for c in table.cells if c.seed is not None})
    parts += [f"Draws: {resamples:,} with seed {seed}." for seed, resamples in drawn if resamples]
    levels = {cell.level for cell in table.cells if not isnan(cell.low)}
    parts += [f"Intervals: {100 * level:.0f}%." for level in sorted(levels)]
    for unit in dict.fromkeys(cell.unit for cell in table.cells if cell.unit != "runs"):
        parts.append(f"Over {unit} (up to {_most(table, unit)}): {_of(table, unit)}.")
    return " ".join([*parts, table.note]).strip()


def _most(table: Table, unit: str) -> int:
    return max(cell.n for cell in table.cells if cell.unit == unit)


def _of(table: Table, unit: str) -> str:
    named = dict.fromkeys(title(cell.measure) for cell in table.cells if cell.unit == unit)
    return ", ".join(named)


def markdown(table: Table) -> str:
    """A Markdown section."""
    found = wide(table)
    lines = [
        f"# {table.title}",
        "",
        _line([_escaped(text) for text in found.header]),
        "|"
        + "|".join(":--" if i < found.labels else "--:" for i in range(len(found.header)))
        + "|",
        *(_line([_escaped(text) for text in row]) for row in found.rows),
        "",
        caption(table),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def latex(table: Table) -> str:
    """A booktabs table; needs ``\\usepackage{booktabs}``."""
    found = wide(table)
    columns = "l" * found.labels + "r" * (len(found.header) - found.labels - 1) + "l"
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{tex(table.title)}. {tex(caption(table))}}}",
        rf"\label{{tab:{table.name}}}",
        r"\small",
        rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
        r"\toprule",
        " & ".join(tex(text) for text in found.header) + r" \\",
        r"\midrule",
        *_body(found),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _body(found: Wide) -> list[str]:
    """Rows, with a rule where the first of several labels changes."""
    lines: list[str] = []
    before = ""
    for row in found.rows:
        if lines and found.labels > 1 and row[0] != before:
            lines.append(r"\midrule")
        before = row[0]
        lines.append(" & ".join(tex(text) for text in row) + r" \\")
    return lines


def tex(text: str) -> str:
    """Text that LaTeX prints as it is.

    >>> tex("Real_World & δ = 0.5")
    'Real\\\\_World \\\\& $\\\\delta$ = 0.5'
    """
    return "".join(_LATEX.get(letter, letter) for letter in text)
