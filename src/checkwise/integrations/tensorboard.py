"""A selection in TensorBoard: metrics per domain, the choice as text and as a marker."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.extras import require
from checkwise.integrations.tracked_metrics import PREFIX, as_markdown, history
from checkwise.selection.result import Selection
from checkwise.store.atomic_write import check_writable, write_bytes
from checkwise.text import shown

_FILES: Final = "events.out.tfevents."
_SUFFIX: Final = ".checkwise"  # of the files that were written here


@dataclass(frozen=True)
class TensorBoardLog:
    """Writes selections into a folder that TensorBoard shows. Logging again replaces the file.

    For every checkpoint there are ``checkwise/<domain>/<metric>``, ``checkwise/feasible`` and
    ``checkwise/chosen``, which is 1 at the choice and 0 elsewhere. ``checkwise/selection`` is the
    explanation and the ranked table as text, at the step of the choice.

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

    def log(self, selection: Selection) -> Path:
        """Write a selection in place of an earlier one; the path of the event file."""
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        before = [path for path in folder.glob(f"{_FILES}*{_SUFFIX}") if path.is_file()]
        path = folder / f"{_FILES}{time.time_ns():020d}{_SUFFIX}"
        write_bytes(path, _events(selection))
        for old in before:
            old.unlink(missing_ok=True)
        return path


def _events(selection: Selection) -> bytes:
    """The content of an event file."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.text.summary_v2 import text_pb
    from tensorboard.summary.writer.record_writer import RecordWriter

    content, now = io.BytesIO(), time.time()
    writer = RecordWriter(content)
    writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
    for step, summary in _scalars(selection):
        writer.write(Event(wall_time=now, step=step, summary=summary).SerializeToString())
    text = text_pb(f"{PREFIX}/selection", as_markdown(selection))
    writer.write(Event(wall_time=now, step=selection.step, summary=text).SerializeToString())
    return content.getvalue()


def _scalars(selection: Selection) -> Iterator[tuple[int, Any]]:
    from tensorboard.compat.proto.summary_pb2 import Summary

    for step, metrics in history(selection).items():
        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        yield step, Summary(value=values)
