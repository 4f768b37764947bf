"""Whichever operation finds the disk full, one line names the folder, and the next time is whole.

For live selection and callbacks see ``tests/integrations/test_full_disk.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checkwise.errors import CheckwiseError
from checkwise.predict import predict
from checkwise.study.folder import clear_published, pack, unpack
from checkwise.study.sweep import Job, make_cohort, noted_round, read_study, work
from checkwise.study.sweep.planning import begin_round
from tests.cli.predict_functions import checkpoints
from tests.faulty_disk import full_at
from tests.sweep.studies import write_features, write_tiny
from tests.weights.deployments import contents

ONE_RUN = (
    ('dataset = "RotatedMNIST"', 'dataset = "Features"\nroot = "zoo.npz"'),
    ('"0", "75"', '"Art"'),
    ('kind = "digits"', 'kind = "linear"'),
    ('"ERM", "VREx"', '"ERM"'),
    ("steps = 5", "steps = 3"),
    ("[hparams]", '[records]\nkeep = "all"\nlogits = "all"\n\n[hparams]'),
)


def sweep(folder: Path) -> None:
    """What ``study run`` does, with its worker in this process."""
    cohort, roots = folder / "cohort", {"zoo": str(folder.parent / "zoo.npz")}
    make_cohort(read_study(folder.parent / "tiny.toml"), cohort, roots)
    begin_round(cohort, roots)
    work(Job(str(cohort), *noted_round(cohort), resume_seconds=0, wait=False))
    clear_published(cohort)


# A user's function, in a process whose disk is full at one operation.
FULL = """
import errno, itertools, os
from plain import outputs

def failing(operation, calls=itertools.count(1)):
    def called(*arguments, **options):
        if next(calls) == int(os.environ.get("FULL_AT", 0)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return operation(*arguments, **options)
    return called

os.fsync, os.replace = failing(os.fsync), failing(os.replace)
"""


def evaluate(folder: Path) -> None:
    function = f"{folder.parent / 'full.py'}:outputs"
    predict(folder.parent / "checkpoints", function, ["a"], folder / "predictions")


def trained(folder: Path) -> Path:
    write_tiny(folder, *ONE_RUN)
    write_features(folder / "zoo.npz")
    sweep(folder / "whole")
    return folder / "whole" / "cohort"


def prepared(what: str, folder: Path) -> tuple[Callable[[Path], object], int]:
    """What to do in a folder, in a place with all that it needs; and how many faults it meets."""
    if what == "predict":
        checkpoints(folder / "checkpoints", {1: 1.0, 2: 2.0})
        (folder / "full.py").write_text(FULL)
        return evaluate, 5
    cohort = trained(folder)
    if what == "sweep":
        return sweep, 40
    pack(cohort, folder / "packed.tar.xz")
    if what == "pack":
        return lambda place: pack(cohort, place / "packed.tar.xz"), 3
    return lambda place: unpack(folder / "packed.tar.xz", place / "cohort"), 10


def left(folder: Path) -> dict[str, bytes]:
    """What is there in the end, but for what names a time, a round or a place."""
    odd = ("workers.json", "registrations.jsonl", "predictions.json")
    return {name: file for name, file in contents(folder).items() if not name.endswith(odd)}


@contextmanager
def full_in_the_worker(number: int) -> Iterator[Callable[[], bool]]:
    """The same in the process that calls the user's function; there are six operations."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FULL_AT", str(number))
        yield lambda: number <= 6


@pytest.mark.parametrize("where", ["sweep", "pack", "unpack", "predict", "predict, in its worker"])
def test_whichever_operation_finds_the_disk_full_the_next_time_is_whole(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKWISE_CACHE", str(tmp_path / "cache"))
    what, _, worker = where.partition(",")
    fault = full_in_the_worker if worker else full_at
    act, least = prepared(what, tmp_path)
    (tmp_path / "unbroken").mkdir()
    act(tmp_path / "unbroken")
    whole, wrong = left(tmp_path / "unbroken"), []
    for number in itertools.count(1):
        place = tmp_path / str(number)
        place.mkdir()
        said = ""
        with fault(number) as met:
            try:
                act(place)
            except CheckwiseError as error:
                said = f"{error.code}: {error}"
            except OSError as error:  # which commands explain
                said = f"system: {error.filename}: {error}"
        if said and not (said.startswith("system") and str(tmp_path) in said):
            wrong.append(f"{number}: {said}")
        if what != "unpack" or not (place / "cohort").exists():
            act(place)
        assert left(place) == whole, number
        if not met():
            break
        assert said or not worker, number
    assert wrong == []
    assert number > (6 if worker else least)
