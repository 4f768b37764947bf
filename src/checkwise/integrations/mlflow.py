"""A selection in MLflow: what was chosen and why, and which model of the run it is."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.extras import naming_extras
from checkwise.integrations.arguments import check_flag, check_text
from checkwise.integrations.mlflow_models import (
    checkpoints_of,
    log_models,
    metrics_at,
)
from checkwise.integrations.tracked_metrics import PREFIX
from checkwise.selection.result import Selection
from checkwise.selection.set_as import settings_name
from checkwise.text import shown

SELECTION: Final = f"{PREFIX}/selection.json"
RANKING: Final = f"{PREFIX}/ranking.csv"
REPORT: Final = "report.html"


@dataclass(frozen=True)
class MlflowLog:
    """Logs selections to one run of MLflow. Logging again replaces what was logged before.

    The run gets the selection, the ranked table and the report page as artifacts, and tags with
    the chosen step, the rule and the accuracy. Its metrics are those of the choice. Each kept
    checkpoint is a LoggedModel with its own; the tag ``checkwise.chosen`` says which one was
    chosen.

    Args:
        run_id: the run. It has to exist; no active run is looked for.
        tracking_uri: where the run is; by default where ``mlflow`` itself would look.
        upload: copy the weights of the kept checkpoints to MLflow. Otherwise the tag
            ``checkwise.path`` says where they are.
        registered_model: the name under which you register versions. The alias moves to the
            version of the chosen checkpoint.
        alias: the name of that alias.
    """

    run_id: str
    tracking_uri: str | None = None
    upload: bool = False
    registered_model: str | None = None
    alias: str = "checkwise"

    def __post_init__(self) -> None:
        if not isinstance(self.run_id, str) or not self.run_id.strip():
            raise InputError(
                f"Expected the id of an MLflow run, but got {shown(self.run_id)}: write "
                "MlflowLog(run.info.run_id)."
            )
        check_text(self.tracking_uri, "tracking_uri", "sqlite:///mlflow.db")
        check_text(self.registered_model, "registered_model", "digits")
        check_text(self.alias, "alias", "checkwise")
        check_flag(self.upload, "upload")
        self._run(self._client())  # a wrong run is refused before any training

    def log(
        self, selection: Selection, paths: Mapping[int, str | os.PathLike[str]] | None = None
    ) -> dict[int, str]:
        """Log a selection, and return step → id of the LoggedModel.

        Args:
            selection: from ``cw.select``, or the ``selection`` of a callback or ``LiveSelector``.
            paths: step → file or folder of the weights, of every checkpoint that is kept; by
                default what the selection's run says.
        """
        if paths is not None:
            selection = _with_paths(selection, paths)
        kept = _kept(selection)
        if self.upload:
            _check_there(kept)
        client = self._client()
        run = self._run(client)
        self._log_artifacts(client, selection)
        models = log_models(client, run, checkpoints_of(selection, kept), upload=self.upload)
        for name, value in _tags(selection, models.get(selection.step)).items():
            client.set_tag(self.run_id, f"{PREFIX}.{name}", value)
        self._log_metrics(client, run, selection)
        if self.registered_model is not None:
            self._move_alias(client, selection.step, models.get(selection.step))
        return models

    def _log_artifacts(self, client: Any, selection: Selection) -> None:
        from checkwise.page import write_report

        client.log_text(self.run_id, f"{selection.to_json()}\n", SELECTION)
        client.log_text(self.run_id, selection.table.to_csv(index=False), RANKING)
        with tempfile.TemporaryDirectory() as folder:
            page = write_report(selection, Path(folder, REPORT))
            client.log_artifact(self.run_id, str(page), PREFIX)

    def _log_metrics(self, client: Any, run: Any, selection: Selection) -> None:
        """Give the run the metrics of the choice, and the settings.

        MLflow shows the value of the largest step, and of these the one logged last. The step is
        always 0, so that a choice that returns to an earlier checkpoint replaces the one before.
        """
        from mlflow.entities import Metric

        now, there = int(1000 * time.time()), run.data.metrics
        at_choice = metrics_at(selection, selection.index)
        values = {f"{PREFIX}/{name}": value for name, value in at_choice.items()}
        values[settings_name(selection.settings)] = 1.0
        metrics = [
            Metric(name, value, now, 0)
            for name, value in values.items()
            if there.get(name) != value
        ]
        if metrics:
            client.log_batch(self.run_id, metrics=metrics)

    def _move_alias(self, client: Any, step: int, model_id: str | None) -> None:
        """Give the alias to the version of the chosen checkpoint, or take it from this run."""
        name, alias = self.registered_model, self.alias
        versions = client.search_model_versions(f"name = '{name}'")
        chosen = [int(version.version) for version in versions if _is_of(version, model_id)]
        if chosen:
            client.set_registered_model_alias(name, alias, str(max(chosen)))
            return
        of_run = {str(version.version) for version in versions if version.run_id == self.run_id}
        if of_run and str(client.get_registered_model(name).aliases.get(alias)) in of_run:
            # That of another run is still right; one of this run names another checkpoint.
            client.delete_registered_model_alias(name, alias)
        warnings.warn(
            f"Expected a version of {name} with the chosen checkpoint, step {step}, but there is "
            f"none, so it has no alias {alias!r}: register models:/{model_id or 'MODEL_ID'} as "
            f"{name} and log again.",
            CheckwiseWarning,
            stacklevel=3,
        )

    def _client(self) -> Any:
        with naming_extras():
            from mlflow import MlflowClient

        return MlflowClient(self.tracking_uri)

    def _run(self, client: Any) -> Any:
        from mlflow.exceptions import MlflowException

        try:
            run = client.get_run(self.run_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            raise InputError(
                f"Expected an MLflow run {self.run_id}, but there is none at "
                f"{client.tracking_uri}: pass the run's id, and tracking_uri= if it is elsewhere.",
                code="missing",
            ) from error
        if run.info.lifecycle_stage == "deleted":
            raise InputError(
                f"Expected an MLflow run that is active, but {self.run_id} is deleted: restore it "
                "or pass another.",
                code="missing",
            )
        return run


def _is_of(version: Any, model_id: str | None) -> bool:
    """Whether a version is of a model; most stores tell by its source, ``models:/MODEL_ID``."""
    return model_id is not None and (
        version.model_id == model_id or model_id in str(version.source).split("/")
    )


def _with_paths(selection: Selection, paths: Mapping[int, str | os.PathLike[str]]) -> Selection:
    """The selection with the places that a user names."""
    steps = selection.trajectory.steps.tolist()
    if unknown := sorted(set(paths) - set(steps)):
        raise InputError(
            f"Expected paths of the steps {steps[0]} … {steps[-1]} of this run, but got one of "
            f"step {unknown[0]}, which was not measured.",
            code="unknown",
        )
    named = tuple(os.fspath(paths[step]) if step in paths else None for step in steps)
    return replace(selection, trajectory=replace(selection.trajectory, paths=named))


def _kept(selection: Selection) -> dict[int, str]:
    run = selection.trajectory
    return {
        step: path for step, path in zip(run.steps.tolist(), run.paths or (), strict=False) if path
    }


def _check_there(kept: Mapping[int, str]) -> None:
    for step, path in kept.items():
        if not Path(path).exists():
            raise InputError(
                f"Expected the checkpoint of step {step} to upload, but there is nothing "
                f"at {path}.",
                code="missing",
            )


def _tags(selection: Selection, model_id: str | None) -> dict[str, str]:
    accuracy = selection.accuracy
    return {
        "step": str(selection.step),
        "rule": selection.rule,
        "accuracy": "" if accuracy is None else repr(accuracy),
        "path": selection.path or "",
        "model_id": model_id or "",
    }
