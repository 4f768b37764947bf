"""What is asked: every kind of question in a quick comparison too, and every real log."""

from __future__ import annotations

from pathlib import Path

import pytest

import questions
from differences import Difference
from page_facts import read
from questions import KINDS, Asked
from same_answers import by_place, parse

ARCHIVES = [Path(f"{name}.tar.xz") for name in ("pacs-full", "pacs-frozen", "pacs-frozen-lodo")]


def shared(folder: Path) -> Path:
    for log in ("hf/trainer_state.json", "more/a+b/runs/results.csv", "mlflow/0/metrics/val_loss"):
        (folder / "real-logs" / log).parent.mkdir(parents=True, exist_ok=True)
        (folder / "real-logs" / log).touch()
    (folder / "domainbed-logs" / "sweep").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("quick", [False, True])
def test_every_kind_is_asked(quick: bool, tmp_path: Path) -> None:
    asked = Asked(quick=quick, shared=shared(tmp_path))
    batches = [questions.training(2), *questions.batches(["ac-nc"], ARCHIVES, asked)]
    kinds = {question.kind for batch in batches for question in batch.questions}
    assert kinds == {*KINDS, "unpack"}


def test_only_some_kinds_and_what_they_need(tmp_path: Path) -> None:
    asked = Asked(kinds={"registered", "live"}, shared=shared(tmp_path))
    batches = questions.batches(["ac-nc"], ARCHIVES, asked)
    assert [batch.name for batch in batches] == ["pacs-frozen", "pacs-full", "live"]
    kinds = {question.kind for batch in batches for question in batch.questions}
    assert kinds == {"registered", "live", "unpack"}
    assert not asked.trains
    assert Asked(kinds={"deploy"}).trains


def test_every_log_is_read_and_every_folder_of_logs(tmp_path: Path) -> None:
    logs = questions.batches(["ac-nc"], [], Asked(kinds={"logs"}, shared=shared(tmp_path)))
    read_paths = {question.arguments[1] for question in logs[0].questions}
    there = {f"shared/{path.relative_to(tmp_path)}" for path in (tmp_path / "real-logs").rglob("*")}
    assert read_paths == there
    answers = [question.answer for question in logs[0].questions]
    assert len(set(answers)) == len(answers)


def test_kinds_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["HEAD", "--only", "live,prune"]).only == {"live", "prune"}
    with pytest.raises(SystemExit):
        parse(["HEAD", "--only", "live,prunes"])
    assert "prunes" in capsys.readouterr().err


def test_a_page_is_what_it_says() -> None:
    page = """<h1>ac-nc</h1><table><tr><th>a</th></tr><tr><td>1 <b>2</b></td></tr></table>
    <script type="application/json">{"step": 3}</script><script>let x = 1 < 2;</script>"""
    assert read(page) == {"data": [{"step": 3}], "tables": [[["a"], ["1 2"]]]}


def test_differences_in_one_place_are_shown_together() -> None:
    change = [Difference(f"live/{n}.json", f".steps[{n}].choice", "1", "2") for n in range(3)]
    other = Difference("live/0.json", ".keep", "1", "2")
    groups = by_place({"live/0.json": [change[0], other], "live/1.json": change[1:]})
    assert groups == {("live", ".steps[*].choice"): change, ("live", ".keep"): [other]}
