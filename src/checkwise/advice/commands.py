"""The commands that ``advise`` prints: with the user's path and options, to new places."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FUNCTION: Final = "FILE.py:FUNCTION"
FOLDER: Final = "FOLDER"
# What has to be put in the place of words in capitals.
FILL_IN: Final = {
    FUNCTION: f"{FUNCTION}: your function(path, domain), which returns logits and labels "
    "(docs/predict.md)",
    FOLDER: f"{FOLDER}: where the data set lies",
}


@dataclass(frozen=True)
class Commands:
    """Commands about one run.

    Args:
        path: what the user named, or the run in it.
        options: how to read it, as on the command line.
        folder: where relative places begin.
    """

    path: str
    options: tuple[str, ...] = ()
    folder: str = "."

    def select(self, *more: str) -> str:
        """Choose a checkpoint."""
        return _joined("select", self.path, *self.options, *more)

    def calibrate(self, *more: str) -> str:
        """Fit a calibrator to the choice."""
        out = self._new("calibration", ".json")
        return _joined("calibrate", self.path, *self.options, *more, "-o", out)

    def deploy(self, *more: str, path: str | None = None) -> str:
        """Write a model."""
        options = self.options if path is None else ()
        return _joined("deploy", path or self.path, *options, *more, "-o", self._new("model"))

    def predict(self, checkpoints: str, domains: Sequence[str]) -> tuple[str, str]:
        """Save logits; the command and the predictions folder."""
        out = self._new("predictions")
        named = ",".join(domains)
        asked = ("--function", FUNCTION, "--domains", named, "-o", out)
        return _joined("predict", checkpoints, *asked), out

    def _new(self, name: str, suffix: str = "") -> str:
        """A name that nothing has."""
        number, free = 1, f"{name}{suffix}"
        while os.path.lexists(os.path.join(self.folder, free)):
            number += 1
            free = f"{name}-{number}{suffix}"
        return free


def _joined(*words: str) -> str:
    return shlex.join(("checkwise", *words))


def to_fill_in(commands: Sequence[str]) -> tuple[str, ...]:
    """What the reader has to put into the commands; empty where they run as they are."""
    words = {word for command in commands for word in shlex.split(command)}
    return tuple(
        what for name, what in FILL_IN.items() if any(word.split("=")[-1] == name for word in words)
    )
