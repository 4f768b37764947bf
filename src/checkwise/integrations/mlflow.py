"""A selection in MLflow: the numbers of every checkpoint, the choice as tags, and files."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError, naming_extras
from checkwise.integrations.tracker import CHOSEN, PREFIX, Log, Numbers, Told
from checkwise.selection import Selection
from checkwise.words import shown

MOST: Final = 1000  # metrics and parameters that a store takes at a time


@dataclass(frozen=True)
class MlflowLog:
    """Logs selections to one run of MLflow; a later one replaces numbers, tags and files.

    The run gets ``checkwise/<set>/<metric>`` of every checkpoint at its step. The choice is in the
    tags ``checkwise.choice``, ``.rule``, ``.accuracy``, ``.path`` … and, as far as it is numbers,
    in metrics of these names, to sort runs by. Artifacts are the selection, the ranked table and
    the page.

    Args:
        run_id: the run. It has to exist; no active run is looked for.
        tracking_uri: where the run is; by default where ``mlflow`` itself would look.
        upload: copy the weights of the choice to MLflow, as artifacts in ``checkwise/step-<step>``.
    """

    run_id: str
    tracking_uri: str | None = None
    upload: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.run_id, str) or not self.run_id.strip():
            raise InputError(
                f"Expected the id of an MLflow run, but got {shown(self.run_id)}: write "
                "MlflowLog(run.info.run_id)."
            )
        self._client()  # a wrong run is refused before any training

    def log(self, selection: Selection, log: Log = "main") -> None:
        """Log a selection; ``log="all"``: with every metric."""
        told, client = Told(selection, log), self._client()
        if self.upload:
            self._upload(client, told)
        self._log_files(client, selection)
        self._log_numbers(client, told)
        for name, value in told.choice.items():
            client.set_tag(self.run_id, name.replace("/", "."), str(value))

    def _log_numbers(self, client: Any, told: Told) -> None:
        """What is new; of the choice with step 0, because MLflow shows that of the largest step."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        chosen = {name: value for name, value in told.choice.items() if not isinstance(value, str)}
        metrics = [
            Metric(name, value, now, step)
            for step, row in [*self._new_rows(client, told), (0, chosen)]
            for name, value in row.items()
        ]
        for start in range(0, len(metrics), MOST):
            client.log_batch(self.run_id, metrics=metrics[start : start + MOST])

    def _new_rows(self, client: Any, told: Told) -> Iterator[tuple[int, Numbers]]:
        """What the run does not have; every row after one that was measured again, as a log has it.

        Otherwise it would read as two trainings, one after the other.
        """
        rows = told.numbers
        there: dict[str, dict[int, float]] = {}
        for name in dict.fromkeys(name for row in rows.values() for name in row):
            points = client.get_metric_history(self.run_id, name)
            points.sort(key=lambda point: point.timestamp)
            there[name] = {point.step: point.value for point in points}
        again = False
        for step, row in rows.items():
            new = {name: value for name, value in row.items() if there[name].get(step) != value}
            again |= bool(new.keys() - {CHOSEN})
            yield step, row if again else new

    def _log_files(self, client: Any, selection: Selection) -> None:
        from checkwise.page import write_page

        client.log_text(self.run_id, f"{selection.to_json()}\n", f"{PREFIX}/selection.json")
        ranking = selection.table.to_csv(index=False)
        client.log_text(self.run_id, ranking, f"{PREFIX}/ranking.csv")
        with tempfile.TemporaryDirectory() as folder:
            page = write_page(selection, Path(folder, "report.html"))
            client.log_artifact(self.run_id, str(page), PREFIX)

    def _upload(self, client: Any, told: Told) -> None:
        path, place = told.weights, f"{PREFIX}/step-{told.selection.step}"
        put = client.log_artifacts if path.is_dir() else client.log_artifact
        put(self.run_id, str(path), place)

    @naming_extras()
    def _client(self) -> Any:
        """A client, once the run is known to be there."""
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        client = MlflowClient(self.tracking_uri)
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
        return client
