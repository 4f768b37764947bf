"""One and two processes come to the same numbers and to the same choice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.requirements import available

available("lightning")

from tests.integrations import lightning_processes

ROOT = Path(__file__).parents[2]
# Sums of whole numbers have no order. The others are added in another one, so that their last
# bits differ.
EXACT = ("accuracy", "worst_class_accuracy")


def records(folder: Path) -> list[dict[str, Any]]:
    """The records of a training."""
    lines = (folder / "checkpoints" / "checkwise.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if "domains" in line]


def train_in_two(folder: Path) -> None:
    """Lightning takes each process for one that it started itself."""
    done = subprocess.run(
        [sys.executable, "-m", lightning_processes.__name__, folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_two_processes_decide_as_one(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    lightning_processes.train(tmp_path / "one", 1)
    train_in_two(tmp_path / "two")
    alone, together = records(tmp_path / "one"), records(tmp_path / "two")
    rows = [int((tmp_path / "two" / f"rows-{rank}").read_text()) for rank in (0, 1)]
    assert sum(rows) == 4 * (22 + 34)  # 21 examples are padded to 22
    assert [record["step"] for record in alone] == [record["step"] for record in together]
    for one, two in zip(alone, together, strict=True):
        for name, n in (("a", 21), ("b", 34)):
            left, right = one["domains"][name], two["domains"][name]
            assert left["n"] == right["n"] == n
            assert left["correct"] == right["correct"]
            # Each process has every other example; the bits are in the order of the set.
            assert left["hits"] == right["hits"]
            for metric, value in left["values"].items():
                within = 0 if metric in EXACT else 1e-13
                assert right["values"][metric] == pytest.approx(value, rel=within, abs=within)
    ranks = [json.loads((tmp_path / "two" / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    assert ranks[0] == ranks[1]
    single = json.loads((tmp_path / "one" / "rank-0.json").read_text())
    assert Path(ranks[0]["best"]).name == Path(single["best"]).name
    assert ranks[0]["score"] == pytest.approx(single["score"], rel=1e-12)
    assert [Path(path).name for path in ranks[0]["kept"]] == [
        Path(path).name for path in single["kept"]
    ]
    files = [
        {path.name for path in (tmp_path / name / "checkpoints").iterdir()}
        for name in ("one", "two")
    ]
    assert files[0] == files[1]
    kept = sorted((tmp_path / "one/checkpoints/predictions").glob("*/*.npz"))
    assert len(kept) == 2 * len(alone)
    for file in kept:  # in the order of the set, without its padding
        other = tmp_path / "two" / file.relative_to(tmp_path / "one")
        one, two = np.load(file), np.load(other)
        for name in one.files:
            assert two[name] == pytest.approx(one[name], rel=1e-12)
