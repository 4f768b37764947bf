"""A Choice is the one argument that says how to choose, whichever door it comes through."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.selection import in_words, not_usual
from tests.refusals import refused, taken
from tests.selection.example_runs import outputs

RUN = cw.Trajectory.from_predictions(outputs(0))
ASKED: tuple[tuple[str | None, dict[str, Any]], ...] = (
    (None, {}),
    (None, {"delta_pp": 3, "guard": False}),
    ("ac-nll", {"delta_pp": "2.5", "weights": "sample"}),
    ("ac-nc", {"worst_domain": True, "ties": "latest"}),
    ("ac-nc", {"tolerance": "paired", "alpha": 0.2}),
    ("ac", {"constraint": "nll", "delta": "20%", "objectives": ["accuracy"]}),
)


@pytest.mark.parametrize(("rule", "settings"), ASKED)
def test_a_choice_and_its_settings_choose_the_same_everywhere(
    rule: str | None, settings: dict[str, Any]
) -> None:
    choice = cw.Choice.of(rule, **settings)
    one = cw.select(RUN, choice)
    many = cw.select_many({"a": RUN, "b": RUN}, choice)
    live, named = cw.LiveSelector(choice), cw.LiveSelector(rule, **settings)
    for step, sets in outputs(0).items():
        live.add(step, sets)
        named.add(step, sets)
    found = [one, cw.select(RUN, rule, **settings), many["a"], many["b"]]
    assert all(each.choice == choice for each in found)
    assert live.selection is not None
    assert named.selection is not None
    assert len({each.step for each in (*found, live.selection, named.selection)}) == 1
    told = not_usual(one.settings)
    assert all(not_usual(each.settings) == told for each in (*found, live.selection))
    assert live.settings == named.settings
    assert not_usual(live.selection.settings) == not_usual(live.chosen_by)


def test_nothing_stands_beside_a_choice() -> None:
    choice = cw.Choice("ac-nc")
    for door in (
        lambda: cw.select(RUN, choice, guard=False),
        lambda: cw.select_many({"a": RUN}, choice, guard=False),
        lambda: cw.LiveSelector(choice, guard=False),
    ):
        with refused("ambiguous: guard"):
            door()


REFUSED: tuple[tuple[str | None, dict[str, Any], str], ...] = (
    ("ac-ncc", {}, "unknown: ac-ncc … ac-nc"),
    ("source-acc", {"q": 1}, "unknown: 'q'"),
    ("ac-nc", {"delta_pp": -1}, "value: delta_pp … -1"),
    ("ac-nc", {"weights": 3}, "value: weights … 3"),
    ("ac-nc", {"weights": "sample", "worst_domain": True}, "unsupported: worst_domain"),
    ("ac-nc", {"guard": "no"}, "value: guard … no"),
    ("ac-nc", {"directions": {"f1": "up"}}, "value: f1 … up"),
    ("ac-nc", {"tolerance": "wide"}, "unknown: wide"),
    ("ac-nc", {"alpha": 0.1}, "unsupported: alpha"),
    ("ac-nc", {"tolerance": "paired", "worst_domain": True}, "unsupported: worst_domain"),
    ("pure-nll", {"tolerance": "paired"}, "unsupported: pure-nll"),
    (None, {"alpha": 0.1}, "unsupported: alpha"),
    (None, {"tolerance": 5}, "unknown: 5"),
    (None, {"objectives": 1}, "value: objectives … 1"),
    (None, {"objectives": "nll"}, "value: 'nll'"),
    ("best", {}, "unknown: source-acc, ac-nc … 'best'"),
    ("ac-nc", {"delta_pp": "wide"}, "value: delta_pp"),
    ("ac-nc", {"delta_pp": "1e400"}, "value: delta_pp"),
    ("ac-nc", {"tol": 1}, "unknown: 'tol' … delta_pp"),
    ("ac-nc", {"weights": "size"}, "value: 'equal' … 'sample'"),
    ("ac-nc", {"weights": {"a": 2}, "worst_domain": True}, "unsupported: worst_domain"),
    ("ac-nc", {"q": 5}, "value: q … 5"),
    ("ac-nc", {"q": True}, "value: q … True"),
    ("ac-nc", {"q": [1]}, "value: q … [1]"),
    ("ac-nc", {"eta": 3}, "value: eta … 3"),
    ("ac-nc", {"pareto": "yes"}, "value: pareto … yes"),
    ("ac", {"objectives": 1}, "value: objectives … 1"),
    ("ac", {"objectives": ["nll", 2]}, "value: objectives … 2"),
    ("ac-nll", {"constraint": "nll", "delta": "1%"}, "value: nll"),
    ("ac-random", {"seed": 1.5}, "value: seed … 1.5"),
    ("wald", {"threshold_pp": "high"}, "value: threshold_pp … high"),
)


def test_what_cannot_be_asked_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    for door in (cw.Choice.of, partial(cw.LiveSelector, journal=tmp_path / "run.jsonl")):
        asked = ((partial(door, rule, **settings), said) for rule, settings, said in REFUSED)
        assert taken(asked) == []
    assert not list(tmp_path.iterdir())


def test_a_choice_stays_as_it_was_made_and_can_be_sent_to_another_process() -> None:
    settings = {"delta_pp": 1}
    choice = cw.Choice("ac-nc", settings)
    settings["delta_pp"] = 2
    assert choice.params == {"delta_pp": 1}
    assert pickle.loads(pickle.dumps(choice)) == choice
    with pytest.raises(FrozenInstanceError):
        choice.guard = False  # type: ignore[misc]
    for mapping in (choice.params, choice.directions, choice.completed):
        with pytest.raises(TypeError):
            mapping["delta_pp"] = 3  # type: ignore[index]


def test_equal_choices_are_one_key() -> None:
    asked = [cw.Choice.of(rule, **settings) for rule, settings in (*ASKED, *ASKED)]
    assert len(set(asked)) == len(ASKED)
    assert cw.Choice("ac-nc", {"q": 1}) in {cw.Choice("ac-nc", {"q": 1.0})}
    assert pickle.loads(pickle.dumps(asked)) == copy.deepcopy(asked) == asked


def test_objectives_of_a_file_are_names() -> None:
    for objectives in (1, True, {"nll": "cwece"}, [1], ["nll", 0.5]):
        for rule in (None, "ac"):
            with pytest.raises(cw.InputError):
                cw.Choice.from_dict({"rule": rule, "objectives": objectives})


def test_settings_of_a_file_that_have_the_names_of_arguments_are_only_settings() -> None:
    with refused("unknown: 'cls'"):
        cw.Choice.of("ac-nc", cls=1, rule=2)


def test_words_say_the_tolerance_and_what_is_not_usual() -> None:
    live = cw.LiveSelector("ac-nc", delta_pp="0.50", weights={"photo": 2, "art": 1})
    assert in_words(live.chosen_by) == 'weights {"photo":2,"art":1}, delta_pp 0.50'
    assert in_words(cw.LiveSelector("source-acc").chosen_by) == ""


def test_a_log_sets_nothing(tmp_path: Path) -> None:
    """Names of columns are numbers' names and nothing else."""
    log = tmp_path / "log.csv"
    names = ["checkwise/val/accuracy", "checkwise/val/nll"]
    for other in ("checkwise/settings/ac-nll/delta_pp/50", "eval_checkwise/settings/source-acc"):
        log.write_text(f"step,{','.join(names)},{other}\n1,0.5,1,1\n2,0.6,2,1\n")
        run = cw.load(log)
        assert run.chosen_by == {}
        assert run.domains == ("val",)
        assert cw.select(run).step == 2
