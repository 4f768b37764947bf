"""A selection in TensorBoard: metrics per domain, the choice as text and as a marker."""

from __future__ import annotations

import io
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checkwise.errors import InputError, require
from checkwise.integrations.tracker import PREFIX, Log, Told
from checkwise.selection import Selection
from checkwise.store import check_writable, write_bytes
from checkwise.words import shown

_FILES: Final = "events.out.tfevents."
_SUFFIX: Final = ".checkwise"  # of the files that were written here


@dataclass(frozen=True)
class TensorBoardLog:
    """Writes selections into a folder that TensorBoard shows. Logging again replaces the file.

    For every checkpoint there are ``checkwise/<set>/<metric>`` and ``checkwise/chosen``, which is 1
    at the choice and 0 elsewhere. ``checkwise/selection`` is the explanation and the ranked table
    as text, at the step of the choice.

    Args:
        folder: a folder of this machine, as ``runs/one/checkwise``. It may hold other event files.
    """

    folder: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | os.PathLike) or "://" in str(self.folder):
            raise InputError(
                f"Expected a folder of this machine, but got {shown(self.folder)}: write "
                'TensorBoardLog("runs/one/checkwise").'
            )
        require("tensorboard")
        if Path(self.folder).exists() and not Path(self.folder).is_dir():
            raise InputError(
                f"Expected a folder, but {self.folder} is a file: choose another.", code="exists"
            )
        try:
            check_writable(Path(self.folder, f"{_FILES}0{_SUFFIX}"))
        except OSError as error:
            raise InputError(
                f"Expected a folder to write to, but got at {self.folder}: {error.strerror}. "
                "Choose another.",
                code="system",
            ) from error

    def log(self, selection: Selection, log: Log = "main") -> Path:
        """Write a selection in place of an earlier one; the path of the event file.

        ``log="all"``: with every metric.
        """
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        before = [path for path in folder.glob(f"{_FILES}*{_SUFFIX}") if path.is_file()]
        path = folder / f"{_FILES}{time.time_ns():020d}{_SUFFIX}"
        write_bytes(path, _events(Told(selection, log)))
        for old in before:
            old.unlink(missing_ok=True)
        return path


def _events(told: Told) -> bytes:
    """The content of an event file."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.text.summary_v2 import text_pb
    from tensorboard.summary.writer.record_writer import RecordWriter

    content, now = io.BytesIO(), time.time()
    writer = RecordWriter(content)
    writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
    for step, row in told.numbers.items():
        values = [Summary.Value(tag=name, simple_value=value) for name, value in row.items()]
        summary = Summary(value=values)
        writer.write(Event(wall_time=now, step=step, summary=summary).SerializeToString())
    text, step = text_pb(f"{PREFIX}/selection", told.why), told.selection.step
    writer.write(Event(wall_time=now, step=step, summary=text).SerializeToString())
    return content.getvalue()
