"""What is known of each trainer's logs beyond what their columns are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.records import Columns


@dataclass(frozen=True)
class Trainer:
    """One kind of log.

    ``checkpoints`` is what the trainer calls the checkpoint of a step, with ``{step}``, ``{epoch}``
    or ``{epoch+1}`` for a number and ``*`` for any text. ``{epoch}`` is the epoch as the log counts
    it, ``{index}`` the same counted from 0. What has ``{step+1}`` may be of an older version, which
    counted steps as the log does.
    """

    name: str  # what messages call it
    validation: tuple[str, ...] = ()  # columns that are validation whatever their names say
    percent: tuple[str, ...] = ()  # columns that are in percent by the format
    folders: tuple[str, ...] = ()  # of checkpoints, from that of the log, in order
    checkpoints: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()  # names of checkpoints whatever step they belong to, with ``*``
    # Users call their checkpoints what they like; the number in a name is believed where it can be
    # counted in one way only.
    named_by_user: bool = False
    ahead: int = 0  # how much more its own names of checkpoints count than its log
    # How many steps after the last one a validation outside the training is logged, which measures
    # whatever model was loaded then.
    closing: int = 0
    state: str = ""  # file in a checkpoint that repeats the log up to it
    own_score: int | None = None  # of several scores, the place of that by which it keeps its best


TRANSFORMERS = Trainer(
    "transformers",
    folders=(".",),
    checkpoints=("checkpoint-{step}",),
    weights=("checkpoint-*",),
    state="trainer_state.json",
)
LIGHTNING = Trainer(
    "Lightning",
    closing=1,
    ahead=1,
    folders=("checkpoints", ".", "../checkpoints", ".."),
    # A name counts finished steps, the log has the step before; before 1.6 names had it too.
    checkpoints=(
        "*epoch={epoch}*step={step+1}*.ckpt",
        "*step={step+1}*epoch={epoch}*.ckpt",
        "*step={step+1}*.ckpt",
        "*epoch={epoch}*.ckpt",
    ),
    weights=("*.ckpt",),
    named_by_user=True,
)
KERAS = Trainer(
    "Keras",
    ahead=1,
    folders=(".", "checkpoints", "weights", "models"),
    weights=("*.keras", "*.h5", "*.hdf5", "*.ckpt", "*.ckpt.index"),
    named_by_user=True,
)
HISTORY = Trainer(
    "a history",
    ahead=1,
    folders=KERAS.folders,
    weights=(*KERAS.weights, "*.pt", "*.pth"),
    named_by_user=True,
)
TIMM = Trainer(
    "timm",
    percent=("eval_top1", "eval_top5"),
    folders=(".",),
    checkpoints=("checkpoint-{epoch}.pth.tar",),
    weights=("*.pth.tar",),
)
ULTRALYTICS = Trainer(
    "Ultralytics",
    own_score=-1,  # of boxes, then of masks or poses
    folders=("weights",),
    # The log counts from 1, in older versions from 0; names always count from 0.
    checkpoints=("epoch{index}.pt",),
    weights=("*.pt",),
)
FASTAI = Trainer(
    "fastai",
    validation=("accuracy", "error_rate"),
    folders=("models", "."),
    weights=("*.pth",),
    named_by_user=True,
)
TENSORBOARD = Trainer(
    "TensorBoard",
    # Lightning logs into the run's folder, Keras' users below it, transformers into its
    # `runs/<date>_<host>`.
    folders=("checkpoints", ".", "..", "../.."),
    checkpoints=("*step={step+1}*.ckpt", "checkpoint-{step}"),
    weights=(*KERAS.weights, "checkpoint-*"),
    named_by_user=True,
)
MLFLOW = Trainer(
    "MLflow",
    # Of transformers, and of MLflow's own callback, where the steps of metrics may be epochs.
    checkpoints=("checkpoint-{step}", "global_step_{step}", "epoch_{epoch}"),
    weights=(*HISTORY.weights, "*.safetensors", "checkpoint-*", "global_step_*", "epoch_*"),
    named_by_user=True,
)
TRACKIO = Trainer("Trackio")
WANDB = Trainer("W&B")
# The number in a name counts checkpoints, not iterations: the log itself says which is whose.
MMENGINE = Trainer(
    "mmengine",
    own_score=0,
    # Its log lies in <work_dir>/<time>/vis_data.
    folders=("../..", "."),
    checkpoints=("epoch_{epoch}.pth", "iter_{step}.pth"),
    weights=("epoch_*.pth", "iter_*.pth"),
)
DETECTRON2 = Trainer(
    "Detectron2",
    own_score=0,
    folders=(".",),
    checkpoints=("model_{step}.pth",),
    weights=("model_*.pth",),
)
ALLENNLP = Trainer(
    "AllenNLP",
    folders=(".",),
    checkpoints=("model_state_epoch_{epoch}.th", "model_state_e{epoch}_b*.th"),
    weights=("model_state_*.th",),
)
DVCLIVE = Trainer("DVCLive")
CATBOOST = Trainer("CatBoost", own_score=0)
TREES = Trainer("boosted trees")
RAY = Trainer("Ray", folders=(".",), weights=("checkpoint_*",), named_by_user=True)
OTHER = Trainer("a table")


FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Best:
    """The checkpoint that the trainer itself calls its best: name, step, and column if known."""

    name: str
    step: int
    column: str = ""


@dataclass(frozen=True)
class Points:
    """The filled cells of one column in the order of the file, as they stand there.

    A step or epoch is nan where the row names none.
    """

    steps: FloatArray
    epochs: FloatArray
    cells: Sequence[Any]


@dataclass(frozen=True)
class Log:
    """The log of one run: named columns of numbers, each beside a step or an epoch.

    A column is read only when somebody asks for its points, so what stands in a test column can
    neither change an answer nor stop it.

    ``axes`` is what the columns for ``step`` and ``epoch`` are called in the file, as far as it has
    them; a file whose records carry a step of their own (TensorBoard, MLflow) has
    ``{"step": "step"}``. ``said`` gives the cells beside the metrics, by column, of the rows that
    have a step or epoch; they may say that a row is held out.
    """

    path: Path
    trainer: Trainer
    header: tuple[str, ...]  # the columns that could hold a metric, in the order of the file
    columns: Callable[[Sequence[str]], Mapping[str, Points]]
    run: str = ""  # its name, where one file or folder holds several
    files: Mapping[int, str] = field(default_factory=dict)  # checkpoints that the log itself names
    axes: Mapping[str, str] = field(default_factory=lambda: {"step": "step"})
    said: Callable[[], Columns] = tuple
    notes: tuple[str, ...] = ()
    # Column → its set and what it measures, where the format says so and the name does not.
    called: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    best: Best | None = None
    call: str = ""  # how the trainer's own code takes a step without a file, with ``{step}``

    def points(self, name: str) -> Points:
        """The filled cells of one column."""
        return self.columns((name,))[name]


def each(points: Callable[[str], Points]) -> Callable[[Sequence[str]], dict[str, Points]]:
    """What reads several columns, from what reads one."""
    return lambda names: {name: points(name) for name in names}
