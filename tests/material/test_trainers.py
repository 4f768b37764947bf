"""The material is whole: every case unpacks, and its account agrees with its tree of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.material.trainers.cases import HERE, Case, cases

ALL = list(cases())


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.trainer}-{case.name}")
def test_a_case_unpacks_to_the_files_that_the_training_left(case: Case, tmp_path: Path) -> None:
    root = case.unpack(tmp_path)
    files = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}
    assert files == set(case.names())
    for run in case.expected():
        assert (root / run["log"]).exists()


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.trainer}-{case.name}")
def test_a_checkpoint_has_one_owner_or_is_gone(case: Case) -> None:
    names, evaluations = case.names(), [e for run in case.expected() for e in run["evaluations"]]
    owned = [e["checkpoint"] for e in evaluations if e["checkpoint"]]
    owned += [path for e in evaluations for path in e["also"]]
    assert len(set(owned)) == len(owned)
    lost = {path for e in evaluations for path in e["lost"]} - set(owned)
    for path, is_there in [(path, True) for path in owned] + [(path, False) for path in lost]:
        assert any(f"{name}/".startswith(f"{path}/") for name in names) == is_there, path


def test_no_file_is_large_and_none_is_a_pickle() -> None:
    files = [path for path in HERE.glob("*/*/files/**/*") if path.is_file()]
    assert max(path.stat().st_size for path in files) < 100_000
    assert sum(path.stat().st_size for path in files) < 2_000_000
    assert not [p for p in files if p.suffix in {".pt", ".pth", ".ckpt", ".bin", ".tar", ".pkl"}]
