"""Small logs of known evaluations, written as trainers write them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

# Cells of a row that are there; a sparse row lacks some.
Row = dict[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """One evaluation: thousandths that were right, and the loss in ten-thousandths."""

    step: int
    right: int
    loss: int


def evaluations(least: int = 3) -> st.SearchStrategy[list[Evaluation]]:
    """Evaluations at increasing steps, with accuracies and losses that can belong together."""
    facts = st.tuples(st.integers(1, 9), st.integers(20, 1000), st.integers(7_000, 40_000))

    def at_steps(parts: list[tuple[int, int, int]]) -> list[Evaluation]:
        steps = [10 * sum(gap for gap, _, _ in parts[: k + 1]) for k in range(len(parts))]
        return [
            Evaluation(step, right, loss)
            for step, (_, right, loss) in zip(steps, parts, strict=True)
        ]

    return st.lists(facts, min_size=least, max_size=8).map(at_steps)


def rows(run: Sequence[Evaluation], prefix: str = "val_", *, percent: bool = False) -> list[Row]:
    """A row for each evaluation, with the numbers as text."""
    return [
        {
            "step": one.step,
            f"{prefix}acc": f"{one.right / 10:.1f}" if percent else f"{one.right / 1000:.3f}",
            f"{prefix}loss": f"{one.loss / 10_000:.4f}",
        }
        for one in run
    ]


def write_csv(path: Path, records: Sequence[Row], header: Sequence[str] = ()) -> Path:
    names = list(header) or list(dict.fromkeys(name for row in records for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        writer.writerows(records)
    return path


def _numbers(row: Row) -> Row:
    numbers: Row = {}
    for name, cell in row.items():
        try:
            numbers[name] = float(cell) if isinstance(cell, str) else cell
        except ValueError:
            numbers[name] = cell
    return numbers


def write_lines(path: Path, records: Sequence[Row], header: Sequence[str] = ()) -> Path:
    ordered = [{name: row[name] for name in header or row if name in row} for row in records]
    path.write_text("".join(json.dumps(_numbers(row)) + "\n" for row in ordered))
    return path


def write_state(path: Path, records: Sequence[Row], header: Sequence[str] = ()) -> Path:
    ordered = [{name: row[name] for name in header or row if name in row} for row in records]
    history = [_numbers(row) for row in ordered]
    path.write_text(json.dumps({"global_step": 1, "log_history": history}))
    return path


Writer = Callable[..., Path]
WRITERS: dict[str, Writer] = {
    "metrics.csv": write_csv,
    "history.jsonl": write_lines,
    "trainer_state.json": write_state,
}
