"""A question reaches a commit in the commit's words; answers come back in the question's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
import sides
from ask import Side
from words import Words

INVENTED = Words.parse(
    """
[commands]
"tables {cohort} --out {folder}" = "study report {cohort} --tables {folder}"
"{start...} --q {q} {rest...}" = "{start...} --param q={q} {rest...}"
"deploy {a} --out {to} {o...}" = "select {a} -o {to}.json && deploy {to}.json -o {to} {o...}"
[keys]
gap_pp = "gap_points"
[places]
"select.{rest...}" = "select.runs.[0].selection.{rest...}"
[rules]
source-acc = "best"
ac-nc = "near-best"
"""
)


@pytest.mark.parametrize(
    ("said", "here"),
    [
        ("tables pacs --out t", ["study report pacs --tables t"]),
        ("tables pacs --out t --json", ["tables pacs --out t --json"]),
        ("select a --q 2 --delta-pp 1", ["select a --param q=2 --delta-pp 1"]),
        ("select a --q 2", ["select a --param q=2"]),
        ("deploy a --out m --q 1", ["select a -o m.json", "deploy m.json -o m --param q=1"]),
        ("select a --rule ac-nc", ["select a --rule near-best"]),
        ("compare --rules ac-nc,ac-nc+ts,last", ["compare --rules near-best,near-best+ts,last"]),
        ("select ac-nc-2.csv", ["select ac-nc-2.csv"]),
    ],
)  # fmt: skip
def test_a_command_is_said_in_the_commits_words(said: str, here: list[str]) -> None:
    assert INVENTED.command(said.split()) == [command.split() for command in here]
    assert Words().command(said.split()) == [said.split()]


def test_an_answer_comes_back_in_the_questions_words() -> None:
    said = {"schema": 2, "runs": [{"selection": {"gap_points": 0.1, "rule": "near-best", "n": []}}]}
    expected = {"schema": 2, "gap_pp": 0.1, "rule": "ac-nc", "n": []}
    assert INVENTED.answer("select", said) == expected
    # Places are those of one kind of answer, keys and rules are everywhere.
    inner = {"gap_pp": 0.1, "rule": "ac-nc", "n": []}
    assert INVENTED.answer("prune", said) == {"schema": 2, "runs": [{"selection": inner}]}
    rows = [["rule", "gap_points"], ["best", "0.1"]]
    assert INVENTED.table(rows) == [["rule", "gap_pp"], ["source-acc", "0.1"]]


def test_lists_and_empty_values_keep_their_places() -> None:
    moved = Words(places={"select.old": "select.new"})
    said = {"new": 1, "list": [[], {}, None, {"a": [1, 2]}], "0": "a key of digits"}
    expected = {key.replace("new", "old"): value for key, value in said.items()}
    assert moved.answer("select", said) == expected


def test_one_run_of_several_stays_where_it_is() -> None:
    words = Words(single={"select": "runs.[0].selection"})
    one, two = {"selection": {"step": 1}}, {"selection": {"step": 2}}
    assert words.answer("select", {"runs": [one]}) == {"step": 1}
    assert words.answer("select", {"runs": [one, two]}) == {"runs": [one, two]}
    assert words.answer("compare", {"runs": [one]}) == {"runs": [one]}


def test_files_are_found_where_this_side_puts_them() -> None:
    words = Words(files={"{study}/{table}": "{study}/all/{table}"})
    assert words.file("pacs/all/main.csv") == "pacs/main.csv"
    assert words.file("pacs/paper.csv") == "pacs/paper.csv"


def test_this_commit_is_asked_in_words_it_does_not_know(tmp_path: Path) -> None:
    """The other way round: invented questions, and what this commit calls them."""
    words = Words(
        commands={"choose {path} --machine": "select {path} --json"},
        python={"checkwise:Growing": "checkwise:LiveSelector"},
        keys={"chosen_step": "step"},
        single={"select": "runs.[0].selection"},
    )
    side = Side("select", words)
    table = tmp_path / "table.csv"
    table.write_text("step,accuracy,nll,cwece\n1,0.8,0.5,0.1\n2,0.9,0.4,0.1\n")
    answer = side.run("choose", table, "--machine")
    assert answer["chosen_step"] == 2
    assert side.run("choose", tmp_path / "nothing.csv", "--machine") == {"exit": 2}
    assert side.public("checkwise:Growing") is cw.LiveSelector


def test_an_unknown_table_of_words_is_refused() -> None:
    with pytest.raises(SystemExit) as stop:
        Words.parse("[comands]\n")
    assert "comands" in str(stop.value)


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv"])
def test_files_are_kept_in_the_questions_words(suffix: str, tmp_path: Path) -> None:
    lines: dict[str, Any] = {
        ".json": '{"gap_points": 1}',
        ".jsonl": '{"gap_points": 1}\n{"gap_points": 2}',
        ".csv": "gap_points\n1",
    }
    file, kept = tmp_path / f"a{suffix}", tmp_path / "kept" / f"a{suffix}"
    file.write_text(lines[suffix])
    sides._copy(file, kept, "journals", INVENTED)
    assert kept.read_text() == lines[suffix].replace("gap_points", "gap_pp") + "\n"


def test_the_words_of_this_commit_are_read() -> None:
    words = sides.Side.named(None).words
    assert json.loads(json.dumps(words.command(["rules", "--json"])))
