"""What a run saved of every example of source validation: logits, or correctness and NLL alone.

A run has one validation set or two: held-out examples, held-out groups, or both along one training.
The first is the run's own: ``domains`` in the lines of ``source.jsonl``, ``predictions/source``. A
run with two has the results on whole groups beside it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from checkwise import metrics
from checkwise.errors import InputError
from checkwise.metrics import CountedExamples, Groups, Logits
from checkwise.records import Examples, Outcomes, Trajectory
from checkwise.store import layout
from checkwise.store.checksums import read_recorded
from checkwise.store.layout import damaged_file
from checkwise.store.npz import open_npz

SplitBy: TypeAlias = Literal["examples", "groups", "both"]
SPLIT_BY: Final[tuple[SplitBy, ...]] = get_args(SplitBy)
Validation: TypeAlias = Literal["examples", "groups"]
VALIDATIONS: Final[tuple[Validation, ...]] = get_args(Validation)

OWN: Final = "domains"  # where lines of source.jsonl have the run's own validation set
GROUPS: Final = "groups"  # where they have the other one
_OUTCOMES: Final = (".correct", ".nll", ".labels")


def check_validation(name: str | None) -> Validation | None:
    """Refuse any other word; None is the run's own validation set."""
    if name is not None and name not in VALIDATIONS:
        raise InputError(
            f"Expected a validation among {', '.join(VALIDATIONS)}, but got {name!r}: choose one.",
            code="unknown",
        )
    return name


def is_second(config: Mapping[str, Any], validation: Validation | None, where: object) -> bool:
    """Whether a validation set is the second one of a run with this configuration."""
    split_by = config.get("split_by", "examples")
    if validation is None or validation == split_by:
        return False
    if split_by == "both":
        return validation == "groups"
    have = "whole groups" if split_by == "groups" else "examples"
    raise InputError(
        f"Expected a run that was validated on {validation}, but {where} held out {have} only: "
        'train it with split_by = "both" (or leave the validation out).',
        code="unsupported",
    )


@dataclass(frozen=True)
class RunPredictions:
    """The saved predictions of a run on one of its validation sets; ``second`` is whole groups.

    Held-out logits lie in other files, which are not opened. ``advice`` says what to do where
    there is no file.
    """

    folder: Path
    held_out: tuple[str, ...]
    advice: Callable[[], str]
    second: bool = False

    def logits(self, step: int) -> Logits:
        """Logits and labels of every source domain at a step."""
        name = self._logits_file(step)
        logits = read_logits(self.folder, name, f"source logits of step {step}", self.advice)
        if set(logits) & set(self.held_out):
            raise InputError(
                f"Expected source domains only, but got a held-out one in {self.folder / name}: "
                "the file does not belong to this run.",
                code="held-out",
            )
        return logits

    def groups(self, step: int) -> Groups | None:
        """The independent unit of every example, as numbers; None where the data have none."""
        return self._groups_in(self._logits_file(step), step) or None

    def examples(self, run: Trajectory) -> Examples | None:
        """The examples, read when they are first asked for; None where none were saved."""
        has_logits = self._keeps(self._logits_file)
        if not has_logits and not self._keeps(self._outcomes_file):
            return None
        return Examples(
            domains=run.domains,
            steps=run.steps,
            outcomes=lambda: self._outcomes(run),
            logits=self.logits if has_logits else None,
        )

    def _groups_in(self, name: str, step: int) -> Groups:
        what = f"groups of the examples of step {step}"
        arrays = _read_arrays(self.folder, name, (".groups",), what, self.advice)
        return {n.removesuffix(".groups"): codes.astype(np.int64) for n, codes in arrays.items()}

    def _logits_file(self, step: int) -> str:
        if self.second:
            return layout.groups_predictions_file(step)
        return layout.source_predictions_file(step)

    def _outcomes_file(self, step: int) -> str:
        return layout.outcomes_file(step, second=self.second)

    def _keeps(self, file: Callable[[int], str]) -> bool:
        return (self.folder / file(0)).parent.is_dir()

    def _outcomes(self, run: Trajectory) -> Outcomes:
        """Correctness and NLL of every checkpoint, as saved or from its logits, file by file."""
        saved = self._keeps(self._outcomes_file)
        file_of = self._outcomes_file if saved else self._logits_file
        rows: list[dict[str, CountedExamples] | None] = []
        first: dict[str, CountedExamples] = {}
        for step, lost in zip(run.steps.tolist(), run.diverged.tolist(), strict=True):
            if lost:
                rows.append(None)
                continue
            found = self._saved(step) if saved else self._computed(step)
            first = first or found
            where = str(self.folder / file_of(step))
            for name in run.domains:
                if name not in found:
                    raise damaged_file(f"the examples of {name!r}", sorted(found), where)
                if not np.array_equal(first[name].labels, found[name].labels):
                    wanted = f"the labels of {name!r} to be the same at every step"
                    raise damaged_file(wanted, found[name].labels.tolist(), where)
            rows.append(found)
        begin = int(run.steps[0])
        return Outcomes.stacked(run.domains, rows, groups=self._groups_in(file_of(begin), begin))

    def _computed(self, step: int) -> dict[str, CountedExamples]:
        logits = self.logits(step).items()
        rows = {name: (metrics.per_example(logits=z, labels=y), y) for name, (z, y) in logits}
        return {name: CountedExamples(row.correct, y, row.nll) for name, (row, y) in rows.items()}

    def _saved(self, step: int) -> dict[str, CountedExamples]:
        name = self._outcomes_file(step)
        arrays = _read_arrays(self.folder, name, _OUTCOMES, f"outcomes of step {step}", self.advice)
        found: dict[str, CountedExamples] = {}
        for domain in sorted(n.removesuffix(".correct") for n in arrays if n.endswith(".correct")):
            bits, nll, labels = (arrays.get(f"{domain}{ending}") for ending in _OUTCOMES)
            if (
                bits is None
                or nll is None
                or labels is None
                or labels.ndim != 1
                or nll.shape != labels.shape
                or bits.dtype != np.uint8
                or bits.shape != ((len(labels) + 7) // 8,)
            ):
                wanted = f"a bit, an NLL and a label per example of {domain!r}"
                raise damaged_file(wanted, sorted(arrays), str(self.folder / name))
            correct = np.unpackbits(bits, count=len(labels)).astype(np.bool_)
            found[domain] = CountedExamples(correct, labels.astype(np.int64), nll.astype(float))
        return found


def read_logits(folder: Path, name: str, what: str, advice: Callable[[], str]) -> Logits:
    """``<domain>.logits`` and ``<domain>.labels`` of one of a run's files, by domain.

    ``advice`` says what to do where there is no such file.
    """
    arrays = _read_arrays(folder, name, (".logits", ".labels"), what, advice)
    domains = sorted(n.removesuffix(".logits") for n in arrays if n.endswith(".logits"))
    return {d: (arrays[f"{d}.logits"], arrays[f"{d}.labels"]) for d in domains}


def _read_arrays(
    folder: Path, name: str, endings: tuple[str, ...], what: str, advice: Callable[[], str]
) -> dict[str, NDArray[Any]]:
    """The arrays of one of a run's files whose names end so."""
    path = folder / name
    try:
        with open_npz(io.BytesIO(read_recorded(folder, name))) as (headers, arrays):
            return {n: arrays[n] for n in headers if n.endswith(endings)}
    except FileNotFoundError:
        raise InputError(
            f"Expected {what}, but there is no {path.name} in {path.parent}: {advice()}.",
            code="missing",
        ) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise damaged_file(what, error, str(path)) from None
