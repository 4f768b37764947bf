"""Who packed a cohort left its logits behind: nobody is told to train it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checkwise.cli import main
from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import read_run
from checkwise.study import Cohort
from checkwise.study.folder import mark_done, pack, unpack
from checkwise.study.heldout import Targets
from tests.figures.saved_logits import save_logits
from tests.refusals import refused
from tests.study.cohorts import tiny_runs, write_cohort

PACKED = "packing left the logits behind"


def cohort_with(path: Path, kept: str) -> Path:
    """A finished cohort whose runs were trained with ``logits = kept``."""
    runs = [replace(run, extra={"logits": kept}) for run in tiny_runs() if run.finished]
    write_cohort(path, runs)
    if kept != "none":
        save_logits(path, runs[0].steps)
        for run in runs:
            mark_done(path / "runs" / str(run.key), run.steps[-1])
    return path


def unpacked(tmp_path: Path, kept: str) -> Path:
    pack(cohort_with(tmp_path / "cohort", kept), tmp_path / "cohort.tar.xz")
    unpack(tmp_path / "cohort.tar.xz", tmp_path / "back")
    return tmp_path / "back"


def first_run(cohort: Path) -> tuple[Path, RunKey, int]:
    opened = Cohort.open(cohort)
    key, run = next(iter(opened.usable.items()))
    return opened.runs.folder(key), key, int(run.steps[0])


@pytest.mark.parametrize(
    ("kept", "source", "heldout"),
    [
        ("all", PACKED, PACKED),
        ("source", PACKED, 'train with `logits = "all"`'),
        ("none", 'train with `logits = "source"`', 'train with `logits = "all"`'),
    ],
)
def test_what_to_do_depends_on_what_was_trained(
    tmp_path: Path, kept: str, source: str, heldout: str
) -> None:
    folder, key, step = first_run(unpacked(tmp_path, kept))
    with pytest.raises(InputError, match=source):
        read_run(folder).predictions().logits(step)
    with pytest.raises(InputError, match=heldout):
        Targets(folder, key.held_out).logits(key.held_out[0], step)


def test_logits_that_were_removed_were_not_left_behind(tmp_path: Path) -> None:
    folder, _, step = first_run(cohort_with(tmp_path / "cohort", "all"))
    for file in (folder / "predictions").rglob("*.npz"):
        file.unlink()
    with refused("missing: `checkwise study status --verify`"):
        read_run(folder).predictions().logits(step)


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "--rules", "ac-nc+ts"),
        ("report", "--only", "risk-coverage", "--tables", "OUT"),
        ("report", "--only", "binning", "--tables", "OUT"),
        ("report", "--only", "reliability", "--figures", "OUT"),
    ],
)
def test_the_command_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    command, *options = [str(tmp_path / "out") if word == "OUT" else word for word in words]
    with pytest.raises(SystemExit) as stop:
        main(["study", command, str(unpacked(tmp_path, "all")), *options])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert PACKED in said
    assert "train with" not in said
