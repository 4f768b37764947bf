"""What is known of a log's checkpoints, and how messages name them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from checkwise.readers.checkpoints.logged_steps import Matches
from checkwise.text import counted, printable, shortened

_MOST_SHOWN: Final = 3
_LONGEST_NAME: Final = 80
_VERSION: Final = re.compile(r"-v([0-9]+)(?=\.ckpt$|$)")  # Lightning's, where a name was taken


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a log.

    Args:
        files: the file or folder of each step that has one.
        notes: what to say about them.
        ahead: how much more the numbers in names are than the steps of the log that they count.
    """

    files: Mapping[int, str]
    notes: tuple[str, ...] = ()
    ahead: int = 0


def newest(paths: Sequence[str]) -> tuple[str | None, str]:
    """The one path, or the newest of Lightning's versions of one name; None if neither."""
    if len(paths) == 1:
        return paths[0], ""
    if len({_VERSION.sub("", path) for path in paths}) > 1:
        return None, ""
    path = max(paths, key=_version)
    return path, f"{short_name(path)} is taken as the newest of {counted(len(paths), 'version')}"


def _version(path: str) -> int:
    match = _VERSION.search(path)
    return int(match[1]) if match else -1


def shared_note(matches: Matches) -> list[str]:
    """What to say about checkpoints that fit several steps."""
    if not matches.shared:
        return []
    return [
        f"{some(matches.shared)} could be of several steps, because the log has several in an "
        "epoch: give --checkpoints a pattern with {step}"
    ]


def some(paths: Sequence[str]) -> str:
    """The names of the first few paths, and how many there are besides."""
    return shortened([short_name(path) for path in paths], _MOST_SHOWN, _LONGEST_NAME)


def short_name(path: str) -> str:
    """The last name of a path, on one line and not too long."""
    name = printable(os.path.basename(path))
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
