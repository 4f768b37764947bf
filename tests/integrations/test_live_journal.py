"""A live selection survives its process: the journal holds every record and nothing else."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkwise as cw
from checkwise.selection import KeepEvery, KeepFeasible
from tests.refusals import refused, said

LABELS = np.random.default_rng(0).integers(0, 4, 60)


def outputs(seed: int, skill: float = 1.0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    right = np.eye(4)[LABELS] * skill
    return {name: (right + rng.normal(size=(60, 4)), LABELS) for name in ("a", "b")}


def plain(accuracy: float, nll: float = 0.5, n: int = 200) -> dict[str, Any]:
    return {"val": {"accuracy": accuracy, "nll": nll, "cwece": nll / 10, "n": n}}


def test_resuming_never_loses_the_best(tmp_path: Path) -> None:
    journal = tmp_path / "run" / "checkwise.jsonl"
    direct = cw.LiveSelector("ac-nc", delta_pp=2)
    for step in range(6):
        with cw.LiveSelector("ac-nc", delta_pp=2, journal=journal) as live:
            live.add(step, outputs(step, skill=3 - abs(step - 3)))
        direct.add(step, outputs(step, skill=3 - abs(step - 3)))
        again = cw.LiveSelector("ac-nc", delta_pp=2, journal=journal, read_only=True)
        assert again.selection is not None
        assert direct.selection is not None
        assert again.selection.as_dict() == direct.selection.as_dict()
        assert (again.keep, again.droppable) == (direct.keep, direct.droppable)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 200)), min_size=1, max_size=12))
def test_the_last_record_of_a_step_counts(adds: list[tuple[int, int]]) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        journal = Path(folder) / "j"
        with cw.LiveSelector(journal=journal) as live:
            for step, correct in adds:
                live.add(step, plain(correct / 200))
        direct = cw.LiveSelector()
        for step, correct in dict(adds).items():
            direct.add(step, plain(correct / 200))
        again = cw.LiveSelector(journal=journal)
        assert again.trajectory.digest == live.trajectory.digest == direct.trajectory.digest
        assert again.choice == live.choice == direct.choice
        again.close()


def test_a_torn_last_line_is_cut_off_and_written_again(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    with cw.LiveSelector("ac-nll", journal=journal) as live:
        for step in (1, 2, 3):
            live.add(step, plain(0.9, 1 / step))
    whole = journal.read_bytes()
    for cut in range(1, 60, 7):
        journal.write_bytes(whole[:-cut])
        with cw.LiveSelector("ac-nll", journal=journal) as live:
            assert live.steps == (1, 2)
            live.add(3, plain(0.9, 1 / 3))
        assert journal.read_bytes() == whole


def test_every_prefix_of_a_journal_is_a_journal(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    with cw.LiveSelector("ac-nll", journal=journal) as live:
        for step in (1, 2):
            live.add(step, plain(0.9, 1 / step))
    whole = journal.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    for length in range(len(whole) + 1):
        journal.write_bytes(whole[:length])
        with cw.LiveSelector("ac-nll", journal=journal) as live:
            assert len(live.steps) == max(sum(end <= length for end in ends) - 1, 0)


def test_a_file_that_is_no_journal_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    other = tmp_path / "metrics.jsonl"
    for content in (b"hello", b'{"step": 1}\n', b'{"checkwise":"other"}\n', b"\0" * 40):
        other.write_bytes(content)
        with refused("format"):
            cw.LiveSelector(journal=other)
        assert other.read_bytes() == content


LINES = (
    b"{}", b"[]", b"{", b'{"step":1}', b'{"step":"1","diverged":false,"domains":{}}',
    b'{"step":1,"diverged":false,"domains":{"a":{"values":{"accuracy":"x"}}}}',
    b'{"step":1,"diverged":false,"domains":{"a":{"values":{}}}}',
    b'{"step":1,"diverged":false,"domains":{"a":{"else":3}}}',
)  # fmt: skip


def test_damage_in_the_middle_is_refused_with_its_line(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    with cw.LiveSelector(journal=journal) as live:
        live.add(1, plain(0.9))
        live.add(2, plain(0.9))
    first, _, last = journal.read_bytes().splitlines(keepends=True)
    accepted = []
    for line in LINES:
        journal.write_bytes(first + line + b"\n" + last)
        if not refuses("damaged: 2", lambda: cw.LiveSelector(journal=journal)):
            accepted.append(line)
    assert not accepted


def refuses(words: str, work: Callable[[], object]) -> bool:
    """Whether something is refused with a code and names."""
    try:
        work()
    except cw.InputError as error:
        return said(error, words)
    return False


def test_another_rule_or_setting_is_refused_with_what_differs(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    cw.LiveSelector("ac-nc", delta_pp=1, weights={"a": 1, "b": 2}, journal=journal).close()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"rule": "ac-nll", "delta_pp": 1}, "rule was 'ac-nc' and is 'ac-nll'"),
        ({"delta_pp": 0.5}, "delta_pp was 1 and is 0.5"),
        ({"delta_pp": 1, "q": 2}, "q was 'inf' and is 2"),
        ({"delta_pp": 1, "bins": 10}, "bins was 15 and is 10"),
        ({"delta_pp": 1, "held_out": "x"}, "held_out was [] and is ['x']"),
        ({"delta_pp": 1, "weights": "equal"}, "weights was {'a': 1, 'b': 2} and is not set"),
    ]
    for changed, difference in refused:
        asked: dict[str, Any] = {"weights": {"a": 1, "b": 2}, **changed}
        with pytest.raises(cw.InputError) as caught:
            cw.LiveSelector(journal=journal, **asked)
        assert difference in str(caught.value)
    with cw.LiveSelector(delta_pp="1.0", weights={"a": 1.0, "b": 2}, journal=journal):
        pass  # the same numbers, written otherwise


def test_the_first_line_says_how_to_choose_and_what_to_read(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    asked: dict[str, Any] = {"delta_pp": "0.50", "guard": False, "weights": {"a": 2, "b": 1}}
    cw.LiveSelector("ac-nc", journal=journal, held_out="x", **asked).close()
    first = json.loads(journal.read_text())
    assert first == {
        "checkwise": "live selection",
        "schema": 2,
        "choice": {**cw.select(run_of_two(), "ac-nc").params, "rule": "ac-nc", "q": "inf", **asked},
        "bins": 15,
        "bandwidth": 0.1,
        "held_out": ["x"],
        "sources": [],
    }
    again = cw.LiveSelector.from_journal(journal)
    assert again.chosen_by == first["choice"]


def run_of_two() -> cw.Trajectory:
    values = {name: [[0.5], [0.4]] for name in ("accuracy", "nll", "cwece")}
    return cw.Trajectory(steps=[1, 2], domains=["val"], values=values)


WRONG: list[dict[str, Any]] = [
    {"rule": ""}, {"rule": 3}, {"rule": ["ac-nc"]}, {"guard": 1}, {"weights": 2},
    {"worst_domain": "yes"}, {"directions": {"f1": 1}},
    {"directions": []}, {"tolerance": 5}, {"tolerance": "none"}, {"alpha": "0.1"},
    {"bins": 3}, {"schema": 2}, {"journal": "x"}, {"predictions": "/"}, {"read_only": True},
    {"checkpoints": "/"}, {"trajectory": 1}, {"self": 1}, {"delta_pp": -1},
]  # fmt: skip
HEADERS: list[dict[str, Any]] = [
    {"choice": {}}, {"choice": []}, {"choice": None}, {"rule": "ac-nc"}, {"bins": "15"},
    {"bins": True}, {"held_out": "x"}, {"sources": [1]}, {"bandwidth": None}, {"else": 1},
    *({"choice": {"rule": "ac-nc", **wrong}} for wrong in WRONG),
    *({name: ...} for name in ("choice", "bins", "bandwidth", "held_out", "sources")),
]  # fmt: skip


def test_a_first_line_of_another_form_is_refused_by_every_reader(tmp_path: Path) -> None:
    """A choice that is none is noticed where it is made; `...` is what is left out."""
    journal = tmp_path / "checkwise.jsonl"
    with cw.LiveSelector(journal=journal) as live:
        live.add(1, plain(0.9))
    first, *lines = journal.read_text().splitlines()

    def write(changed: dict[str, Any]) -> bytes:
        header = {name: v for name, v in {**json.loads(first), **changed}.items() if v is not ...}
        text = "\n".join([json.dumps(header, separators=(",", ":")), *lines, ""])
        journal.write_text(text)
        return text.encode()

    accepted: list[object] = []
    for schema in (1, 3, None, "2", 2.0, True):
        before, words = write({"schema": schema}), f"format: 2 … {schema!r} … {journal}"
        readers = (
            lambda: cw.load(journal),
            lambda: cw.LiveSelector.from_journal(journal),
            lambda: cw.LiveSelector(journal=journal),
        )
        accepted += [schema for read in readers if not refuses(words, read)]
        assert journal.read_bytes() == before
    for changed in HEADERS:
        write(changed)
        if not refuses("damaged: 1", lambda: cw.LiveSelector.from_journal(journal)):
            accepted.append(changed)
        with pytest.raises(cw.InputError):
            cw.select(cw.load(journal))
    assert not accepted


def test_two_writers_of_one_journal_are_refused(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    code = f"import checkwise as cw; cw.LiveSelector(journal={str(journal)!r})"
    with cw.LiveSelector(journal=journal) as live:
        with refused("busy: /j"):
            cw.LiveSelector(journal=journal)
        second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert second.returncode == 1
        assert "only one to write" in second.stderr
        live.add(1, plain(0.5))
    after = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert after.returncode == 0, after.stderr
    with refused("unsupported"):
        live.add(2, plain(0.5))


def test_a_forked_worker_does_not_hold_the_journal_of_a_killed_training(tmp_path: Path) -> None:
    """Workers of a data loader outlive a killed training for some seconds."""
    journal = tmp_path / "j"
    code = (
        "import os, sys, time, checkwise as cw\n"
        f"live = cw.LiveSelector(journal={str(journal)!r})\n"
        "ready, tell = os.pipe()\n"
        "worker = os.fork()\n"
        "if worker == 0:\n"
        "    os.write(tell, b'x')\n"
        "    os.close(1)\n"
        "    time.sleep(600)\n"
        "os.read(ready, 1)\n"
        "print(worker, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE)
    worker = int(killed.stdout)
    try:
        assert killed.returncode == -9
        os.kill(worker, 0)  # it lives
        cw.LiveSelector(journal=journal).close()
    finally:
        os.kill(worker, 9)


def test_a_full_disk_is_said_and_the_journal_stays_readable(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    live = cw.LiveSelector("ac-nc", journal=journal)
    live.add(1, outputs(1))
    whole = journal.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 40, hard))
    try:
        with refused("system"):
            live.add(2, outputs(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert journal.read_bytes() == whole
    assert live.steps == (1,), "what is not in the journal was not added"
    live.add(2, outputs(2))
    live.close()
    with cw.LiveSelector("ac-nc", journal=journal) as again:
        assert again.steps == (1, 2)


def test_records_hold_whole_counts_and_every_bit_of_the_metrics(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    with cw.LiveSelector(journal=journal) as live:
        live.add(7, outputs(3))
    line = json.loads(journal.read_text().splitlines()[1])
    report = cw.metrics.evaluate(logits=outputs(3)["a"][0], labels=LABELS)
    entry = line["domains"]["a"]
    assert (entry["n"], entry["correct"], entry["classes"]) == (60, report.correct, 4)
    assert entry["values"] == report.values()


def test_other_labels_are_refused_also_after_a_restart(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    with cw.LiveSelector(journal=journal) as live:
        live.add(1, outputs(3))
    other = {name: (z, y[::-1].copy()) for name, (z, y) in outputs(4).items()}
    with cw.LiveSelector(journal=journal) as live:
        with refused("differs: labels … 'a' … 2"):
            live.add(2, other)
        with refused("differs: a, b … 2"):
            live.add(2, {"a": outputs(4)["a"]})


def test_a_diverged_checkpoint_stays_diverged(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    with cw.LiveSelector("ac-nll", journal=journal) as live:
        live.add(1, {"val": {"accuracy": 0.1, "nll": float("nan")}})
        assert live.choice is None
        live.add(2, {"val": {"accuracy": 0.5, "nll": 1.0}})
    with cw.LiveSelector("ac-nll", journal=journal) as live:
        assert (live.choice, live.droppable) == (2, (1,))
        assert live.trajectory.n_diverged == 1
        assert live.trajectory.notes == ("step 1 diverged: outputs of 'val' are not finite",)


def test_what_came_after_the_step_of_a_resume_is_forgotten(tmp_path: Path) -> None:
    """A record whose weights were never saved neither wins nor raises the best accuracy."""
    journal = tmp_path / "j"
    with cw.LiveSelector(delta_pp=1, journal=journal) as live:
        live.add(10, plain(0.80))
        live.add(20, plain(0.70))
        live.add(30, plain(0.95))
    with cw.LiveSelector(delta_pp=1, journal=journal) as live:
        assert list(live.droppable) == [10, 20]
        live.resume(20)
        assert (live.choice, list(live.steps), list(live.droppable)) == (10, [10, 20], [20])
    with cw.LiveSelector(delta_pp=1, journal=journal) as live:
        assert (live.choice, live.steps) == (10, (10, 20))
        before = journal.read_bytes()
        live.resume(20)
        assert journal.read_bytes() == before
        live.add(30, plain(0.60))
        assert list(live.steps) == [10, 20, 30]
        live.resume(0)
        assert (live.choice, list(live.steps)) == (None, [])
    assert cw.LiveSelector(delta_pp=1, journal=journal).steps == ()


def test_another_training_with_the_same_journal_is_refused(tmp_path: Path) -> None:
    """Its first step is not after the last; what was only done again is no other training."""
    journal = tmp_path / "j"
    with cw.LiveSelector(journal=journal) as live:
        for step in (1, 2):
            live.add(step, plain(0.8))
        live.add(3, {"val": {"accuracy": float("nan"), "n": 200}})  # diverged
    before = journal.read_bytes()
    with cw.LiveSelector(journal=journal) as live:
        for step in (1, 3):
            with refused(f"exists: after 3 … got step {step} … resume(0)"):
                live.add(step, plain(0.7))
        assert journal.read_bytes() == before
        live.add(1, plain(0.8))
        live.add(3, {"val": {"accuracy": float("nan"), "n": 200}})
        live.add(4, plain(0.9))
        live.add(4, plain(0.7))  # its own step
        assert live.steps == (1, 2, 3, 4)
    with cw.LiveSelector(journal=journal) as live:
        live.resume(0)
        live.add(1, plain(0.7))
        assert live.steps == (1,)


def test_a_resume_from_before_a_deletion_leaves_out_what_is_gone(tmp_path: Path) -> None:
    """Step 30 made 10 and 20 infeasible; without it they would be near-best, but are gone."""
    with cw.LiveSelector(delta_pp=1, journal=tmp_path / "j") as live:
        for step, accuracy in ((5, 0.75), (10, 0.80), (20, 0.795), (30, 0.95)):
            live.add(step, plain(accuracy))
            weights = tmp_path / f"{step}"
            weights.touch()
            live.saved(step, weights)
        deleted = live.prune(KeepFeasible() | KeepEvery(100))
        assert deleted.steps == (10, 20)
        live.resume(20)
        assert live.choice == 5
