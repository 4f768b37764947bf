"""``checkwise study derive --method lodo`` on real, tiny runs of the embedded digits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from checkwise.store import inner_path
from checkwise.study.folder import open_cohort
from checkwise.study.sweep import Job, Study, inner_study, make_cohort, work
from tests.commands import run
from tests.sweep.studies import tiny
from tests.weights.cohorts import train_cohort

STUDY = tiny(
    ('["0", "75"]', '["0"]'),
    ('["ERM", "VREx"]', '["ERM"]'),
    ("steps = 5", "steps = 9"),
    ("record_every = 2", "record_every = 4"),
    ("batch_size = 8", "batch_size = 8\nlr = 0.003"),
    ("[runs]", "[runs]\nhparams_seeds = [0, 1]"),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cohort and its inner runs, trained in this process."""
    outer = train_cohort(tmp_path_factory.mktemp("lodo"), STUDY)
    inner = inner_study(Study.from_dict(open_cohort(outer).study), {})
    planned = make_cohort(inner, inner_path(outer), {})
    work(Job(cohort=str(planned.path), round="test"))
    return outer


def lodo(path: Path, *options: str) -> int:
    return run("study", "derive", path, "--method", "lodo", *options)


def choices(path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    assert lodo(path, "--json") == 0
    return json.loads(capsys.readouterr().out)["choices"]


def test_steps_are_chosen_in_both_scopes_and_compared(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = choices(trained, capsys)
    counts = {(c["scope"], c["rule"]) for c in found}
    assert counts == {(s, r) for s in ("run", "hparams-acc") for r in ("lodo-acc", "ac-lodo")}
    assert [c["scope"] for c in found].count("run") == 4
    assert all(c["step"] in (0, 4, 8) for c in found)
    assert lodo(trained) == 0
    said = capsys.readouterr().out
    assert "10 of 10 runs finished" in said
    assert "best hyperparameters" in said
    for file in inner_path(trained).glob("runs/*/run.json"):
        began = file.stat().st_mtime - 60
        os.utime(file, (began, began))
    assert run("study", "compare", trained, "--rules", "lodo-acc,ac-lodo", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["contrasts"]
    assert {row["n"] for row in rows} == {2}
    assert all(row["seconds"] > 60 for row in rows)


def test_the_outer_targets_journals_change_nothing(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = choices(trained, capsys)
    spoiled = [
        *trained.glob("runs/*/heldout/0.jsonl"),
        *inner_path(trained).glob("runs/*/heldout/0.jsonl"),
    ]
    assert len(spoiled) == 12
    contents = [journal.read_bytes() for journal in spoiled]
    for journal in spoiled:
        journal.write_bytes(b"\xff not json\n")
    try:
        assert choices(trained, capsys) == before
    finally:
        for journal, content in zip(spoiled, contents, strict=True):
            journal.write_bytes(content)


def test_inner_runs_share_hyperparameters_with_their_outer_run(trained: Path) -> None:
    def hparams(folder: Path) -> Any:
        return json.loads((folder / "run.json").read_text())["config"]["hparams"]

    outer = {k.hparams_seed: hparams(f) for k, f in open_cohort(trained).runs.items()}
    inner = open_cohort(inner_path(trained)).runs
    assert len(inner) == 10
    assert all(hparams(folder) == outer[key.hparams_seed] for key, folder in inner.items())
