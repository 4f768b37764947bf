"""Caches are prepared by a worker where workers run elsewhere."""

from __future__ import annotations

from pathlib import Path

from checkwise.study.sweep import Job, make_cohort, prepare_with, read_study
from checkwise.study.sweep.executors import LocalExecutor
from checkwise.study.sweep.launching import JobLike, Workers
from tests.refusals import refused
from tests.sweep.studies import write_tiny
from tests.sweep.test_dry_run import BACKBONE, EACH, ZOO, own_cache, zoo

__all__ = ["own_cache", "zoo"]


class Elsewhere:
    """An executor on another machine, as far as anybody can see."""

    def __init__(self) -> None:
        self.jobs: list[JobLike] = []

    def launch(self, job: JobLike, workers: int) -> Workers:
        self.jobs.append(job)
        return LocalExecutor().launch(job, workers)


def test_features_are_extracted_by_a_worker(tmp_path: Path, zoo: Path, own_cache: Path) -> None:
    study, roots = read_study(write_tiny(tmp_path, ZOO, BACKBONE, EACH)), {"Zoo": str(zoo)}
    executor, cohort = Elsewhere(), make_cohort(study, tmp_path / "cohort", roots)
    prepare_with(executor, cohort, study, roots)
    assert executor.jobs == [Job(str(cohort.path), "", roots, only_prepare=True)]
    extracted = {path: path.stat().st_mtime_ns for path in own_cache.glob("features/*.npy")}
    assert len(extracted) == 1
    prepare_with(LocalExecutor(), cohort, study, roots)
    assert extracted == {p: p.stat().st_mtime_ns for p in own_cache.glob("features/*.npy")}


def test_a_study_without_caches_starts_no_worker(tmp_path: Path) -> None:
    study = read_study(write_tiny(tmp_path))
    executor, cohort = Elsewhere(), make_cohort(study, tmp_path / "cohort", {})
    prepare_with(executor, cohort, study, {})
    assert executor.jobs == []


def test_what_a_worker_cannot_read_is_its_error(tmp_path: Path, zoo: Path) -> None:
    study, roots = read_study(write_tiny(tmp_path, ZOO, BACKBONE, EACH)), {"Zoo": str(zoo)}
    cohort = make_cohort(study, tmp_path / "cohort", roots)
    (zoo / "Art" / "cat" / "1.png").write_bytes(b"no image")
    with refused("value: 1.png"):
        prepare_with(Elsewhere(), cohort, study, roots)
