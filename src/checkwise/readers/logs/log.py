"""A trainer's log as it was written, whatever the file: named columns of sparse cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.readers.logs.trainers import Trainer
from checkwise.records.held_out_cells import Columns

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Points:
    """The filled cells of one column, in the order in which they were written.

    Args:
        steps: training step of each cell; nan where its row names none.
        epochs: epoch of each cell; nan where its row names none.
        cells: the cells as they stand in the file, text or numbers.
    """

    steps: FloatArray
    epochs: FloatArray
    cells: Sequence[Any]


@dataclass(frozen=True)
class Log:
    """The log of one run.

    A column is read only when somebody asks for its points, so what stands in a test column can
    neither change an answer nor stop it.

    Args:
        path: the file or folder that it was read from.
        trainer: what is known of logs of this kind.
        header: names of the columns that could hold a metric, in the order of the file.
        points: the filled cells of a column.
        run: name of the run, where one file or folder holds several; "" otherwise.
        files: checkpoint at a step, where the log itself says it (MLflow's models, Ray).
        axes: what the columns for ``step`` and ``epoch`` are called in the file, as far as it has
            them; a file whose records carry a step of their own (TensorBoard, MLflow) has
            ``{"step": "step"}``.
        said: the cells beside the metrics, by column, of the rows that have a step or epoch; they
            may say that a row is held out.
        notes: what to say about how the log was read.
    """

    path: Path
    trainer: Trainer
    header: tuple[str, ...]
    points: Callable[[str], Points]
    run: str = ""
    files: Mapping[int, str] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    said: Callable[[], Columns] = tuple
    notes: tuple[str, ...] = ()
