"""A run that chose live is read as it was trained: its rule, all its records, its weights."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.cli import main
from tests.refusals import refused

RECORDS = [(1, 0.80, 0.9, 0.03), (2, 0.90, 0.5, 0.02), (3, 0.885, 0.3, 0.01), (4, 0.88, 0.4, 0.015)]


def trained(folder: Path, *, rule: str = "ac-nc", **settings: Any) -> cw.LiveSelector:
    settings = settings or {"delta_pp": 2.0}
    with cw.LiveSelector(rule, journal=folder / "checkwise.jsonl", **settings) as live:
        for step, accuracy, nll, cwece in RECORDS:
            row = {"accuracy": accuracy, "nll": nll, "cwece": cwece, "n": 1000}
            live.add(step, {"validation": row})
            weights = folder / f"e{step}.pt"
            weights.write_bytes(b"x" * step)
            live.saved(step, weights)
            live.prune()
        return live


def ended(*words: object) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as end:
        main([*map(str, words)])
    return int(end.value.code or 0)


def json_of(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    capsys.readouterr()
    assert ended(*words, "--json") == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    selection: dict[str, Any] = run["selection"]
    return selection


def test_the_rule_of_the_training_is_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live = trained(tmp_path)
    assert live.choice == 3
    assert cw.select(cw.load(tmp_path)).step == 3
    assert cw.select_many(cw.load_runs(tmp_path)).popitem()[1].step == 3
    told = json_of(capsys, "select", tmp_path)
    assert (told["step"], told["params"]["delta_pp"]) == (3, 2.0)
    assert told["rule_reason"] == "as the callback was set: delta_pp 2.0"
    assert ended("select", tmp_path, "--copy-to", tmp_path / "best") == 0
    assert (tmp_path / "best").read_bytes() == b"xxx"


def test_what_the_user_asks_goes_before_it(tmp_path: Path) -> None:
    trained(tmp_path)
    run = cw.load(tmp_path)
    assert cw.select(run, delta_pp=0.5).step == 2
    assert cw.select(run, "source-acc").step == 2
    assert cw.select(run, "ac-nc").step == 2  # a rule that is named has its own defaults
    assert cw.select(run, delta_pp="1.7").params["delta_pp"] == "1.7"


def test_weights_of_domains_are_those_of_the_training(tmp_path: Path) -> None:
    with cw.LiveSelector(
        "source-acc", journal=tmp_path / "checkwise.jsonl", weights={"a": 3, "b": 1}
    ) as live:
        for step, (a, b) in enumerate([(0.8, 0.9), (0.72, 0.99)]):
            row = {name: {"accuracy": value, "n": 100} for name, value in (("a", a), ("b", b))}
            live.add(step, row)
    assert live.choice == 0
    assert cw.select(cw.load(tmp_path)).step == 0
    assert cw.select(cw.load(tmp_path), "source-acc").step == 1


def test_the_bound_counts_what_was_evaluated_and_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live = trained(tmp_path)
    assert live.selection is not None
    run = cw.load(tmp_path)
    assert (len(run), run.evaluated) == (3, 4)
    bound = cw.select(run).guarantee().bound_pp
    assert bound == pytest.approx(live.selection.guarantee().bound_pp)
    assert bound == pytest.approx(2 + 2 * cw.source_accuracy_radius(4, [1000]))
    told = json_of(capsys, "select", tmp_path)
    assert told["guarantee"]["bound_pp"] == pytest.approx(bound)


def test_the_first_that_was_kept_is_not_called_the_first(tmp_path: Path) -> None:
    trained(tmp_path)
    words = cw.select(cw.load(tmp_path), delta_pp=0).explain()
    assert "the best of 3 checkpoints kept of 4" in words
    assert "first checkpoint" not in words


def test_a_journal_can_be_named_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(tmp_path)
    assert json_of(capsys, "select", tmp_path / "checkwise.jsonl")["step"] == 3


def test_records_without_weights_can_be_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path)
    told = json_of(capsys, "select", tmp_path, "--include-unsaved")
    assert told["checkpoints"] == 4
    assert ended("select", tmp_path, "--n", 1000) == 2


def test_a_path_that_is_written_again_belongs_to_the_later_step(tmp_path: Path) -> None:
    with cw.LiveSelector("ac-nll", journal=tmp_path / "j.jsonl") as live:
        for step, accuracy in [(1, 0.9), (2, 0.7), (3, 0.6)]:
            live.add(step, {"val": {"accuracy": accuracy, "nll": 0.3, "n": 1000}})
            (tmp_path / "model.pt").write_text(f"step {step}")
            live.saved(step, tmp_path / "model.pt")
            live.prune()
        assert (live.choice, dict(live.checkpoints)) == (3, {3: tmp_path / "model.pt"})
        assert live.path is not None
        assert live.path.read_text() == "step 3"


@pytest.mark.parametrize("step", [1.7, "5", True, -3, 2**70])
def test_a_step_that_is_none_is_refused_before_it_is_written(tmp_path: Path, step: Any) -> None:
    (tmp_path / "w.pt").write_text("w")
    with cw.LiveSelector("ac-nll", journal=tmp_path / "j.jsonl") as live:
        with refused("value"):
            live.saved(step, tmp_path / "w.pt")
        with refused("value"):
            live.resume(step)
    assert cw.LiveSelector.from_journal(tmp_path / "j.jsonl").steps == ()


def test_a_tolerance_that_was_given_as_a_fraction_is_read_back(tmp_path: Path) -> None:
    live = trained(tmp_path, delta_pp=Fraction(7, 4))
    again = cw.LiveSelector.from_journal(tmp_path / "checkwise.jsonl")
    assert again.choice == live.choice == cw.select(cw.load(tmp_path)).step == 3


@pytest.mark.parametrize(
    "line",
    [
        '{"resumed":1e400}',
        '{"resumed":1.5}',
        '{"step":1.5,"saved":"e1.pt"}',
        '{"step":5,"diverged":false,"domains":{"v":{"n":1000,"values":{"accuracy":0.9}}}}',
        '{"step":5,"diverged":false,"domains":{"validation":{"n":7,"values":{"accuracy":1.0}}}}',
    ],
)
def test_a_line_that_was_edited_is_refused_by_its_number(tmp_path: Path, line: str) -> None:
    trained(tmp_path)
    with (tmp_path / "checkwise.jsonl").open("a") as file:
        file.write(line + "\n")
    for read in (cw.LiveSelector.from_journal, cw.load):
        with refused("damaged: checkwise.jsonl"):
            read(tmp_path / "checkwise.jsonl")


def test_a_journal_that_was_removed_is_noticed(tmp_path: Path) -> None:
    with cw.LiveSelector("ac-nll", journal=tmp_path / "j.jsonl") as live:
        (tmp_path / "j.jsonl").unlink()
        with refused("damaged"):
            live.add(1, {"val": {"accuracy": 0.9, "nll": 0.3, "n": 1000}})


def test_the_journal_is_no_checkpoint(tmp_path: Path) -> None:
    with cw.LiveSelector("ac-nll", journal=tmp_path / "j.jsonl") as live:
        for own in ("j.jsonl", "."):
            with pytest.raises(cw.InputError) as error:
                live.saved(1, tmp_path / own)
            assert error.value.code == "outside"
    with refused("missing"):
        cw.LiveSelector.from_journal(tmp_path / "none.jsonl")
