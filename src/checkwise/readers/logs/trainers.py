"""What is known of each trainer's logs beyond what their columns are called."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trainer:
    """One kind of log.

    Args:
        name: what messages call it.
        validation: columns that are validation although their names do not say so.
        percent: columns that are in percent by the format.
        checkpoints: where checkpoints lie, as patterns below the run's folder, with ``{step}``,
            ``{epoch}`` or ``{epoch+1}`` for a number and ``*`` for any text within one name.
            ``{epoch}`` is the epoch as the log counts it.
        closing: how many steps after the last one a validation outside the training is logged; it
            measures whatever model was loaded then.
    """

    name: str
    validation: tuple[str, ...] = ()
    percent: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    closing: int = 0


TRANSFORMERS = Trainer("transformers", checkpoints=("checkpoint-{step}",))
LIGHTNING = Trainer(
    "Lightning",
    closing=1,
    # `step` in the name counts finished steps; the log has the step before.
    checkpoints=(
        "checkpoints/*epoch={epoch}-step={step+1}*.ckpt",
        "checkpoints/*epoch={epoch}*.ckpt",
    ),
)
KERAS = Trainer("Keras")
TIMM = Trainer(
    "timm", percent=("eval_top1", "eval_top5"), checkpoints=("checkpoint-{epoch}.pth.tar",)
)
ULTRALYTICS = Trainer(
    "Ultralytics",
    validation=("metrics/accuracy_top1", "metrics/accuracy_top5"),
    checkpoints=("weights/epoch{epoch-1}.pt",),
)
FASTAI = Trainer("fastai", validation=("accuracy", "error_rate"))
TENSORBOARD = Trainer("TensorBoard")
MLFLOW = Trainer("MLflow")
TRACKIO = Trainer("Trackio")
WANDB = Trainer("W&B")
RAY = Trainer("Ray", checkpoints=("checkpoint_{step-1}",))
OTHER = Trainer("a table")
