"""The comparison of two commits' answers finds what changed, and allows only what it is told to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from differences import Allowance, compare_folders, compare_values, read_listed, set_apart

EXACT = Allowance()
NEAR = Allowance(tolerance=1e-9)
REWORDED = Allowance(reworded=True)


def places(before: object, after: object, allowed: Allowance) -> list[str]:
    return [place for place, _, _ in compare_values(before, after, allowed)]


def test_a_decimal_may_differ_up_to_the_tolerance() -> None:
    before, after = {"nll": 0.5, "ece": 0.1}, {"nll": 0.5 + 1e-12, "ece": 0.1001}
    assert places(before, after, EXACT) == [".nll", ".ece"]
    assert places(before, after, NEAR) == [".ece"]


def test_the_tolerance_is_relative_to_large_numbers() -> None:
    assert places([2e9], [2e9 + 1.0], NEAR) == []
    assert places([2e9], [2e9 + 3.0], NEAR) == ["[0]"]


@pytest.mark.parametrize("after", [{"step": 200}, {"step": 100.0}, {"step": None}, {}, []])
def test_a_step_stays_whatever_the_tolerance(after: object) -> None:
    assert places({"step": 100}, after, Allowance(tolerance=1e9, reworded=True))


def test_a_hash_of_numbers_may_differ_only_with_a_tolerance() -> None:
    before, after = {"digest": "a" * 64}, {"digest": "b" * 64}
    assert places(before, after, EXACT) == places(before, after, REWORDED) == [".digest"]
    assert places(before, after, NEAR) == []


def test_a_reworded_sentence_keeps_its_numbers() -> None:
    before = ["2 of 51 diverged", "ac-nc"]
    assert places(before, ["2 diverged among 51", "ac-nc"], REWORDED) == []
    assert places(before, ["2 diverged among 51", "ac-nc"], NEAR) == ["[0]"]
    assert places(before, ["3 diverged among 51", "ac-nc"], REWORDED) == ["[0]"]
    assert places(before, ["2 of 51 diverged", "ac-ne"], REWORDED) == ["[1]"]


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_every_file_of_either_folder_is_compared(tmp_path: Path) -> None:
    before = write(
        tmp_path / "before", {"select/a.json": "{}", "tables/b.csv": "step,nll\n1,0.5\n"}
    )
    after = write(tmp_path / "after", {"select/c.json": "{}", "tables/b.csv": "step,nll\n2,0.5\n"})
    differences = compare_folders(before, after, Allowance(tolerance=1e9))
    assert [(file, bool(changes)) for file, changes in differences.items()] == [
        ("select/a.json", True),
        ("select/c.json", True),
        ("tables/b.csv", True),
    ]
    assert str(differences["tables/b.csv"][0]) == "tables/b.csv [1][0]: 1 → 2"


def test_without_an_allowance_bytes_count(tmp_path: Path) -> None:
    line = {"step": 0, "nll": 0.5}
    before = write(tmp_path / "before", {"source.jsonl": json.dumps(line) + "\n"})
    after = write(
        tmp_path / "after", {"source.jsonl": json.dumps(line, indent=None, separators=(",", ":"))}
    )
    assert compare_folders(before, after, EXACT)["source.jsonl"]
    assert not compare_folders(before, after, NEAR)["source.jsonl"]


def test_meant_differences_are_set_apart(tmp_path: Path) -> None:
    before = write(
        tmp_path / "before", {"deploy/a.json": '{"t": [1, 2], "n": 3}', "live/b.json": "1"}
    )
    after = write(
        tmp_path / "after", {"deploy/a.json": '{"t": [1, 4], "n": 5}', "live/c.json": "1"}
    )
    file = tmp_path / "listed.toml"
    file.write_text(
        """
[[difference]]
file = "deploy/*"
place = ".t[1]"
reason = "meant"
[[difference]]
file = "live/*"
reason = "an answer on one side"
[[difference]]
file = "select/*"
reason = "stale"
"""
    )
    left, listed = set_apart(compare_folders(before, after, EXACT), read_listed(file))
    assert {name: [change.place for change in found] for name, found in left.items()} == {
        "deploy/a.json": [".n"],
        "live/b.json": [],
        "live/c.json": [],
    }
    assert {entry.reason: len(found) for entry, found in listed.items()} == {
        "meant": 1,
        "an answer on one side": 2,
        "stale": 0,
    }


@pytest.mark.parametrize("text", ["", "[[difference]]\nfile = 'a'\n", "[[difference]\n"])
def test_a_list_that_gives_no_reason_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "listed.toml").write_text(text)
    with pytest.raises(SystemExit, match=r"listed\.toml"):
        read_listed(tmp_path / "listed.toml")
