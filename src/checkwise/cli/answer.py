"""What ``select`` prints: the answer first, then what it costs, why, and what to know about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from checkwise.cli import printing
from checkwise.errors import NoGuaranteeError
from checkwise.selection import (
    ACCURACY,
    Selection,
    because,
    called,
    cautions,
    guarded_because,
    in_brackets,
    in_examples,
    in_words,
    instead,
    near_miss,
    not_compared,
    not_usual,
    rule_in_words,
    scores,
    validated_on,
)
from checkwise.words import counted, listed, shortened

SHOWN: Final = 12
NOTES: Final = 2
USEFUL_PP: Final = 5.0  # an accuracy bound beyond this says nothing
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
    sure: bool = False,
    verbose: bool,
    table: bool,
    alpha: float,
) -> None:
    """The answer for one run.

    ``among`` says which of several it is, ``unmatched`` which files may be its checkpoints.
    """
    out = printing.console()
    s, run = selection, selection.trajectory
    in_names = f"{s.step + run.names_ahead} in names of checkpoints" * bool(run.names_ahead)
    call, why = run.call.format(step=s.step), instead(s)
    if place := s.path or call:
        first = f"Use step {s.step}{in_brackets(in_names)}: {place}{in_brackets(why)}"
    else:
        first = f"Use step {s.step}{in_brackets(in_names, why)}."
    out.print(first, style="bold")
    rows = scores(s)
    names, values = ([len(row[column]) for row in rows] for column in (0, 1))
    lines = [
        among,
        *(f"  {n:<{max(names)}}  {v:<{max(values)}}  {beside}".rstrip() for n, v, beside in rows),
        *_sentences(s),
        *_notes(s, verbose=verbose),
    ]
    for line in filter(None, lines):
        out.print(line)
    if verbose:
        out.print(f"Rule: {rule_in_words(s)}.")
        out.print(bound_of(s, alpha))
    if table:
        out.print()
        show_table(out, s)
    if s.path is None and s.trajectory.columns and not call:
        where = "No checkpoint was found near the log: --checkpoints says where they are."
        out.print(unmatched or where)
    if columns := list(dict.fromkeys(s.trajectory.columns.values())):
        read = listed(columns) if len(columns) <= SHOWN else shortened(columns)
        out.print(f"Read {read}.")
    if not verbose and not table:
        stable = "--sure (how stable it is), " * (s.trajectory.examples is not None and not sure)
        out.print(
            f"More: --table (every checkpoint), --open (a page), {stable}-v (all notes, the "
            "accuracy bound)."
        )


def _sentences(s: Selection) -> list[str]:
    """Why, and what is worth knowing about it."""
    several = len(s.trajectory.domains) > 1 or not s.trajectory.columns
    return [
        guarded_because(s) or because(s),
        in_examples(s),
        near_miss(s),
        not_compared(s),
        *cautions(s),
        validated_on(s) if several else "",
    ]


def _notes(s: Selection, *, verbose: bool) -> list[str]:
    notes = list(s.trajectory.notes)
    before = s.trajectory.chosen_by
    if before and not s.reason and not_usual(before) != not_usual(s.settings):
        notes.append(
            f"the run was set to {in_words(before)}; with --rule the settings are those of this "
            "command alone"
        )
    if not verbose:
        notes = telling(notes)
    left = 0 if verbose else max(len(notes) - NOTES, 0)
    shown = [f"note: {note}" for note in notes[: len(notes) - left]]
    return shown + [f"note: {counted(left, 'more note')}, with -v"] * (left > 0)


def telling(notes: Iterable[str]) -> list[str]:
    """The notes that say something of this log alone."""
    return [note for note in notes if not any(part in note for part in _ROUTINE)]


def bound_of(selection: Selection, alpha: float) -> str:
    """The accuracy bound of one choice in full, or why there is none; may read predictions."""
    try:
        bound = selection.guarantee(alpha, paired=True)
    except NoGuaranteeError as error:
        return f"No accuracy bound: {error}"
    if bound.tightest_pp > USEFUL_PP:
        return (
            "No accuracy bound that helps: with so few validation examples it is "
            f"{bound.tightest_pp:.2f} points (docs/sure.md)."
        )
    return str(bound)


def show_table(out: Any, s: Selection) -> None:
    """Every checkpoint, best first; metrics that do not fit are named."""
    judged = _judged(s) or ACCURACY
    metrics = [name for name in s.trajectory.metrics if name != judged]
    without: list[str] = []
    beside = [name for name in metrics if name not in s.looked_at]
    header, rows = _ranking(s, metrics)
    while beside and printing.width(header, rows) > out.width:
        without.insert(0, beside.pop())
        header, rows = _ranking(s, [name for name in metrics if name not in without])
    out.print(printing.table(header, rows, bold=0))
    if without:
        names = listed([called(s.trajectory, name) for name in without])
        out.print(f"Without {names}: -o FILE.csv writes all.")


def _ranking(s: Selection, metrics: Sequence[str]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Header and rows, best first; near-best ones have a score."""
    ranked, judged = s.ranked, s.judged_by
    columns = [(name, list(map(str, ranked[name]))) for name in ("rank", "step")]
    if judged is not None and judged.metric == ACCURACY:
        columns.append(("accuracy", [f"{100 * value:.2f}" for value in ranked["accuracy"]]))
        columns.append(("below", [f"{gap:.2f}" for gap in ranked["gap_pp"]]))
    elif judged is not None:
        values = ranked[judged.metric]
        columns.append((called(s.trajectory, judged.metric), [f"{v:.4g}" for v in values]))
        columns.append(("off", [f"{abs(value - judged.best):.4g}" for value in values]))
    if not s.guard_acted:  # which ranks by time
        near = zip(ranked["score"], ranked["feasible"], strict=True)
        columns.append(("score", [f"{score:.4g}" if is_near else "-" for score, is_near in near]))
    for name in metrics:
        known = name in ranked
        cells = [f"{v:.4g}" for v in ranked[name]] if known else ["-"] * len(s.trajectory)
        columns.append((called(s.trajectory, name), cells))
    return _table_of(columns)


def _table_of(
    columns: Sequence[tuple[str, Sequence[str]]],
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Header and rows."""
    return [name for name, _ in columns], list(zip(*(c for _, c in columns), strict=True))


def show_many(
    chosen: Mapping[str, Selection],
    best: int | None,
    *,
    one_of: str,
    verbose: bool,
    table: bool,
) -> None:
    """A row for every run, and what to do; ``one_of`` is what answers for one of them."""
    out = printing.console()
    header, rows = _runs(chosen, best)
    left = ("", "run", "rule", "by", "checkpoint")
    out.print(printing.table(header, rows, left=left, bold=best))
    for line in _shared(chosen, verbose=verbose):
        out.print(line)
    for name, s in chosen.items() if table else ():
        out.print(f"\n{name}", style="bold")
        show_table(out, s)
    if best is None:
        out.print(f"These runs cannot be compared with each other: give {one_of} for one of them.")
        return
    name, s = list(chosen.items())[best]
    where = f": {s.path}" if s.path else ""
    out.print(f"* the best of these is {name}, step {s.step}{where}. --best says why.")


def _runs(
    chosen: Mapping[str, Selection], best: int | None
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Header and rows, one a run."""
    runs = list(chosen.values())
    by_accuracy = all(_judged(s) == ACCURACY for s in runs)
    columns: list[tuple[str, Sequence[str]]] = []
    if best is not None:
        columns.append(("", ["*" if i == best else " " for i in range(len(runs))]))
    columns.append(("run", list(chosen)))
    if len({s.rule for s in runs}) > 1:
        columns.append(("rule", [s.rule for s in runs]))
    columns.append(("step", [str(s.step) for s in runs]))
    names = ("", "accuracy", "below") if by_accuracy else ("by", "value", "off")
    judgements = zip(*map(_judgement, runs), strict=True)
    columns += [pair for pair in zip(names, judgements, strict=True) if pair[0]]
    for name in runs[0].looked_at:
        if name != _judged(runs[0]) and all(name in s.columns for s in runs):
            cells = [f"{s.columns[name][s.index]:.4g}" for s in runs]
            columns.append((called(runs[0].trajectory, name), cells))
    near = [f"{len(s.feasible_steps)} of {len(s.trajectory)}" for s in runs]
    columns.append(("near-best", near))
    if any(s.path for s in runs):
        columns.append(("checkpoint", [s.path or "-" for s in runs]))
    return _table_of(columns)


def _judged(s: Selection) -> str:
    return "" if s.judged_by is None else s.judged_by.metric


def _judgement(s: Selection) -> tuple[str, str, str]:
    """By what, and how near the best a choice is: accuracy in points, another score as it is."""
    judged = s.judged_by
    if judged is None:
        return ("-", "-", "-")
    if judged.metric == ACCURACY:
        return (ACCURACY, f"{100 * judged.value:.2f}", f"{s.gap_pp:.2f}")
    return (called(s.trajectory, judged.metric), f"{judged.value:.4g}", f"{judged.gap:.4g}")


def _shared(chosen: Mapping[str, Selection], *, verbose: bool) -> Iterable[str]:
    """What holds for some runs or all, once each."""
    said: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    for s in chosen.values():
        guarded = s.guard_acted * (
            "The best checkpoint makes so few errors that validation cannot rank; the earliest "
            "near-best one was taken (--no-guard: the rule's own)."
        )
        said.update(filter(None, (guarded, not_compared(s), validated_on(s))))
        notes.update(f"note: {note}" for note in (s.notes if verbose else telling(s.notes)))
    shown = dict(list(said.items())[: None if verbose else SHOWN])
    shown |= dict(list(notes.items())[: None if verbose else NOTES])
    for line, times in shown.items():
        yield line if times == len(chosen) else f"{line} ({times} of {len(chosen)} runs)"
    if hidden := len(said) + len(notes) - len(shown):
        yield f"note: {counted(hidden, 'more note')}, with -v"
