"""What a comparison says in numbers and sentences, on the command line and on the page."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Final

from checkwise.metrics import METRICS, metric_title
from checkwise.study.compare import Contrast, Reach, Verdict, verdict
from checkwise.study.units import deciding, told
from checkwise.words import counted, listed, number

POINTS = 2  # decimals of percentage points
GROUPS = {
    "run": "runs",
    "single_run": "single runs",
    "block": "blocks",
    "draw": "draws",
    "trial": "splits",
    "domain": "domains",
    "block_domain": "blocks × domains",
}
LEADING = ("target_nll", "target_accuracy")  # what answers and headlines are about
WHY_GROUPS = (
    "Runs that share both seeds (a block), hyperparameters (a draw), data splits or the held-out "
    "domain are not independent. A difference counts as found only if the interval over runs and "
    "those over blocks, draws, splits, domains, and blocks × domains all exclude zero; two groups "
    "or fewer cannot decide. The interval that is shown is over blocks × domains where domains "
    "share seeds, else over held-out domains, each counting once; with fewer than three domains "
    "over blocks, or runs."
)
# With fewer pairs not even a difference of one sign in all of them is significant at 5%.
FEW_RUNS: Final = 6


def title(metric: str) -> str:
    """``target_nll`` → ``target NLL``."""
    side, _, name = metric.partition("_")
    return "source gap" if metric == "gap_pp" else f"{side} {metric_title(name)}"


def unit(metric: str, scale: int) -> str:
    """What the reported numbers are in, for a column head."""
    known = METRICS.get(metric.partition("_")[2])
    if metric == "gap_pp" or (known is not None and known.in_percent):
        return "points"
    return "×100" if scale == 100 else ""


def shown(value: float, metric: str, *, signed: bool = False) -> str:
    """A value of ``target_<metric>``, ``source_<metric>`` or ``gap_pp`` with its decimals."""
    known = METRICS.get(metric.partition("_")[2])
    decimals = POINTS if metric == "gap_pp" else known.decimals if known else 3
    return number(value, decimals, signed=signed)


def heading(contrast: Contrast) -> str:
    """The metric of a contrast with what its numbers are in: ``target accuracy (points)``."""
    words = unit(contrast.metric, contrast.scale)
    return title(contrast.metric) + (f" ({words})" if words else "")


def change(contrast: Contrast) -> str:
    return shown(contrast.mean, contrast.metric, signed=True)


def _points(contrast: Contrast) -> str:
    return " points" if unit(contrast.metric, contrast.scale) == "points" else ""


def ends(low: float, high: float, metric: str) -> str:
    return f"[{shown(low, metric)}, {shown(high, metric)}]"


def over(contrast: Contrast) -> str:
    """What the interval counts: ``180 runs``, ``9 blocks × 4 domains`` or ``24 places``."""
    return counted(contrast.n, "run") if contrast.over == "runs" else str(contrast.leading)


def intervals_over(rows: Sequence[Contrast]) -> str:
    """What the intervals of some rows count: ``95% intervals over runs``."""
    held_out = ("places", "domains")
    kinds = dict.fromkeys(f"held-out {r.over}" if r.over in held_out else r.over for r in rows)
    return f"95% intervals over {listed(list(kinds), 'or')}"


def interval(contrast: Contrast) -> str:
    """``[low, high]``, or why there is none."""
    if isnan(contrast.low):
        return "no interval from one run" if contrast.n == 1 else "no runs"
    return ends(contrast.low, contrast.high, contrast.metric)


def group_names(units: Sequence[str]) -> list[str]:
    """What people call the groups of some units; blocks × domains only where neither is named."""
    return [GROUPS[unit] for unit in own_units(units)]


def named_groups(unit_name: str, groups: int) -> str:
    """``9 blocks``, ``1 draw``; two lines at once have no number of their own."""
    name = GROUPS[unit_name]
    return name if unit_name == "block_domain" else counted(groups, name.removesuffix("s"))


def own_units(units: Sequence[str]) -> list[str]:
    """Units that say something of their own: what a line shares, both lines together share too."""
    implied = "block" in units or "domain" in units
    return [unit for unit in units if not (implied and unit == "block_domain")]


def effect(contrast: Contrast) -> str:
    """One difference as a clause: ``lowered target NLL by 0.021 [0.004, 0.040]``."""
    metric = contrast.metric
    points = _points(contrast)
    if verdict(contrast).direction == "unclear":
        brackets = "" if isnan(contrast.low) else f" {interval(contrast)}"
        return f"changed {title(metric)} by {change(contrast)}{points}{brackets}"
    fell = contrast.mean < 0
    low, high = (-contrast.high, -contrast.low) if fell else (contrast.low, contrast.high)
    size = shown(abs(contrast.mean), metric)
    moved = "lowered" if fell else "raised"
    return f"{moved} {title(metric)} by {size}{points} {ends(low, high, metric)}"


def answer(rows: Sequence[Contrast]) -> str:
    """The main result of one rule: NLL first where it was measured, then what accuracy did."""
    first, *rest = _leading(rows)
    few = ", too few for an interval" if isnan(first.low) else ""
    counts = "on" if isnan(first.low) else "over"
    then = ""
    for row in rest:
        same = isnan(row.low) or over(row) == over(first)
        then += f"; it {effect(row)}{'' if same else f' over {over(row)}'}{caution(row)}"
    return (
        f"Against {first.reference}, {first.rule} {effect(first)} {counts} {over(first)}"
        f"{few}{caution(first)}{then}."
    )


def in_short(rows: Sequence[Contrast]) -> str:
    """The same for a terminal, where a table names rule and reference."""
    leading = _leading(rows)
    found = [
        f"{'lower' if row.mean < 0 else 'higher'} {_short_title(row)}"
        for row in leading
        if verdict(row).direction != "unclear"
    ]
    others = [row for row in on_target(rows) if row not in leading and row.n >= FEW_RUNS]
    moved = [row for row in others if row.low > 0 or row.high < 0]
    said = listed(found) if found else "no difference shown"
    if not found and any(verdict(row).direction != "unclear" for row in moved):
        said = f"{said} in {listed([_short_title(row) for row in leading])}"
    if leading[0].n < 2:
        said = "too few runs to tell"
    beside = f" Other metrics: {'; '.join(map(_moved, moved))}." if moved else ""
    return f"{said[0].upper()}{said[1:]}: {', '.join(map(_number, leading))}.{beside}"


def _moved(row: Contrast) -> str:
    if verdict(row).direction == "unclear":
        return _number(row)
    return f"{'lower' if row.mean < 0 else 'higher'} {_number(row)}"


def _number(row: Contrast) -> str:
    brackets = "" if isnan(row.low) else f" {interval(row)}"
    narrowed = "" if row.low <= 0 <= row.high else caution(row)
    return f"{_short_title(row)} {change(row)}{_points(row)}{brackets}{narrowed}"


def _short_title(row: Contrast) -> str:
    return metric_title(row.metric.partition("_")[2])


def _leading(rows: Sequence[Contrast]) -> list[Contrast]:
    """NLL and accuracy, as far as they are there; without either, every other target metric."""
    leading = [row for metric in LEADING for row in rows if row.metric == metric]
    return leading or on_target(rows)


def on_target(rows: Sequence[Contrast]) -> list[Contrast]:
    order = {metric: place for place, metric in enumerate(LEADING)}
    mine = [row for row in rows if row.metric.startswith("target_")]
    return sorted(mine, key=lambda row: order.get(row.metric, len(order)))


def caution(contrast: Contrast) -> str:
    """What narrows a difference, as the end of its clause; empty where nothing does."""
    if isnan(contrast.low):
        return ""
    said = verdict(contrast)
    if contrast.low <= 0 <= contrast.high:
        return ", an interval that includes zero"
    if said.direction == "unclear":
        return f", which {listed(_objecting(contrast, said))} do not bear out"
    if said.reach == "these runs" and contrast.n < FEW_RUNS:
        return f" (seen, not shown: fewer than {FEW_RUNS} runs show nothing)"
    if said.reach == "these runs":
        return " (shown for these runs, not for new seeds)"
    if said.reach == "these domains":
        return f" (shown for {_domains(contrast)}, not for new ones)"
    return ""


def _objecting(contrast: Contrast, said: Verdict) -> list[str]:
    """What does not bear a difference out, by the names that people are told."""
    against = {unit: contrast.units[unit] for unit in said.against if unit in contrast.units}
    over_runs = ["run"] if "run" in said.against else []
    return group_names([*over_runs, *told(against, contrast.n)])


def badge(contrast: Contrast) -> str:
    """The verdict in a few words: ``better on these domains``, ``not borne out by draws``."""
    said = verdict(contrast)
    if contrast.low <= 0 <= contrast.high:
        return "includes zero"
    if said.direction == "unclear":
        return f"not borne out by {listed(_objecting(contrast, said), 'or')}"
    return f"{said.direction}{_where(contrast, said.reach)}"


def headline(rows: Sequence[Contrast]) -> str:
    """The same without numbers, in one line, also when it is bad news."""
    leading = _leading(rows)
    first = leading[0]
    if first.n < 2:
        return f"{first.rule}: too few runs to tell"
    verdicts = [verdict(row) for row in leading]
    said = {
        ("better",): "higher accuracy",
        ("unclear",): "no clear difference in accuracy",
        ("worse",): "lower accuracy",
        ("better", "better"): "lower NLL and higher accuracy",
        ("better", "unclear"): "lower NLL, no clear change in accuracy",
        ("better", "worse"): "lower NLL, but lower accuracy",
        ("unclear", "better"): "higher accuracy, no clear change in NLL",
        ("unclear", "unclear"): "no clear difference in NLL or accuracy",
        ("unclear", "worse"): "lower accuracy, no clear gain in NLL",
        ("worse", "better"): "higher accuracy, but higher NLL",
        ("worse", "unclear"): "higher NLL, no clear change in accuracy",
        ("worse", "worse"): "higher NLL and lower accuracy",
    }[tuple(one.direction for one in verdicts)]
    return f"{first.rule}{_where(first, _narrowest(verdicts))}: {said}"


def _narrowest(verdicts: Sequence[Verdict]) -> Reach:
    """How far all that is claimed reaches."""
    claimed = [one.reach for one in verdicts if one.direction != "unclear"]
    order: tuple[Reach, ...] = ("these runs", "these domains", "new domains")
    return min(claimed, key=order.index, default="new domains")


def _where(contrast: Contrast, reach: Reach) -> str:
    if reach == "these runs":
        return f" on these {counted(contrast.n, 'run')}"
    return f" on {_domains(contrast)}" if reach == "these domains" else ""


def _domains(contrast: Contrast) -> str:
    return "this domain" if contrast.units["domain"].groups == 1 else "these domains"


def by_unit(rows: Sequence[Contrast]) -> list[str]:
    """What groups of runs say of every target metric; then what is too few, and a new place."""
    shown_rows = on_target(rows)
    if not shown_rows or shown_rows[0].n < 2:
        return []
    first = shown_rows[0]
    lines = [_unit_line(row) for row in shown_rows]
    few = [
        f"{GROUPS[name]} ({first.units[name].groups})" for name in own_units(verdict(first).too_few)
    ]
    if few:
        lines.append(f"There are too few {listed(few)} to say whether others would give the same.")
    return [line for line in [*lines, *elsewhere(_leading(rows))] if line]


def elsewhere(rows: Sequence[Contrast]) -> list[str]:
    """What to expect at one new place, a line a metric; first that places are few, where so."""
    lines = [*map(_few_places, rows), *map(expected_elsewhere, rows)]
    return [line for line in dict.fromkeys(lines) if line]


def _few_places(row: Contrast) -> str:
    places = row.places
    if places is None or not places.decides or places.many:
        return ""
    domains = counted(places.places, "held-out domain")
    only = f"There are only {domains}: intervals over so few are wide, and other places may"
    return f"{only} differ more than these."


def expected_elsewhere(row: Contrast) -> str:
    """What to expect at one new place; nothing below three."""
    places = row.places
    if places is None or not places.decides:
        return ""
    return (
        f"At a new place of the same kind, expect {title(row.metric)} to change by "
        f"{shown(places.mean, row.metric, signed=True)}{_points(row)} "
        f"{ends(places.new_low, places.new_high, row.metric)} (95%, from "
        f"{counted(places.places, 'place' if places.many else 'domain')}"
        f"{' with these seeds' * (row.over == 'blocks × domains')}; mean ± t·s·√(1 + 1/G))."
    )


def _unit_line(row: Contrast) -> str:
    said = [
        f"{named_groups(name, interval.groups)} {ends(interval.low, interval.high, row.metric)}"
        for name, interval in told(deciding(row.units, crossed=row.crossed), row.n).items()
    ]
    if not said:
        return ""
    mean = shown(row.of_runs[0], row.metric, signed=True)
    weighed = "" if mean == change(row) else " (mean over runs)"
    return f"{title(row.metric)} {mean}{_points(row)}{weighed}, by unit: {', '.join(said)}."


def spread(rows: Sequence[Contrast]) -> str:
    """How the runs divide, and how many pay for it in accuracy."""
    first, accuracy = _leading(rows)[0], pick(rows, LEADING[-1])
    name, better, worse = (
        ("Accuracy", "higher", "lower") if first is accuracy else ("NLL", "lower", "higher")
    )
    lost = accuracy.lose_1pp
    pays = f"; {100 * lost:.0f}% of runs lost at least one point of target accuracy"
    return (
        f"{name} was {better} in {first.wins}, equal in {first.ties} and {worse} in {first.losses} "
        f"of {counted(first.n, 'run')} (median {shown(first.median, first.metric, signed=True)})"
        f"{'' if isnan(lost) else pays}."
    )


def pick(rows: Sequence[Contrast], metric: str) -> Contrast:
    return next(row for row in rows if row.metric == metric)
