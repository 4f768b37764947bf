"""The LoggedModels of an MLflow run: one per kept checkpoint, tagged with where it stands.

A model that the user logged at a step is the model of that step. Elsewhere one is created. It is
``READY`` once it is whole, so what a killed process left is never taken for a checkpoint. Nothing
is deleted: a model whose checkpoint is gone or was trained again is tagged as not kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkwise.integrations.tracked_metrics import PREFIX
from checkwise.selection.result import Selection

SERIES: Final = f"{PREFIX}/checkpoint"  # metrics over steps, of which a run shows the last
STEP: Final = f"{PREFIX}.step"  # only models that were created here have it
PATH: Final = f"{PREFIX}.path"
UPLOADED: Final = f"{PREFIX}.uploaded"
KEPT: Final = f"{PREFIX}.kept"
CHOSEN: Final = f"{PREFIX}.chosen"
FEASIBLE: Final = f"{PREFIX}.feasible"
RANK: Final = f"{PREFIX}.rank"


@dataclass(frozen=True)
class Checkpoint:
    """What MLflow is told about one checkpoint.

    Attributes:
        step: the training step.
        path: where the weights are; None if that is not known.
        metrics: by name, as the rule saw them: means over domains.
        standing: tags that change as other checkpoints come.
    """

    step: int
    path: str | None
    metrics: Mapping[str, float]
    standing: Mapping[str, str]


def checkpoints_of(selection: Selection, paths: Mapping[int, str]) -> list[Checkpoint]:
    """Every checkpoint of a selection; the chosen one comes last."""
    run = selection.trajectory
    checkpoints = [
        Checkpoint(
            step=int(step),
            path=paths.get(int(step)),
            metrics={
                f"{SERIES}/{name}": value for name, value in metrics_at(selection, row).items()
            },
            standing={
                CHOSEN: _tag(row == selection.index),
                FEASIBLE: _tag(bool(selection.ranking.eligible[row])),
                RANK: str(int(selection.rank[row])),
            },
        )
        for row, step in enumerate(run.steps.tolist())
    ]
    return sorted(checkpoints, key=lambda checkpoint: checkpoint.step == selection.step)


def metrics_at(selection: Selection, row: int) -> dict[str, float]:
    """The metrics of one checkpoint as the rule saw them, where they are finite."""
    columns = selection.columns
    values = {
        name: float(columns[name][row]) for name in selection.trajectory.metrics if name in columns
    }
    return {name: value for name, value in values.items() if math.isfinite(value)}


def log_models(
    client: Any, run: Any, checkpoints: Sequence[Checkpoint], *, upload: bool
) -> dict[int, str]:
    """Log the models of a run, and return step → id of the model."""
    models = [model for model in _models_of(client, run) if model.tags.get(KEPT) != "false"]
    created = [model for model in models if STEP in model.tags]
    logged_by_user = _by_step(run, [model for model in models if STEP not in model.tags])
    logged: dict[int, Any] = {}
    for checkpoint in checkpoints:
        step = checkpoint.step
        if step in logged_by_user:
            logged[step] = logged_by_user[step]
            _log_metrics(client, run, logged[step], checkpoint)
        elif checkpoint.path is not None:
            same = (model for model in created if _is_of(model, checkpoint, upload=upload))
            logged[step] = next(same, None) or _create(client, run, checkpoint, upload=upload)
    current = {model.model_id for model in logged.values()}
    for model in created:
        if model.model_id not in current:
            client.set_logged_model_tags(model.model_id, {KEPT: "false", CHOSEN: "false"})
    # The chosen one is last, so that at no time two are.
    for checkpoint in checkpoints:
        if checkpoint.step in logged:
            _tag_model(client, logged[checkpoint.step], checkpoint.standing)
    return {step: str(model.model_id) for step, model in logged.items()}


def _models_of(client: Any, run: Any) -> Iterator[Any]:
    """The models of a run, oldest first."""
    token: str | None = None
    while True:
        page = client.search_logged_models(
            experiment_ids=[run.info.experiment_id],
            filter_string=f"source_run_id = '{run.info.run_id}'",
            order_by=[{"field_name": "creation_timestamp", "ascending": True}],
            page_token=token,
        )
        yield from page
        token = page.token
        if not token:
            return


def _by_step(run: Any, models: Sequence[Any]) -> dict[int, Any]:
    """Step → the newest model that was logged with that step.

    MLflow writes 0 where no step was given: it is believed where another model has a step.
    """
    outputs = [] if run.outputs is None else run.outputs.model_outputs
    step_of = {output.model_id: output.step for output in outputs}
    steps = {model.model_id: step_of.get(model.model_id, 0) for model in models}
    if not any(steps.values()):
        return {}
    return {steps[model.model_id]: model for model in models}


def _is_of(model: Any, checkpoint: Checkpoint, *, upload: bool) -> bool:
    """Whether a model is whole and of this checkpoint, not of an earlier training of its step."""
    return (
        model.tags[STEP] == str(checkpoint.step)
        and model.tags.get(PATH) == checkpoint.path
        and model.tags.get(UPLOADED) == _tag(upload)
        and str(model.status) == "READY"
        and _metrics_of(model) == checkpoint.metrics
    )


def _create(client: Any, run: Any, checkpoint: Checkpoint, *, upload: bool) -> Any:
    from mlflow.entities import LoggedModelOutput

    model = client.create_logged_model(
        run.info.experiment_id,
        name=f"step-{checkpoint.step}",
        source_run_id=run.info.run_id,
        model_type="checkpoint",
        tags={
            STEP: str(checkpoint.step),
            PATH: str(checkpoint.path),
            UPLOADED: _tag(upload),
            KEPT: "true",
        },
    )
    client.log_outputs(run.info.run_id, [LoggedModelOutput(model.model_id, checkpoint.step)])
    _log_metrics(client, run, model, checkpoint)
    if upload:
        path = Path(str(checkpoint.path))
        if path.is_dir():
            client.log_model_artifacts(model.model_id, str(path))
        else:
            client.log_model_artifact(model.model_id, str(path))
    return client.finalize_logged_model(model.model_id, "READY")


def _log_metrics(client: Any, run: Any, model: Any, checkpoint: Checkpoint) -> None:
    """Log what the model does not have yet; MLflow logs it to the run too, as a series."""
    from mlflow.entities import Metric

    there, now = _metrics_of(model), int(1000 * time.time())
    run_id, model_id = run.info.run_id, model.model_id
    metrics = [
        Metric(name, value, now, checkpoint.step, model_id=model_id, run_id=run_id)
        for name, value in checkpoint.metrics.items()
        if there.get(name) != value
    ]
    if metrics:
        client.log_batch(run_id, metrics=metrics)


def _metrics_of(model: Any) -> dict[str, float]:
    """The latest values of our metrics at a model."""
    ours = [metric for metric in model.metrics or () if metric.key.startswith(f"{SERIES}/")]
    return {m.key: m.value for m in sorted(ours, key=lambda metric: metric.timestamp)}


def _tag_model(client: Any, model: Any, tags: Mapping[str, str]) -> None:
    new = {name: value for name, value in tags.items() if model.tags.get(name) != value}
    if new:
        client.set_logged_model_tags(model.model_id, new)


def _tag(value: bool) -> str:
    return "true" if value else "false"
