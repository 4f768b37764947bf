"""A selection that keeps predictions, killed at each of its operations on files in turn.

Started by ``test_live_predictions`` in a process of its own, which forks: ``python -m
tests.integrations.killed_predictions FOLDER``. It prints how often it was killed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import checkwise as cw
from tests.killing import die_at, in_child, was_killed
from tests.selection.example_runs import outputs

OPERATIONS = ("fsync", "rename", "unlink", "rmdir", "pwrite", "mkdir", "open", "replace")
MADE = outputs(0, steps=3, sizes=(12, 9))


def train(folder: Path) -> None:
    """Go on after the last record, and once replace a record."""
    journal = folder / "checkwise.jsonl"
    with cw.LiveSelector(journal=journal, calibrator="ts-soften") as live:
        live.resume(max(live.steps, default=0))
        for step, domains in MADE.items():
            if step not in live.steps:
                live.add(step, domains)
            if step == 200 and not (folder / "replaced").exists():
                live.add(100, {name: (z + 1e-3, y) for name, (z, y) in MADE[100].items()})
                (folder / "replaced").touch()


def killed(folder: Path, number: int) -> bool:
    """Train until an operation; whether it came so far."""

    def work() -> None:
        die_at(number, OPERATIONS)
        train(folder)

    return was_killed(in_child(work))


def check(folder: Path) -> None:
    """What a reader finds before anybody has mended anything."""
    journal = folder / "checkwise.jsonl"
    if not journal.exists() or b'"domains"' not in journal.read_bytes():
        return
    run = cw.load(folder)
    assert run.examples is not None
    for step in run.steps.tolist():
        assert run.examples.logits(step)
    assert run.examples.correct[0].shape == (len(run), 12)
    for place in (folder / "predictions").glob("step-*"):
        assert sorted(file.name for file in place.iterdir()) == ["d0.npz", "d1.npz"]


def calibrator(folder: Path) -> dict[str, object]:
    """All of it but for where the run is."""
    record = json.loads((folder / "calibrator.json").read_text())
    return {name: value for name, value in record.items() if name != "run"}


def main(root: Path) -> None:
    once = root / "once"
    once.mkdir()
    train(once)  # compiles everything, so that forks need not
    expected = cw.select(cw.load(once))
    kills = 0
    for number in range(1, 1000):
        folder = root / str(number)
        folder.mkdir()
        if not killed(folder, number):
            break
        kills += 1
        check(folder)
        train(folder)
        names = {place.name for place in (folder / "predictions").iterdir()}
        assert names == {f"step-{step:06d}" for step in MADE}
        assert cw.select(cw.load(folder)).digest == expected.digest
        for file in once.glob("predictions/*/*.npz"):
            assert (folder / file.relative_to(once)).read_bytes() == file.read_bytes()
        assert calibrator(folder) == calibrator(once)
    print(kills)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
