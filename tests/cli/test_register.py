"""``study register`` as a user meets it, and what ``compare`` then says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkwise.study import Cohort, choice_of, method
from checkwise.study.folder import LOG
from checkwise.study.folder.registration import read_log
from checkwise.study.registered import registered_first
from tests.cli.calls import answer, heard, otherwise, refusal, run, said
from tests.study.cohorts import tiny_runs, write_cohort


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_cohort(tmp_path / "tiny", tiny_runs())


AC_NC = choice_of(method("ac-nc"))


def test_compare_says_before_of_the_registered_comparison_alone(folder: Path) -> None:
    assert run("study", "register", folder, "--metrics", "target_nll,target_accuracy") == 0
    for words, state, unregistered in [
        ((), "before", ["target_ece", "target_cwece"]),
        (("--metrics", "target_nll"), "before", []),
        (("--metrics", "target_brier"), "before", ["target_brier"]),
        (("--reference", "pure-nll"), "none", []),
        (("--scope", "hparams-acc"), "none", []),
    ]:
        heard()
        told = answer("study", "compare", folder, "--rules", "ac-nc", *words)["registered"]["ac-nc"]
        assert (told["state"], told["unregistered"]) == (state, unregistered), words


def test_a_scope_can_be_registered(folder: Path) -> None:
    assert run("study", "register", folder, "--scope", "hparams-acc") == 0
    heard()
    for scope, state in (("hparams-acc", "before"), ("run", "none")):
        assert run("study", "compare", folder, "--scope", scope, "--json") == 0
        assert json.loads(heard().out)["registered"]["ac-nc"]["state"] == state


def test_registering_again_after_the_opening_is_late(folder: Path) -> None:
    assert run("study", "register", folder) == 0
    first = read_log(folder)[0]["at"].replace("T", " ").replace("+00:00", " UTC")
    Cohort.open(folder).compare()
    heard()
    assert run("study", "register", folder) == 0
    said = " ".join(heard().out.split())
    assert "ac-nc: registered late" in said
    assert f"the same choice was registered before, {first}" in said
    again = answer("study", "register", folder)
    assert (again["state"], again["earlier"]) == ("late", read_log(folder)[0]["at"])
    assert registered_first(folder, AC_NC).state == "before"  # the first registration counts


def test_the_command_records_and_compare_tells(folder: Path) -> None:
    assert (
        run("study", "register", folder, "--delta-pp", "1.0", "--tables", "main,by-algorithm") == 0
    )
    assert "before held-out results were opened" in heard().out
    entry = read_log(folder)[0]
    assert entry["choice"]["params"]["delta_pp"] == "1"
    assert entry["choice"]["tables"] == ["main", "by-algorithm"]
    assert len(entry["journals"]) == 4

    told = answer("study", "compare", folder, "--delta-pp", "1")["registered"]["ac-nc"]
    assert (told["state"], told["changed"], told["others"]) == ("before", 0, 0)
    assert run("study", "compare", folder) == 0
    assert "ac-nc: not registered before" in " ".join(heard().out.split())

    assert run("study", "register", folder, "--json") == 0
    assert json.loads(heard().out)["state"] == "late"


def test_the_command_refuses_what_the_rule_does_not_take(folder: Path) -> None:
    assert "none takes 'delta_pp'" in refusal(
        "study", "register", folder, "--rule", "pure-nll", "--delta-pp", "1"
    )
    assert run("study", "register", folder, "--rule", "nonsense") == 2
    assert not (folder / LOG).exists()


def test_what_could_not_be_shown_does_not_enter_the_log(folder: Path) -> None:
    refused = {
        "--weights banana": "'banana'",
        "--weights nowhere=1": "weight",
        "--reference banana": "'banana'",
        "--reference ac-nc": "ac-nc",
        "--rule source-acc": "source-acc",
        "--scope banana": "scope … run",
        "--metrics target_nll,banana": "gap_pp, source_accuracy … 'banana'",
        "--metrics ''": "--metrics … one",
        "--rule ac --param objectives=nll,nll": "objective",
        "--rule ac --param objectives=nll,banana": "accuracy … 'banana'",
        "--rule ac --param objectives=": "objectives",
        "--tables banana": "main … 'banana'",
        "--rule wald": "--param threshold_pp= … wald",
        "--rule wald+ts": "--param threshold_pp= … wald+ts",
    }
    lines = {f"study register STUDY {words}": named for words, named in refused.items()}
    assert not otherwise(lines, STUDY=folder)
    assert not (folder / LOG).exists()


def test_objectives_that_can_be_chosen_by_are_registered(folder: Path) -> None:
    assert run("study", "register", folder, "--rule", "ac", "--param", "objectives=nll,ece") == 0
    assert read_log(folder)[0]["choice"]["params"]["objectives"] == ["nll", "ece"]


def test_a_method_with_a_tolerance_needs_no_threshold(folder: Path) -> None:
    assert run("study", "register", folder, "--rule", "wald-recalibrated") == 0


def test_a_parameter_that_only_the_reference_takes_is_registered_and_recognised(
    folder: Path,
) -> None:
    options = ("--reference", "ac-nc", "--delta-pp", "1")
    assert run("study", "register", folder, "--rule", "pure-nll", *options) == 0
    assert "pure-nll: registered" in said(
        "study", "compare", folder, "--rules", "pure-nll", *options
    )
