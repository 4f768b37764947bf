"""Ray Train's snapshot of its checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from checkwise.readers import ray
from checkwise.readers.log import RAY
from tests.readers.logs.tracker_stores import MATERIAL, cells, logs_in, own_reading
from tests.refusals import refused

SNAPSHOT: dict[str, Any] = json.loads((MATERIAL / "ray_train_snapshot.json").read_text())
METRICS: dict[str, Any] = own_reading("ray_train")
REPORTS = [0, 1, 3, 4]  # the report between them had no checkpoint


def _write(folder: Path, **changes: Any) -> Path:
    path = folder / "checkpoint_manager_snapshot.json"
    path.write_text(json.dumps(SNAPSHOT | changes))
    return path


def test_a_snapshot_is_recognised_by_its_contents(tmp_path: Path) -> None:
    path = _write(tmp_path)
    assert ray.recognises(path)
    assert ray.recognises(tmp_path)
    renamed = path.rename(tmp_path / "any.name")
    assert ray.recognises(renamed)
    assert not ray.recognises(tmp_path)
    for text in ("{", "[]", '{"checkpoint_results": 1}', "[" * 100_000, '["checkpoint_results"]'):
        path.write_text(text)
        assert not ray.recognises(path)


def test_metrics_are_those_that_ray_reads(tmp_path: Path) -> None:
    (log,) = logs_in(ray, _write(tmp_path))
    assert (log.trainer, log.header) == (RAY, ("val/acc", "val/loss"))
    assert log.axes == {"step": "checkpoint_report_indices", "epoch": "epoch"}
    by_time = [METRICS[name] for name in sorted(METRICS)]
    for name in ("acc", "loss"):
        expected = [(report, m["val"][name]) for report, m in zip(REPORTS, by_time, strict=True)]
        assert cells(log, f"val/{name}") == expected
    assert log.points("val/acc").epochs.tolist() == REPORTS


def test_checkpoints_that_are_there_are_named(tmp_path: Path) -> None:
    first, _, _, last = sorted(METRICS)
    for name in (first, last):
        (tmp_path / name).mkdir()
    (log,) = logs_in(ray, _write(tmp_path))
    assert log.files == {0: str(tmp_path / first), 4: str(tmp_path / last)}


def test_without_indices_the_names_hold_the_order(tmp_path: Path) -> None:
    (log,) = logs_in(ray, _write(tmp_path, checkpoint_report_indices=None))
    expected = [(k, METRICS[name]["val"]["acc"]) for k, name in enumerate(sorted(METRICS))]
    assert cells(log, "val/acc") == expected


def test_names_that_are_paths_lead_nowhere(tmp_path: Path) -> None:
    results = [{"checkpoint_dir_name": "..", "metrics": {"val_acc": 1}}]
    path = _write(tmp_path, checkpoint_results=results, checkpoint_report_indices=[0])
    (log,) = logs_in(ray, path)
    assert (log.header, log.files) == (("val_acc",), {})


def test_a_result_without_metrics_is_refused(tmp_path: Path) -> None:
    named = {"checkpoint_dir_name": "a"}
    for result in (7, {}, named, {**named, "metrics": [1]}):
        with refused("format: checkpoint_dir_name"):
            logs_in(ray, _write(tmp_path, checkpoint_results=[result]))


def test_a_training_without_checkpoints_says_so(tmp_path: Path) -> None:
    with refused("empty"):
        logs_in(ray, _write(tmp_path, checkpoint_results=[]))
    (tmp_path / "checkpoint_manager_snapshot.json").write_text("{")
    with refused("format"):
        logs_in(ray, tmp_path)
