"""The loop: when records are written, what is in them, and what happens when things go wrong."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from checkwise import metrics
from checkwise.store import (
    CHECKPOINTS_FOLDER,
    SOURCE_FILE,
    checkpoint_file,
    heldout_predictions_file,
    read_run,
    source_predictions_file,
)
from checkwise.study.data import split
from checkwise.study.train import Algorithm, build_run
from tests.refusals import refused
from tests.runs import config, contents, digits, ready, train


def lines(folder: Path, name: str = SOURCE_FILE) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.mark.parametrize(
    ("steps", "every", "expected"), [(13, 3, [0, 3, 6, 9, 12]), (12, 5, [0, 5, 10, 11])]
)
def test_records_come_at_every_nth_step_and_the_last(
    tmp_path: Path, steps: int, every: int, expected: list[int]
) -> None:
    train(tmp_path / "run", config(steps=steps, record_every=every))
    assert [line["step"] for line in lines(tmp_path / "run")] == expected
    assert [line["step"] for line in lines(tmp_path / "run", "heldout/30.jsonl")] == expected


def test_a_record_at_step_0_is_written_after_the_first_update(tmp_path: Path) -> None:
    train(tmp_path / "run", config(steps=1))
    algorithm, sampler = build_run(config(), ready())
    before = algorithm.deployable_state()
    algorithm.update(ready().inputs.minibatches([0, 1], sampler.next(), random=(0, 0)))
    saved = load_file(tmp_path / "run" / checkpoint_file(0))
    assert saved.keys() == before.keys()
    assert all(torch.equal(saved[k], v) for k, v in algorithm.deployable_state().items())
    assert not all(torch.equal(saved[k], v) for k, v in before.items())


def test_recorded_metrics_are_those_of_the_saved_weights_on_the_right_splits(
    tmp_path: Path,
) -> None:
    train(tmp_path / "run", config(source_in=True))
    algorithm, _ = build_run(config(), ready())
    algorithm.load_state_dict(load_file(tmp_path / "run" / checkpoint_file(9)), strict=False)
    data = digits()
    record = lines(tmp_path / "run")[3]
    target = lines(tmp_path / "run", "heldout/30.jsonl")[3]

    def expected(domain: int, part: int) -> dict[str, float]:
        rows = split(data.sizes[domain], domain_index=domain, trial_seed=0)[part]
        logits = algorithm.predict(ready().inputs.rows(domain, rows))
        return metrics.evaluate(logits=logits, labels=data.y[domain][rows]).values()

    for domain, name in enumerate(("0", "15")):
        for where, part in (("domains", 1), ("in", 0)):
            found = {k: v for k, v in record[where][name].items() if k not in ("n", "correct")}
            assert found == pytest.approx(expected(domain, part), abs=1e-6)
    found = {k: target[k] for k in expected(2, 0)}
    assert found == pytest.approx(expected(2, 0), abs=1e-6)


def test_logged_terms_are_means_since_the_last_record(tmp_path: Path) -> None:
    train(tmp_path / "run", config("VREx"))
    algorithm, sampler = build_run(config("VREx"), ready())
    terms = [
        algorithm.update(ready().inputs.minibatches([0, 1], sampler.next(), random=(0, 0)))
        for _ in range(4)
    ]
    first, second = (line["train"] for line in lines(tmp_path / "run")[:2])
    assert first["penalty"] == terms[0]["penalty"].item()
    assert second["loss"] == pytest.approx(np.mean([t["loss"].item() for t in terms[1:]]))


def test_a_run_is_repeatable(tmp_path: Path) -> None:
    train(tmp_path / "one", config("GroupDRO"))
    torch.rand(5)
    train(tmp_path / "two", config("GroupDRO"))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_held_out_data_change_nothing_that_selection_reads(tmp_path: Path) -> None:
    with_target = config()
    train(tmp_path / "one", with_target)
    train(tmp_path / "two", config(logits="all", keep="none"))
    one, two = (tmp_path / name / SOURCE_FILE for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert not (tmp_path / "two" / CHECKPOINTS_FOLDER).exists()


def test_logits_are_saved_apart(tmp_path: Path) -> None:
    train(tmp_path / "run", config(logits="all", steps=1))
    with np.load(tmp_path / "run" / source_predictions_file(0)) as file:
        assert sorted(file.files) == ["0.labels", "0.logits", "15.labels", "15.logits"]
        assert file["0.logits"].dtype == np.float32
    with np.load(tmp_path / "run" / heldout_predictions_file("30", 0)) as file:
        assert sorted(file.files) == ["30.labels", "30.logits"]


def test_a_checkpoint_with_outputs_that_are_not_finite_is_marked_and_training_goes_on(
    tmp_path: Path,
) -> None:
    class Spoil:
        name = "spoil"

        def after_update(self, step: int, algorithm: Algorithm) -> None:
            if step == 4:
                with torch.no_grad():
                    next(algorithm.classifier.parameters()).fill_(float("inf"))

        def at_record(self, record: Mapping[str, Any], algorithm: Algorithm, folder: Path) -> None:
            pass

        def state(self) -> dict[str, Any]:
            return {}

        def load_state(self, state: Mapping[str, Any]) -> None:
            pass

    assert train(tmp_path / "run", config(), hooks=[Spoil()]) == "finished"
    found = lines(tmp_path / "run")
    assert [line["diverged"] for line in found] == [False, False, True, True, True]
    assert found[2]["domains"]["0"]["nll"] is None
    assert found[4]["train"]["loss"] is None
    assert read_run(tmp_path / "run").trajectory().n_diverged == 3


def test_a_hook_sees_every_update_and_its_state_survives_a_stop(tmp_path: Path) -> None:
    class Count:
        name = "count"

        def __init__(self) -> None:
            self.seen: list[int] = []
            self.records: list[int] = []

        def after_update(self, step: int, algorithm: Algorithm) -> None:
            self.seen.append(step)

        def at_record(self, record: Mapping[str, Any], algorithm: Algorithm, folder: Path) -> None:
            self.records.append(record["step"])

        def state(self) -> dict[str, Any]:
            return {"seen": self.seen, "records": self.records}

        def load_state(self, state: Mapping[str, Any]) -> None:
            self.seen, self.records = list(state["seen"]), list(state["records"])

    calls = iter(range(1, 100))
    train(tmp_path / "run", hooks=[Count()], stop=lambda: next(calls) == 5)
    second = Count()
    train(tmp_path / "run", hooks=[second])
    assert second.seen == list(range(13))
    assert second.records == [0, 3, 6, 9, 12]


@pytest.mark.parametrize(
    ("at", "number"), [(1, errno.ENOSPC), (4, errno.EROFS), (9, errno.ENOSPC), (23, errno.ENOSPC)]
)
def test_a_folder_that_cannot_be_written_stops_with_one_line_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, at: int
) -> None:
    train(tmp_path / "unbroken")
    real, left = os.fsync, [at]

    def full(file: int) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise OSError(number, os.strerror(number))
        real(file)

    monkeypatch.setattr(os, "fsync", full)
    with refused("system") as caught:
        train(tmp_path / "run", resume_seconds=0)
    assert "\n" not in str(caught.value)
    assert os.strerror(number).lower() in str(caught.value)
    monkeypatch.undo()
    train(tmp_path / "run")
    assert contents(tmp_path / "run") == contents(tmp_path / "unbroken")
