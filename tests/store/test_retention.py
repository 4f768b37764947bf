"""Policies say what stays; deleting touches nothing else and leaves no half checkpoint."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

import checkwise as cw
from checkwise.selection import KeepEvery, KeepFeasible, KeepLast, KeepMembers, Policy
from checkwise.store import Home, delete_checkpoint, delete_others, plan_pruning
from checkwise.store.deleting import remove_leftovers, size_of
from tests.refusals import refused

POLICIES = st.one_of(
    st.just(KeepFeasible()),
    st.builds(KeepLast, st.integers(1, 4)),
    st.builds(KeepEvery, st.integers(1, 7)),
    st.just(KeepFeasible("ac-early", 3)),
    st.just(KeepMembers(3)),
    st.just(KeepFeasible() | KeepLast(2) | KeepEvery(5)),
)


def metrics(accuracy: int) -> dict[str, dict[str, float]]:
    return {"val": {"accuracy": accuracy / 100, "nll": 1 - accuracy / 200, "n": 100}}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(80, 100), min_size=1, max_size=9), POLICIES)
def test_neither_the_chosen_nor_the_newest_nor_an_unknown_file_goes(
    accuracies: list[int], policy: Policy
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "0-other.pt").touch()  # nobody said that it was saved
        live = cw.LiveSelector("ac-nll", delta_pp=2, checkpoints=folder)
        feasible = 0
        for step, accuracy in enumerate(accuracies):
            live.add(step, metrics(accuracy))
            path = folder / f"{step}.pt"
            path.touch()
            live.saved(step, path)
            there = len(os.listdir(folder)) - 1
            if policy == KeepFeasible():
                assert there <= max(feasible, len(live.keep)) + 2
            live.prune(policy)
            there = len(os.listdir(folder)) - 1
            feasible = len(live.keep)
            if policy == KeepFeasible():
                assert there <= feasible + 1
            assert path.exists()
            assert (folder / "0-other.pt").exists()
            best = live.among(live.checkpoints).selection
            assert best is not None
            assert best.path is not None
            assert Path(best.path).exists()
            if isinstance(policy, KeepLast):
                assert {p for p in range(step + 1) if (folder / f"{p}.pt").exists()} >= set(
                    list(range(step + 1))[-policy.n :]
                )


@given(st.sets(st.integers(0, 60)), st.integers(1, 9), st.integers(1, 9))
def test_a_combination_keeps_what_either_keeps(steps: set[int], last: int, every: int) -> None:
    live = cw.LiveSelector("source-acc")
    one, other = KeepLast(last), KeepEvery(every)
    both = (one | other).keep(steps, live)
    assert both == one.keep(steps, live) | other.keep(steps, live)
    assert (one | other | one).keep(steps, live) == both
    assert one.keep(steps, live) == set(sorted(steps)[-last:])
    pruned = other.keep(steps, live)
    assert other.keep(pruned, live) == pruned, "pruning again deletes nothing"
    assert {step // every for step in pruned} == {step // every for step in steps}


def test_multiples_stay_where_they_were_saved() -> None:
    live = cw.LiveSelector("source-acc")
    assert KeepEvery(100).keep(range(0, 400, 50), live) == {0, 100, 200, 300}


def test_what_was_not_measured_stays() -> None:
    live = cw.LiveSelector("ac-nll")
    assert KeepFeasible().keep([1, 2], live) == {1, 2}
    live.add(1, metrics(80))
    live.add(2, metrics(90))
    assert KeepFeasible().keep([1, 2, 3], live) == {2, 3}
    assert KeepFeasible("ac-nll", 20).keep([1, 2], live) == {1, 2}


def test_a_policy_refuses_what_is_none() -> None:
    for wrong in (0, -1, 1.5, True):
        with refused("value: 1"):
            KeepLast(wrong)  # type: ignore[arg-type]
    with refused("unknown"):
        KeepFeasible("ac-x")
    with refused("value: 0"):
        KeepFeasible(delta_pp=-1)


def folders(place: Path, *steps: int) -> dict[int, Path]:
    saved = {step: place / f"checkpoint-{step}" for step in steps}
    for path in saved.values():
        (path / "deep").mkdir(parents=True)
        (path / "a").write_bytes(b"x" * 10)
        (path / "deep" / "b").write_bytes(b"x" * 5)
    return saved


def test_folders_and_files_go_and_the_bytes_are_counted(tmp_path: Path) -> None:
    saved = folders(tmp_path, 1, 2, 3)
    saved[4] = tmp_path / "4.pt"
    saved[4].write_bytes(b"x" * 7)
    saved[5] = tmp_path / "5.pt"
    saved[5].touch()
    os.link(saved[4], tmp_path / "best.pt")  # deleting one name of a file frees nothing
    home = Home((tmp_path,))
    plan = plan_pruning(saved, {2: "chosen", 5: "newest"}, home=home)
    assert (plan.steps, plan.bytes) == ((1, 3, 4), 30)
    assert delete_others(saved, {2}, home=home) == (1, 3, 4)
    assert sorted(os.listdir(tmp_path)) == ["5.pt", "best.pt", "checkpoint-2"]


def test_what_is_gone_already_is_fine(tmp_path: Path) -> None:
    saved = folders(tmp_path, 1, 2, 3)
    home = Home((tmp_path,))
    delete_checkpoint(saved[1], home)
    assert delete_others(saved, (), home=home) == (1, 2)
    assert os.listdir(tmp_path) == ["checkpoint-3"]
    delete_checkpoint(tmp_path / "never", home)
    assert size_of(tmp_path / "never") == 0


def test_nothing_goes_before_the_newest_is_there(tmp_path: Path) -> None:
    saved = folders(tmp_path, 1, 2)
    home = Home((tmp_path,))
    delete_checkpoint(saved[2], home)
    with refused("missing: 2"):
        delete_others(saved, (), home=home)
    assert saved[1].exists()


def test_a_path_of_two_steps_stays_with_either(tmp_path: Path) -> None:
    last = tmp_path / "last.pt"
    last.touch()
    (tmp_path / "link.pt").symlink_to(last)
    newest = tmp_path / "new.pt"
    newest.touch()
    saved = {1: last, 2: last, 3: tmp_path / "link.pt", 4: newest}
    assert delete_others(saved, {2}, home=Home((tmp_path,))) == ()
    assert last.exists()


def test_what_a_killed_process_was_deleting_is_deleted_with_the_next(tmp_path: Path) -> None:
    saved = folders(tmp_path, 1, 2, 3)
    half = tmp_path / ".checkpoint-0.0123abcd.being-deleted"
    (half / "deep").mkdir(parents=True)
    delete_others(saved, {2}, home=Home((tmp_path,)))
    assert sorted(os.listdir(tmp_path)) == ["checkpoint-2", "checkpoint-3"]
    remove_leftovers(tmp_path / "absent", Home((tmp_path,)))
