"""``advise``: look at a path, and say what to do with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkwise.advice import evidence as shipped
from checkwise.advice.commands import Commands
from checkwise.advice.situation import Situation, situation
from checkwise.advice.steps import CHOSEN, Step, steps
from checkwise.metrics.settings import BANDWIDTH, BINS
from checkwise.readers.loading import find_runs
from checkwise.readers.request import LoadedRun, Request
from checkwise.readers.run_keys import only
from checkwise.selection.default_rule import REFERENCE
from checkwise.text import number

SCHEMA = 1
REFERENCE_RECIPE = CHOSEN.format(rule=REFERENCE)


@dataclass(frozen=True)
class Advice:
    """What there is, what to do about it in order of expected gain, and what nobody can know.

    Attributes:
        path: what was looked at.
        run: which run of several; "" where there is one.
        situation: what there is.
        steps: what to do.
        cannot_know: what neither the path nor the study says.
        ordered_by: the runs whose results put the steps in order.
    """

    path: str
    run: str
    situation: Situation
    steps: tuple[Step, ...]
    cannot_know: tuple[str, ...]
    ordered_by: str

    @property
    def commands(self) -> tuple[str, ...]:
        """Every command, in the order of the steps."""
        return tuple(command for step in self.steps for command in step.commands)

    def __str__(self) -> str:
        """The advice as text."""
        return "\n".join(_lines(self))

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "schema": SCHEMA,
            "path": self.path,
            "run": self.run or None,
            "situation": {**self.situation.as_dict(), "text": self.situation.sentence},
            "ordered_by": self.ordered_by,
            "steps": [step.as_dict() for step in self.steps],
            "cannot_know": list(self.cannot_know),
        }


def advise(
    path: str | Path,
    *,
    run: str | None = None,
    held_out: str | Iterable[str] | None = None,
    sources: str | Iterable[str] | None = None,
    columns: Mapping[str, str] | None = None,
    n: int | Mapping[str, int] | None = None,
    checkpoints: str | None = None,
    include_unsaved: bool = False,
    bins: int = BINS,
    bandwidth: float = BANDWIDTH,
) -> Advice:
    """What to do with a run, given what there is of it.

    Nothing held out is read, and nothing is written. The figures come from the study's packed
    results, which are shipped as a small table.

    Args:
        path: what :func:`load` reads.
        run: which run, where the path holds several; by default the first.
        held_out, sources, columns, n, checkpoints, include_unsaved, bins, bandwidth: as for
            :func:`load`.
    """
    request = Request.of(
        held_out,
        (),
        sources=sources,
        columns=columns,
        n=n,
        checkpoints=checkpoints,
        include_unsaved=include_unsaved,
        bins=bins,
        bandwidth=bandwidth,
    )
    runs = find_runs(Path(path), request)
    named = runs if run is None else only(run, runs, Path(path))
    key, loaded = next(iter(named.items()))
    several = len(runs) > 1
    alone = several and _is_alone(loaded, runs.values())
    place = loaded.where if alone else str(path)
    place = f"./{place}" if place.startswith("-") else place  # or commands take it for an option
    facts = situation(Path(place), loaded.trajectory, len(runs))
    known = shipped.read()
    which = ("--run", key.label) if several and not alone else ()
    commands = Commands(place, (*_options(request), *which))
    return Advice(
        str(path),
        key.label if several else "",
        facts,
        steps(facts, known, commands),
        _cannot_know(facts, known),
        known.ordered_by,
    )


def _is_alone(run: LoadedRun, runs: Iterable[LoadedRun]) -> bool:
    """Whether a run has a folder to itself, so that commands can name that."""
    place = Path(run.where)
    inside = [other for other in runs if Path(other.where).is_relative_to(place)]
    return place.is_dir() and len(inside) == 1


def _options(request: Request) -> tuple[str, ...]:
    """How the path is read, as options of a command."""
    named = [("--held-out", name) for name in request.held_out]
    named += [("--source", name) for name in request.sources]
    named += [("--column", f"{name}={column}") for name, column in request.columns.items()]
    if isinstance(request.n, Mapping):
        named.append(("--n", ",".join(f"{name}={count}" for name, count in request.n.items())))
    elif request.n is not None:
        named.append(("--n", str(request.n)))
    if request.checkpoints is not None:
        named.append(("--checkpoints", request.checkpoints))
    if request.bins != BINS:
        named.append(("--bins", str(request.bins)))
    if request.bandwidth != BANDWIDTH:
        named.append(("--bandwidth", str(request.bandwidth)))
    words = [word for pair in named for word in pair]
    return (*words, *(("--include-unsaved",) if request.include_unsaved else ()))


def _cannot_know(facts: Situation, known: shipped.Evidence) -> tuple[str, ...]:
    sentences = [
        "How the domains you will meet differ from your validation sets. No validation set of "
        "yours says that, so every gain here may be absent or reversed there.",
        f"Whether it holds for your network and data. {known.scope}",
        "Whether sites, patients, devices or bursts are on both sides of your split, so that "
        f"validation is too easy. If so, hold out whole groups (docs/groups.md): {known.groups}",
    ]
    if facts.errors is None:
        how = "give --n NUMBER" if facts.takes_n else "this log does not say, and a table would"
        sentences.append(
            "How many validation examples there were, and so whether validation is saturated: "
            f"{how}."
        )
    if facts.logits == "none" and not facts.with_weights:
        sentences.append(
            "What an average or a calibrator would do: neither weights nor logits of the "
            "checkpoints near the best are here. Next time keep both: the callbacks take "
            "`average_within_pp=1` (docs/deploy.md)."
        )
    if len(facts.domains) == 1:
        sentences.append(
            "How much domains differ: there is one validation set. With several, a rule can look "
            "at each."
        )
    return tuple(sentences)


def _lines(advice: Advice) -> list[str]:
    about = f"{advice.path}, run {advice.run}" if advice.run else advice.path
    lines = [f"{about}: {advice.situation.sentence}"]
    if advice.run:
        lines.append(
            f"It holds {advice.situation.runs} runs. This is about one; --run names another."
        )
    lines.append(
        "What to do, in order of the change of NLL on unseen domains where all of it was measured "
        f"({advice.ordered_by}). Percentages are against the most accurate checkpoint, not "
        "calibrated. Of two steps that were not shown to differ, the simpler one comes first."
    )
    for place, step in enumerate(advice.steps, 1):
        change = "" if step.expected is None else f" [{_percent(step.expected)}]"
        lines += ["", f"{place}. {step.title}.{change}"]
        lines += [f"   {sentence}" for sentence in step.why]
        lines += [f"   $ {command}" for command in step.commands]
        lines += [f"     fill in {what}" for what in step.fill_in]
        lines += [f"   - {line}" for line in shipped.lines(step.evidence)]
        if not step.evidence and step.recipe != REFERENCE_RECIPE:
            lines.append("   - No figure: the study has not measured this.")
    lines += ["", "What nobody here can know:"]
    lines += [f"- {sentence}" for sentence in advice.cannot_know]
    return lines


def _percent(share: float) -> str:
    return f"{number(100 * share, 0, signed=True)}%"
