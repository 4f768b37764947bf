"""What a study saves of every validation example: outcomes, half logits, or whole ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.store import SOURCE_FILE, outcomes_file, read_run, source_predictions_file
from checkwise.study.train import Outputs, Part
from checkwise.study.train.checkpoint_files import write_predictions
from tests.refusals import refused
from tests.runs import config, train


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    path = tmp_path_factory.mktemp("runs")
    for logits in ("none", "outcomes", "source-half", "source"):
        train(path / logits, config(logits=logits, keep="none"))
    return {folder.name: folder for folder in path.iterdir()}


def examples(folder: Path) -> Any:
    return read_run(folder).trajectory().examples


def test_every_way_says_the_same_of_every_example(folders: dict[str, Path]) -> None:
    whole = examples(folders["source"])
    for name in ("outcomes", "source-half"):
        other = examples(folders[name])
        assert other.digest == whole.digest
        for e in range(len(whole.domains)):
            assert np.array_equal(other.nll[e], whole.nll[e])
            assert np.array_equal(other.labels[e], whole.labels[e])
    assert examples(folders["none"]) is None


def test_journals_do_not_depend_on_what_is_saved(folders: dict[str, Path]) -> None:
    assert len({(f / SOURCE_FILE).read_bytes() for f in folders.values()}) == 1


def test_half_logits_are_the_logits_to_three_digits(folders: dict[str, Path]) -> None:
    half, whole = (examples(folders[name]).logits(3) for name in ("source-half", "source"))
    for domain, (z, y) in whole.items():
        assert half[domain][0].dtype == np.float16
        np.testing.assert_allclose(half[domain][0], z, rtol=1e-3, atol=1e-3)
        assert np.array_equal(half[domain][1], y)
        assert 2 * half[domain][0].nbytes == z.nbytes


def test_logits_that_half_precision_cannot_hold_are_kept_in_single_precision(
    tmp_path: Path,
) -> None:
    labels = np.array([0, 1])
    large = np.array([[70_000.0, 1.0], [2.0, 65_504.0]], dtype=np.float32)
    rows = np.arange(2)
    parts = tuple(Part("source", name, e, rows, labels) for e, name in enumerate(("art", "photo")))
    outputs = Outputs(parts, (large, large / np.float32(2)))
    write_predictions(tmp_path, 3, outputs, config(logits="source-half"))
    with np.load(tmp_path / source_predictions_file(3)) as saved:
        assert saved["art.logits"].tolist() == large.tolist()
        assert saved["photo.logits"].dtype == np.float16


def test_outcomes_alone_serve_tolerances_and_no_calibrator(folders: dict[str, Path]) -> None:
    run = cw.load(folders["outcomes"])
    whole = cw.load(folders["source"])
    one, other = (cw.select(r, tolerance="paired") for r in (run, whole))
    assert one.step == other.step
    assert one.feasible_steps == other.feasible_steps
    assert one.digest == other.digest
    assert not (folders["outcomes"] / "predictions" / "source").exists()
    with refused('missing: logits = "source"'):
        read_run(folders["outcomes"]).predictions().logits(3)
    assert "How sure" not in cw.select(run).explain()


def test_damage_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    train(tmp_path / "run", config(logits="outcomes", keep="none"))
    file = tmp_path / "run" / outcomes_file(3)
    file.write_bytes(file.read_bytes()[:-5])
    with refused("damaged: step-000003.npz"):
        _ = examples(tmp_path / "run").correct


def test_held_out_results_may_be_unreadable(tmp_path: Path) -> None:
    train(tmp_path / "run", config(logits="all", keep="none"))
    before = cw.select(read_run(tmp_path / "run").trajectory(), tolerance="paired").to_json()
    poisoned = tmp_path / "run" / "predictions" / "heldout"
    for file in poisoned.rglob("*.npz"):
        file.write_bytes(b"\xff")
    assert (
        cw.select(read_run(tmp_path / "run").trajectory(), tolerance="paired").to_json() == before
    )
