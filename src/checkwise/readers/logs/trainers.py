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
        folders: where checkpoints may lie, relative to the folder of the log, in the order in
            which they are looked through.
        checkpoints: what the trainer calls the checkpoint of a step, with ``{step}``, ``{epoch}``
            or ``{epoch+1}`` for a number and ``*`` for any text. ``{epoch}`` is the epoch as the
            log counts it, ``{index}`` the same counted from 0.
        older: what older versions of the trainer called it.
        weights: what its checkpoints are called whatever step they belong to, with ``*``.
        named_by_user: whether users call their checkpoints what they like; then the number in a
            name is believed where it can be counted in one way only.
        ahead: how much more its own names of checkpoints count than its log.
        closing: how many steps after the last one a validation outside the training is logged; it
            measures whatever model was loaded then.
        state: file in a checkpoint that repeats the log up to it; "" where there is none.
    """

    name: str
    validation: tuple[str, ...] = ()
    percent: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    named_by_user: bool = False
    ahead: int = 0
    closing: int = 0
    state: str = ""


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
    older=(
        "*epoch={epoch}*step={step}*.ckpt",
        "*step={step}*epoch={epoch}*.ckpt",
        "*step={step}*.ckpt",
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
TIMM = Trainer(
    "timm",
    percent=("eval_top1", "eval_top5"),
    folders=(".",),
    checkpoints=("checkpoint-{epoch}.pth.tar",),
    weights=("*.pth.tar",),
)
ULTRALYTICS = Trainer(
    "Ultralytics",
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
    older=("*step={step}*.ckpt",),
    weights=(*KERAS.weights, "checkpoint-*"),
    named_by_user=True,
)
MLFLOW = Trainer("MLflow")
TRACKIO = Trainer("Trackio")
WANDB = Trainer("W&B")
# The number in a name counts checkpoints, not iterations: the log itself says which is whose.
RAY = Trainer("Ray", folders=(".",), weights=("checkpoint_*",), named_by_user=True)
OTHER = Trainer("a table")
