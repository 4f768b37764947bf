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
        for evaluation in run["evaluations"]:
            present = [evaluation["checkpoint"], *evaluation["also"]]
            assert all((root / path).exists() for path in present if path is not None)
            assert not any(
                (root / path).exists()
                for path in evaluation["lost"]
                if not _rewritten(path, run["evaluations"])
            )


def _rewritten(path: str, evaluations: list[dict[str, object]]) -> bool:
    return any(path in (e["checkpoint"], *e["also"]) for e in evaluations)  # type: ignore[misc]


def test_no_file_is_large_and_none_is_a_pickle() -> None:
    files = [path for path in HERE.glob("*/*/files/**/*") if path.is_file()]
    assert max(path.stat().st_size for path in files) < 100_000
    assert sum(path.stat().st_size for path in files) < 2_000_000
    assert not [p for p in files if p.suffix in {".pt", ".pth", ".ckpt", ".bin", ".tar", ".pkl"}]
