"""What a training reports about itself while it runs, written down beside its log.

The account is the tests' outside reference: its numbers come from the trainer's own objects in a
callback, and a checkpoint belongs to the evaluation after which its file appeared or changed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

Scores = Mapping[str, Mapping[str, float]]
Stamp = tuple[int, ...]


@dataclass
class Evaluation:
    """One evaluation during a training.

    Args:
        step: optimizer steps finished by then.
        epoch: the epoch as the trainer's own objects count it.
        scores: metrics of each validation set, as the trainer reported them.
        checkpoint: the checkpoint of this evaluation, under a name of its own, if the training
            left it.
        also: files with the same weights under a name that moves on (``last.ckpt``, ``best.pt``).
        lost: checkpoints written at this evaluation and deleted or overwritten later.
    """

    step: int
    epoch: float
    scores: dict[str, dict[str, float]]
    checkpoint: str | None = None
    also: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


class Account:
    """Watches one run from inside the training.

    Args:
        root: folder of the case.
        log: the log's path below it.
        own: glob of checkpoints that are written once, below it.
        n: examples of each validation set.
        moving: globs of checkpoints that are written again and again.
    """

    def __init__(
        self, root: Path, log: str, own: str, *, n: Mapping[str, int], moving: Sequence[str] = ()
    ) -> None:
        self.root, self.log, self.n = root, log, dict(n)
        self.own, self.moving = own, tuple(moving)
        self.evaluations: list[Evaluation] = []
        self.after_training: list[Evaluation] = []
        self._over = False
        self._writers: dict[str, tuple[int, Stamp]] = {
            path: (-1, stamp) for path, stamp in self._checkpoints()
        }

    def evaluated(
        self, *, step: int, epoch: float, scores: Scores, saved_before: bool = False
    ) -> None:
        """Record an evaluation.

        What was saved since the evaluation before belongs to that one, unless the trainer saves
        before it reports.
        """
        if not saved_before:
            self.saved()
        plain = {name: {k: float(v) for k, v in values.items()} for name, values in scores.items()}
        log = self.after_training if self._over else self.evaluations
        log.append(Evaluation(int(step), float(epoch), plain))

    def over(self) -> None:
        """The training has ended: evaluations from here on are of weights saved earlier."""
        self.saved()
        self._over = True

    def overwritten(self) -> None:
        """Another training saved under the same names: files that changed are lost to this one."""
        for path, stamp in self._checkpoints():
            writer, before = self._writers.get(path, (-1, ()))
            if writer >= 0 and stamp != before:
                self.evaluations[writer].lost.append(path)
            if stamp != before:
                self._writers[path] = (-1, stamp)

    def resume(self, *, step: int) -> None:
        """The training starts again after this step: what it did beyond is abandoned."""
        self.saved()
        self.evaluations = [e for e in self.evaluations if e.step <= step]
        for path, (writer, stamp) in self._writers.items():
            if writer >= len(self.evaluations):
                self._writers[path] = (-1, stamp)

    def saved(self) -> None:
        """Give checkpoints that are new or changed to the latest evaluation of the training."""
        if self._over:
            return
        latest = len(self.evaluations) - 1
        for path, stamp in self._checkpoints():
            writer, before = self._writers.get(path, (-1, ()))
            if stamp != before:
                if writer >= 0 and writer != latest:
                    self.evaluations[writer].lost.append(path)
                self._writers[path] = (latest, stamp)

    def finish(self) -> dict[str, object]:
        """The run's entry of ``expected.json``."""
        self.saved()
        present = dict(self._checkpoints())
        own = {path for path, _ in self._matching(self.own)}
        for path, (writer, _) in self._writers.items():
            if writer < 0:
                continue
            evaluation = self.evaluations[writer]
            if path not in present:
                evaluation.lost.append(path)
            elif path in own:
                assert evaluation.checkpoint is None, (path, evaluation)
                evaluation.checkpoint = path
            else:
                evaluation.also.append(path)
        return {
            "log": self.log,
            "n": self.n,
            "evaluations": [asdict(e) for e in self.evaluations],
            "after_training": [asdict(e) for e in self.after_training],
        }

    def _checkpoints(self) -> Iterator[tuple[str, Stamp]]:
        for pattern in (self.own, *self.moving):
            yield from self._matching(pattern)

    def _matching(self, pattern: str) -> Iterator[tuple[str, Stamp]]:
        for path in sorted(self.root.glob(pattern)):
            yield path.relative_to(self.root).as_posix(), _stamp(path)


def _stamp(path: Path) -> Stamp:
    """A file's size and time; a folder's are those of its files."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return tuple(n for file in files for n in (file.stat().st_size, file.stat().st_mtime_ns))


def keep(case: Path, into: Path, *, runs: Sequence[Account], logs: Sequence[str]) -> None:
    """Write a finished training as a case: its logs, the names of all its files, the account.

    Args:
        case: the folder that the training left.
        into: ``tests/material/trainers/<trainer>/<case>``.
        runs: the accounts of its runs.
        logs: globs of the files to copy; of all others only name and size are kept.
    """
    shutil.rmtree(into, ignore_errors=True)
    files = sorted(path for path in case.rglob("*") if path.is_file())
    (into / "files").mkdir(parents=True)
    names = [f"{path.stat().st_size:>9}  {path.relative_to(case).as_posix()}\n" for path in files]
    (into / "tree.txt").write_text("".join(names), encoding="utf-8")
    for pattern in logs:
        for path in sorted(case.glob(pattern)):
            target = into / "files" / path.relative_to(case)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    text = json.dumps({"runs": [run.finish() for run in runs]}, indent=1)
    (into / "expected.json").write_text(text + "\n", encoding="utf-8")
