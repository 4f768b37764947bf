"""Live selection under every tolerance: the same choice as afterwards, also when killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.errors import InputError
from checkwise.selection import TOLERANCES
from tests.refusals import refused
from tests.selection.example_runs import outputs


def offline(made: dict[int, dict[str, Any]], **options: Any) -> cw.Selection:
    """The choice from the same predictions."""
    run = cw.Trajectory.from_predictions(made)
    return cw.select(run, "ac-nc", **options)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("seed", "name"), [*enumerate(TOLERANCES)])
def test_live_is_offline_at_every_record_and_after_every_kill(
    tmp_path: Path, name: str, seed: int, grouped: bool
) -> None:
    made = outputs(seed, sizes=(40, 60), gain=1.0, grouped=grouped)
    made[300]["d1"][0][5, 1] = np.nan  # one of them diverges
    options: dict[str, Any] = {} if name == "fixed" else {"alpha": 0.1}
    journal = tmp_path / "run.jsonl"
    so_far: dict[int, dict[str, Any]] = {}
    for step, domains in made.items():
        so_far[step] = domains
        # A new process for every record: all that it knows is in the journal.
        with cw.LiveSelector("ac-nc", journal=journal, tolerance=name, **options) as live:
            live.add(step, domains)
            expected = offline(so_far, tolerance=name, **options)
            assert live.selection is not None
            assert live.choice == expected.step
            assert live.selection.feasible_steps == expected.feasible_steps
            assert live.selection.digest == expected.digest
    again = cw.LiveSelector.from_journal(journal)
    assert again.choice == cw.select(cw.load(journal)).step == live.choice
    assert again.selection is not None
    assert again.selection.choice.kind.name == name
    assert live.trajectory.chosen_by == {}


def test_a_fixed_tolerance_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    for name, options in (("a", {}), ("b", {"tolerance": "fixed"})):
        with cw.LiveSelector("ac-nc", journal=tmp_path / name, **options) as live:  # type: ignore[arg-type]
            for step, domains in outputs(0, grouped=True).items():
                live.add(step, domains)
    content = (tmp_path / "a").read_text()
    assert content == (tmp_path / "b").read_text()
    assert "hits" not in content
    assert "tolerance" not in content


def test_the_journal_holds_one_bit_per_example(tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    made = outputs(0, sizes=(1001,))
    with cw.LiveSelector("ac-nc", journal=journal, tolerance="paired") as live:
        for step, domains in made.items():
            live.add(step, domains)
    header, *lines = (json.loads(line) for line in journal.read_text().splitlines())
    assert header["choice"]["tolerance"] == "paired"
    assert header["choice"]["alpha"] == 0.05
    for line in lines:
        assert len(line["domains"]["d0"]["hits"]) == 168  # 126 bytes in base64


def test_a_journal_of_another_tolerance_is_refused(tmp_path: Path) -> None:
    cw.LiveSelector("ac-nc", journal=tmp_path / "j", tolerance="paired").close()
    with refused("differs"):
        cw.LiveSelector("ac-nc", journal=tmp_path / "j")
    with refused("differs"):
        cw.LiveSelector("ac-nc", journal=tmp_path / "j", tolerance="paired", alpha=0.2)


DAMAGED: list[Callable[[Any], Any]] = [
    lambda e: {**e, "hits": e["hits"][:-4]},
    lambda e: {**e, "hits": "!" + e["hits"][1:]},
    lambda e: {**e, "hits": 5},
    lambda e: {**e, "correct": e["correct"] - 1},
    lambda e: {**e, "losses": [1.0]},
]


def test_damaged_bits_and_groups_are_refused(tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    with cw.LiveSelector("ac-nc", journal=journal, tolerance="paired") as live:
        live.add(0, outputs(0, grouped=True)[0])
    header, named, line = journal.read_text().splitlines()
    assert "groups" in json.loads(named)
    for change in DAMAGED:
        record = json.loads(line)
        record["domains"]["d0"] = change(record["domains"]["d0"])
        journal.write_text(f"{header}\n{named}\n{json.dumps(record)}\n")
        with refused("damaged: 3"):
            cw.LiveSelector.from_journal(journal)
    for groups in ("x", 5, ["a"], {"d0": 1}, {"d0": "AAAA"}):
        journal.write_text(f"{header}\n{json.dumps({'groups': groups})}\n{line}\n")
        with refused("damaged: 2"):
            cw.LiveSelector.from_journal(journal)


@pytest.mark.parametrize("seed", range(2))
def test_pruning_under_paired_never_deletes_what_could_be_chosen(tmp_path: Path, seed: int) -> None:
    made = outputs(seed, sizes=(120, 90), gain=1.2, grouped=seed % 3 == 0)
    options: dict[str, Any] = {"tolerance": "paired"}
    deleted: set[int] = set()
    so_far: dict[int, dict[str, Any]] = {}
    for step, domains in made.items():
        so_far[step] = domains
        with cw.LiveSelector("ac-nc", journal=tmp_path / "checkwise.jsonl", **options) as live:
            live.add(step, domains)
            (tmp_path / f"{step}.pt").write_text("weights")
            live.saved(step, tmp_path / f"{step}.pt")
            live.prune()
            expected = offline(so_far, **options)
            assert live.choice == expected.step
            assert (tmp_path / f"{expected.step}.pt").exists()
            deleted |= {s for s in so_far if not (tmp_path / f"{s}.pt").exists()}
            assert not deleted.intersection(expected.feasible_steps)
    assert deleted  # otherwise nothing was tested
    # What is left on disk says the same, although other checkpoints are gone.
    read = cw.load(tmp_path)
    assert len(read) < len(made)
    chosen = cw.select(read)
    assert chosen.step == expected.step
    assert chosen.feasible_steps == expected.feasible_steps


def test_metrics_alone_are_refused_where_examples_are_needed() -> None:
    live = cw.LiveSelector("ac-nll", tolerance="paired")
    with refused("missing: 'val' … 1"):
        live.add(1, {"val": {"accuracy": 0.9, "nll": 0.3, "n": 50}})
    assert live.steps == ()


def test_other_examples_are_refused() -> None:
    live = cw.LiveSelector("ac-nc", tolerance="paired")
    made = outputs(0, sizes=(40,))
    live.add(0, made[0])
    z, y = made[100]["d0"]
    order = np.random.default_rng(0).permutation(40)
    with refused("differs"):
        live.add(100, {"d0": (z[order], y[order])})


def test_what_cannot_be_is_refused_before_training() -> None:
    for options in (
        {"rule": "pure-nll", "tolerance": "paired"},
        {"tolerance": "paired", "worst_domain": True},
        {"tolerance": "narrow"},
        {"alpha": 0.1},
    ):
        with pytest.raises(InputError):
            cw.LiveSelector(**options)


def test_a_preview_leaves_groups_and_records_alone(tmp_path: Path) -> None:
    made = outputs(0, grouped=True)
    live = cw.LiveSelector("ac-nc", tolerance="paired")
    live.add(0, made[0])
    ahead = live.preview(100, made[100])
    both = offline({s: made[s] for s in (0, 100)}, tolerance="paired")
    assert ahead.choice == both.step
    assert live.steps == (0,)


def test_leaving_out_steps_keeps_the_evidence_against_others() -> None:
    run = cw.Trajectory.from_predictions(outputs(1, sizes=(120, 90), gain=1.2))
    assert run.examples is not None
    stay = [step for step in run.steps.tolist() if step != 700]
    rows = np.isin(run.steps, stay)
    fewer = replace(
        run,
        steps=run.steps[rows],
        values={name: v[rows] for name, v in run.values.items()},
        correct=None if run.correct is None else run.correct[rows],
        diverged=run.diverged[rows],
        examples=run.examples.subset(stay),
    )
    whole = cw.select(run, "ac-nc", tolerance="paired").feasible_steps
    part = cw.select(fewer, "ac-nc", tolerance="paired").feasible_steps
    assert set(part) - set(whole) <= {cw.select(fewer, "source-acc").step}
