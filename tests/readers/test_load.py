"""Which reader a path goes to, sweeps, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.readers import load, load_runs
from tests.readers.samples import domainbed, predictions_folder, run_folder, swad_file, write_lines
from tests.refusals import refused


def _sweep(root: Path, seeds: int = 3) -> Path:
    for seed in range(seeds):
        args = domainbed(0)["args"] | {"trial_seed": seed}
        run_folder(root / f"hash{seed}", lambda step, args=args: domainbed(step, args=args))
    return root


def test_a_sweep_is_read_run_by_run(tmp_path: Path) -> None:
    runs = load_runs(_sweep(tmp_path))
    assert [key.trial_seed for key in runs] == [0, 1, 2]
    with refused("ambiguous: 3"):
        load(tmp_path)


def test_kinds_of_logs_may_be_mixed_below_a_folder(tmp_path: Path) -> None:
    _sweep(tmp_path / "domainbed")
    write_lines(tmp_path / "swad" / "one" / "results.jsonl", swad_file())
    predictions_folder(tmp_path / "mine", steps=[0])
    assert len(load_runs(tmp_path)) == 3 + 3 + 1


def test_two_sweeps_of_one_configuration_are_told_apart_by_folder(tmp_path: Path) -> None:
    for name, seeds in (("first", 2), ("second", 3)):
        _sweep(tmp_path / "all" / name, seeds)
    runs = load_runs(tmp_path)
    assert [(key.dataset, key.trial_seed) for key in sorted(runs)] == [
        ("PACS", 2),
        ("all/first/PACS", 0),
        ("all/first/PACS", 1),
        ("all/second/PACS", 0),
        ("all/second/PACS", 1),
    ]
    for key, run in runs.items():
        doubled = key.trial_seed < 2
        assert any("2 runs are PACS-ERM" in note for note in run.notes) == doubled
    alone = load_runs(tmp_path / "all" / "first")
    assert {key.dataset for key in alone} == {"PACS"}
    assert {run.digest for run in alone.values()} == {
        run.digest for key, run in runs.items() if "first" in key.dataset
    }


def test_a_run_beside_its_copy_below_is_read_too(tmp_path: Path) -> None:
    run_folder(tmp_path / "runs")
    run_folder(tmp_path / "runs" / "old")
    assert [key.dataset for key in load_runs(tmp_path / "runs")] == ["runs/PACS", "old/PACS"]


def test_a_name_that_a_folder_would_give_twice_is_refused(tmp_path: Path) -> None:
    run_folder(tmp_path / "first")
    run_folder(tmp_path / "second")
    run_folder(tmp_path / "third", lambda step: domainbed(step) | {"args": _named("first/PACS")})
    with pytest.raises(InputError) as caught:
        load_runs(tmp_path)
    for name in ("first", "second", "PACS-ERM-env2-h1-t2", "keep one"):
        assert name in str(caught.value)


def _named(dataset: str) -> Any:
    return domainbed(0)["args"] | {"dataset": dataset}


def test_a_run_that_has_only_started_is_left_out_with_a_warning(tmp_path: Path) -> None:
    _sweep(tmp_path)
    (tmp_path / "hash9").mkdir()
    (tmp_path / "hash9" / "results.jsonl").touch()
    with pytest.warns(CheckwiseWarning, match=r"1 of 4 runs .*hash9.*no complete record"):
        runs = load_runs(tmp_path)
    assert len(runs) == 3
    with refused("empty"):
        load(tmp_path / "hash9")


def test_a_broken_run_in_a_sweep_is_refused_by_name(tmp_path: Path) -> None:
    _sweep(tmp_path)
    (tmp_path / "hash1" / "results.jsonl").write_text("garbage\n{}\n")
    with refused("format: hash1 … 1 … JSON"):
        load_runs(tmp_path)


def test_folders_named_after_targets_are_not_entered(tmp_path: Path) -> None:
    _sweep(tmp_path)
    for name in ("target", "heldout"):
        (tmp_path / "hash0" / name).mkdir()
        (tmp_path / "hash0" / name / "results.jsonl").write_text("poison")
    assert len(load_runs(tmp_path)) == 3


def test_a_log_with_predictions_beside_it_has_to_be_sorted_out(tmp_path: Path) -> None:
    predictions_folder(run_folder(tmp_path))
    with refused("ambiguous"):
        load(tmp_path)


def test_a_link_back_up_ends_the_search(tmp_path: Path) -> None:
    _sweep(tmp_path)
    (tmp_path / "hash0" / "loop").symlink_to(tmp_path)
    assert len(load_runs(tmp_path)) == 3


def test_what_is_not_there_or_not_known_is_one_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "weights.pt").touch()
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "none.csv", tmp_path / "weights.pt", tmp_path / "empty", "a\0b"):
        with pytest.raises(InputError) as caught:
            load(path)
        assert "\n" not in str(caught.value)
    codes = {"none.csv": "missing", "weights.pt": "format", "empty": "missing"}
    for name, code in codes.items():
        with refused(f"{code}: {tmp_path / name}"):
            load_runs(tmp_path / name)


def test_importing_the_readers_stays_light() -> None:
    heavy = ("pandas", "pyarrow", "torch", "numba")
    code = (
        f"import sys, checkwise.readers; print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
