"""The accuracy bound on the screen: never without its conditions, and only where it says much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from checkwise.cli import printing
from checkwise.errors import NoGuaranteeError
from checkwise.selection import (
    ACCURACY,
    Guarantee,
    Selection,
    because,
    called,
    cautions,
    guarded_because,
    in_examples,
    in_words,
    near_miss,
    not_compared,
    not_usual,
    rule_in_words,
    runner_up,
    scores,
    validated_on,
)
from checkwise.words import counted, listed, shortened

USEFUL_PP: Final = 5.0


def said(selection: Selection, alpha: float) -> str:
    """The bound of one choice in full, or why there is none; it may read saved predictions."""
    bound = _bound(selection, alpha, paired=True)
    if isinstance(bound, str):
        return f"No accuracy bound: {bound}"
    return _useless(bound.tightest_pp) or str(bound)


def said_of_many(selections: Iterable[Selection], alpha: float) -> str:
    """The bounds of several choices as a range, with the conditions that all of them share."""
    statements = [_bound(selection, alpha, paired=False) for selection in selections]
    bounds = [bound for bound in statements if isinstance(bound, Guarantee)]
    if not bounds:
        return f"No accuracy bound: {statements[0]}"
    points = sorted(bound.bound_pp for bound in bounds)
    without = len(statements) - len(bounds)
    if useless := _useless(points[0]):
        return useless
    return "\n".join(
        [
            f"For each run by itself, with probability at least {1 - alpha:g}, the population "
            f"{bounds[0].quantity} of the chosen checkpoint is at most {points[0]:.2f} to "
            f"{points[-1]:.2f} points below the best of its run (--json has every bound)."
            + (f" {without} of {len(statements)} runs have none." if without else ""),
            bounds[0].terms,
        ]
    )


def _useless(points: float) -> str:
    if points <= USEFUL_PP:
        return ""
    return (
        f"No accuracy bound that helps: with so few validation examples it is {points:.2f} points "
        "(docs/guarantees.md)."
    )


def _bound(selection: Selection, alpha: float, *, paired: bool) -> Guarantee | str:
    """The bound, or the reason why there is none."""
    try:
        return selection.guarantee(alpha, paired=paired)
    except NoGuaranteeError as error:
        return str(error)


ROWS: Final = 9
WIDEST: Final = 64
LEAST: Final = 3  # checkpoints below which a table says it all
EDGE: Final = 1e-9  # of rounding
DEPTH: Final = 4  # how many times the band's height is shown; what lies deeper is at the bottom


@dataclass(frozen=True)
class Marks:
    """What stands for what."""

    chosen: str
    best: str
    feasible: str
    other: str
    deeper: str
    band: str
    side: str
    corner: str
    floor: str


DRAWN: Final = Marks("●", "▲", "○", "·", "↓", "┄", "┤", "└", "─")
PLAIN: Final = Marks("X", "A", "o", ".", "v", "-", "|", "+", "-")


def picture(selection: Selection, width: int, *, encoding: str = "utf-8") -> str:
    """Lines of at most ``width`` characters; empty where there is too little to draw.

    The highest row is the best score. The dashed row is the end of the tolerance.
    """
    judged = selection.judged_by
    columns = min(width, WIDEST) - 9
    if judged is None or len(selection.trajectory) < LEAST or columns < 20:
        return ""
    scores = np.asarray(selection.columns[judged.metric], dtype=float)
    feasible = np.asarray(selection.feasible, dtype=bool)
    rises = judged.direction == "higher"
    below = (judged.best - scores) * (1 if rises else -1)
    band = float(below[feasible].max(initial=0.0))
    if judged.metric == ACCURACY and selection.choice.kind.fixed:
        band = max(band, float(selection.tolerance_pp) / 100)
    depth = _depth(below, band)
    if depth <= 0:
        return ""
    marks = DRAWN if _can_draw(encoding) else PLAIN
    grid = [[" "] * columns for _ in range(ROWS)]
    line = _row(band, depth)
    grid[line] = [marks.band] * columns
    x = _across(selection.trajectory.steps, columns)
    kinds = _kinds(selection, below, feasible, marks)
    for kind in (marks.other, marks.feasible, marks.best, marks.chosen):  # the last one on top
        for i in np.flatnonzero(kinds == kind):
            if not np.isfinite(below[i]):
                continue
            deeper = below[i] > depth * (1 + EDGE) and kind == marks.other
            row = ROWS - 1 if deeper else _row(float(below[i]), depth)
            grid[row][x[i]] = marks.deeper if deeper else kind
    return "\n".join(_lines(selection, grid, line, depth, band, marks, rises=rises))


def _can_draw(encoding: str) -> bool:
    try:
        "".join(vars(DRAWN).values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _depth(below: NDArray[np.float64], band: float) -> float:
    """How far down the plot reaches: a few times the band, or to the worst checkpoint."""
    worst = float(below[np.isfinite(below)].max(initial=0.0))
    return min(worst, DEPTH * band) if band > 0 else worst


def _row(below: float, depth: float) -> int:
    return min(ROWS - 1, round((ROWS - 1) * below / depth))


def _across(steps: NDArray[np.int64], columns: int) -> NDArray[np.int64]:
    first, last = int(steps[0]), int(steps[-1])
    return np.rint((columns - 1) * (steps - first) / max(last - first, 1)).astype(np.int64)


def _kinds(
    selection: Selection, below: NDArray[np.float64], feasible: NDArray[np.bool_], marks: Marks
) -> NDArray[np.str_]:
    kinds = np.where(feasible, marks.feasible, marks.other)
    kinds[np.flatnonzero(below == 0)[:1]] = marks.best
    kinds[selection.index] = marks.chosen
    return kinds


def _lines(
    selection: Selection,
    grid: list[list[str]],
    line: int,
    depth: float,
    band: float,
    marks: Marks,
    *,
    rises: bool,
) -> list[str]:
    judged = selection.judged_by
    assert judged is not None
    labels = {0: judged.best, ROWS - 1: _at(judged.best, depth, rises=rises)}
    labels[line] = _at(judged.best, band, rises=rises)
    shown = [
        f"{_label(labels[row], judged.metric) if row in labels else '':>7} {marks.side}"
        + "".join(cells).rstrip()
        for row, cells in enumerate(grid)
    ]
    steps = selection.trajectory.steps
    floor = f"{'':>7} {marks.corner}{marks.floor * len(grid[0])}"
    first, last = f"step {steps[0]}", str(steps[-1])
    ends = f"{'':>9}{first}{last:>{len(grid[0]) - len(first)}}"
    names = {
        marks.chosen: "chosen",
        marks.best: f"best {judged.metric}",
        marks.band: "end of the tolerance",
        marks.feasible: "within it",
        marks.other: "outside",
        marks.deeper: "far below",
    }
    drawn = {cell for row in grid for cell in row}
    legend = [f"{mark} {name}" for mark, name in names.items() if mark in drawn]
    return [judged.metric, *shown, floor, ends, f"{'':>9}{'  '.join(legend)}"]


def _at(best: float, below: float, *, rises: bool) -> float:
    return best - below if rises else best + below


def _label(value: float, metric: str) -> str:
    return f"{100 * value:.2f}" if metric == ACCURACY else f"{value:.4g}"


SHOWN: Final = 12
NOTES: Final = 2
# Notes that say what every log of a kind says, or what was left alone.
_ROUTINE: Final = (
    " ← ",
    "would make the loss something else than NLL",
    "validation columns that are not read",
    "accuracy in percent",
    "not read: ",
)


def show_one(
    selection: Selection,
    among: str = "",
    *,
    unmatched: str = "",
    verbose: bool,
    table: bool,
    alpha: float,
) -> None:
    """The answer for one run.

    ``among`` says which of several it is, ``unmatched`` which files may be its checkpoints.
    """
    out = printing.console()
    s = as_the_files_count(selection)
    out.print(_answer(s, selection.step), style="bold")
    if among:
        out.print(among)
    rows = scores(s)
    names, values = ([len(row[column]) for row in rows] for column in (0, 1))
    for name, value, beside in rows:
        line = f"  {name:<{max(names)}}  {value:<{max(values)}}  {beside}"
        out.print(line.rstrip())
    for line in _sentences(s):
        out.print(line)
    for line in _notes(s, verbose=verbose):
        out.print(line)
    if verbose:
        _show_more(out, s, alpha)
    if table:
        out.print()
        show_table(out, s)
    if s.path is None and s.trajectory.columns:
        where = "No checkpoint was found near the log: --checkpoints says where they are."
        out.print(unmatched or where)
    if read := _read(s):
        out.print(read)
    if not verbose and not table:
        out.print(_more(s))


def _answer(s: Selection, in_the_log: int) -> str:
    counted_otherwise = f" ({in_the_log} in the log)" * (s.step != in_the_log)
    return f"Use step {s.step}{counted_otherwise}{'.' if s.path is None else f': {s.path}'}"


def as_the_files_count(s: Selection) -> Selection:
    """The same with steps as the trainer names its checkpoints, where the log counts otherwise."""
    run = s.trajectory
    if not run.names_ahead:
        return s
    logged = run.logged and tuple(step + run.names_ahead for step in run.logged)
    more = f"as in the names of checkpoints, {run.names_ahead} more than in the log"
    notes = tuple(
        f"{note.partition(', from')[0]} {more}" if note.startswith("steps are") else note
        for note in run.notes
    )
    named = replace(
        run, steps=run.steps + run.names_ahead, logged=logged, names_ahead=0, notes=notes
    )
    guard = s.guard
    if guard is not None and guard.without is not None:
        guard = replace(guard, without=guard.without + run.names_ahead)
    return replace(s, trajectory=named, guard=guard)


def _sentences(s: Selection) -> Iterable[str]:
    """Why, and what is worth knowing about it."""
    miss = near_miss(s)
    found = [guarded_because(s) or because(s), in_examples(s), "" if miss is None else str(miss)]
    found += [not_compared(s), *cautions(s)]
    found.append(
        validated_on(s) if len(s.trajectory.domains) > 1 or not s.trajectory.columns else ""
    )
    return (sentence for sentence in found if sentence)


def _notes(s: Selection, *, verbose: bool) -> list[str]:
    notes = [note for note in (*s.trajectory.notes, _settings_left(s)) if note]
    if not verbose:
        notes = telling(notes)
    shown = notes if verbose else notes[:NOTES]
    rest = [f"note: {counted(len(notes) - NOTES, 'more note')}, with -v"]
    return [f"note: {note}" for note in shown] + rest * (len(notes) > len(shown))


def telling(notes: Iterable[str]) -> list[str]:
    """The notes that say something of this log alone."""
    return [note for note in notes if not any(part in note for part in _ROUTINE)]


def _settings_left(s: Selection) -> str:
    """What the run was trained with, where a rule that was named goes by other settings."""
    before = s.trajectory.chosen_by
    if s.reason or not before or not_usual(before) == not_usual(s.settings):
        return ""
    return (
        f"the run was set to {in_words(before)}; with --rule the settings are those of this "
        "command alone"
    )


def _show_more(out: Console, s: Selection, alpha: float) -> None:
    """What ``-v`` adds: the rule, the runner-up, a picture and the bound."""
    out.print(f"Rule: {rule_in_words(s)}.")
    if sentence := runner_up(s):
        out.print(sentence)
    if lines := picture(s, out.width, encoding=out.encoding):
        out.print(f"\n{lines}\n")
    out.print(said(s, alpha))


def _read(s: Selection) -> str:
    columns = list(dict.fromkeys(s.trajectory.columns.values()))
    if not columns:
        return ""
    return f"Read {listed(columns) if len(columns) <= SHOWN else shortened(columns)}."


def _more(s: Selection) -> str:
    drawn = s.trajectory.examples is not None
    parts = ["--table (every checkpoint)", "--open (a page)"]
    parts += ["--sure (how stable it is)"] * drawn
    return f"More: {', '.join([*parts, '-v (all notes, the accuracy bound)'])}."


def show_table(out: Console, s: Selection) -> None:
    """Every checkpoint, best first; metrics that do not fit are named."""
    judged = ACCURACY if s.judged_by is None else s.judged_by.metric
    metrics = [name for name in s.trajectory.metrics if name != judged]
    header, rows = _ranking(s, metrics)
    beside = [name for name in metrics if name not in s.looked_at]
    without: list[str] = []
    while beside and printing.width(header, rows) > out.width:
        without.insert(0, beside.pop())
        header, rows = _ranking(s, [name for name in metrics if name not in without])
    out.print(printing.table(header, rows, bold=0))
    if without:
        names = listed([called(s.trajectory, name) for name in without])
        out.print(f"Without {names}: -o FILE.csv writes all.")


def _ranking(s: Selection, metrics: Sequence[str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows, best first; near-best ones have a score."""
    ranked, judged = s.ranked, s.judged_by
    every = range(len(s.trajectory))
    leading: list[tuple[str, list[str]]] = []
    if judged is not None and judged.metric == ACCURACY:
        leading = [
            ("accuracy", [f"{100 * ranked['accuracy'][i]:.2f}" for i in every]),
            ("below", [f"{ranked['gap_pp'][i]:.2f}" for i in every]),
        ]
    elif judged is not None:
        values = ranked[judged.metric]
        leading = [
            (called(s.trajectory, judged.metric), [f"{values[i]:.4g}" for i in every]),
            ("off", [f"{abs(values[i] - judged.best):.4g}" for i in every]),
        ]
    if not s.guard_acted:  # which ranks by time
        shown = [f"{ranked['score'][i]:.4g}" if ranked["feasible"][i] else "-" for i in every]
        leading.append(("score", shown))
    header = ("rank", "step", *(name for name, _ in leading))
    rows = [
        (
            str(ranked["rank"][i]),
            str(ranked["step"][i]),
            *(cells[i] for _, cells in leading),
            *(f"{ranked[name][i]:.4g}" if name in ranked else "-" for name in metrics),
        )
        for i in every
    ]
    return (*header, *(called(s.trajectory, name) for name in metrics)), rows


def show_many(
    chosen: Mapping[str, Selection],
    best: int | None,
    *,
    one_of: str,
    verbose: bool,
    table: bool,
    alpha: float,
) -> None:
    """A row for every run, and what to do; ``one_of`` is what answers for one of them."""
    out = printing.console()
    every = {name: as_the_files_count(one) for name, one in chosen.items()}
    header, rows = _runs(every, best)
    left = ("", "run", "rule", "by", "checkpoint")
    out.print(printing.table(header, rows, left=left, bold=best))
    for line in _shared(every, verbose=verbose):
        out.print(line)
    if verbose:
        out.print(said_of_many(every.values(), alpha))
    for name, s in every.items() if table else ():
        out.print(f"\n{name}", style="bold")
        show_table(out, s)
    out.print(_what_to_do(every, best, one_of))


def _runs(
    chosen: Mapping[str, Selection], best: int | None
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    selections = list(chosen.values())
    by_accuracy = all(_judged(s) == ACCURACY for s in selections)
    rules = len({s.rule for s in selections}) > 1
    paths = any(s.path for s in selections)
    beside = [name for name in selections[0].looked_at if name != _judged(selections[0])]
    beside = [name for name in beside if all(name in s.columns for s in selections)]
    header = (
        *(("",) * (best is not None)),
        "run",
        *(("rule",) * rules),
        "step",
        *(("accuracy", "below") if by_accuracy else ("by", "value", "off")),
        *(called(selections[0].trajectory, name) for name in beside),
        "near-best",
        *(("checkpoint",) * paths),
    )
    rows = [
        (
            *(("*" if i == best else " ",) * (best is not None)),
            name,
            *((s.rule,) * rules),
            str(s.step),
            *_judgement(s, by_accuracy=by_accuracy),
            *(f"{s.columns[metric][s.index]:.4g}" for metric in beside),
            f"{len(s.eligible_steps)} of {len(s.trajectory)}",
            *((s.path or "-",) * paths),
        )
        for i, (name, s) in enumerate(chosen.items())
    ]
    return header, rows


def _judged(s: Selection) -> str:
    return "" if s.judged_by is None else s.judged_by.metric


def _judgement(s: Selection, *, by_accuracy: bool) -> tuple[str, ...]:
    """How near the best a choice is: by accuracy in points, else by the score that is named."""
    judged = s.judged_by
    if judged is None:
        return ("-", "-", "-")
    if judged.metric != ACCURACY:
        name = called(s.trajectory, judged.metric)
        return (name, f"{judged.value:.4g}", f"{judged.gap:.4g}")
    cells = (f"{100 * judged.value:.2f}", f"{s.gap_pp:.2f}")
    return cells if by_accuracy else (ACCURACY, *cells)


def _shared(chosen: Mapping[str, Selection], *, verbose: bool) -> Iterable[str]:
    """What holds for some runs or all, once each."""
    said = Counter(
        sentence
        for s in chosen.values()
        for sentence in (
            "The best checkpoint makes so few errors that validation cannot rank; the earliest "
            "near-best one was taken (--no-guard: the rule's own)." * s.guard_acted,
            not_compared(s),
            validated_on(s),
        )
        if sentence
    )
    notes = Counter(
        f"note: {note}"
        for s in chosen.values()
        for note in (s.notes if verbose else telling(s.notes))
    )
    shown = dict(list(said.items())[: None if verbose else SHOWN])
    shown |= dict(list(notes.items())[: None if verbose else NOTES])
    for line, times in shown.items():
        yield line if times == len(chosen) else f"{line} ({times} of {len(chosen)} runs)"
    if hidden := len(said) + len(notes) - len(shown):
        yield f"note: {counted(hidden, 'more note')}, with -v"


def _what_to_do(chosen: Mapping[str, Selection], best: int | None, one_of: str) -> str:
    if best is None:
        return f"These runs cannot be compared with each other: give {one_of} for one of them."
    name, s = list(chosen.items())[best]
    where = f": {s.path}" if s.path else ""
    return f"* the best of these is {name}, step {s.step}{where}. --best says why."
