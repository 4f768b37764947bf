"""All scalars of one event file, in compact arrays."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from checkwise.errors import InputError
from checkwise.readers.event_fields import Event, MalformedError, Scalar, read_event
from checkwise.readers.event_records import (
    LARGEST_RECORD,
    Block,
    Ending,
    Floats,
    Integers,
    Shapes,
    read_blocks,
)

MOST_SCALARS = 1 << 25  # of one file; each takes 16 bytes
MOST_TAGS = 1 << 16

_WALL_TIME_KEY, _STEP_KEY = 0x09, 0x10  # first bytes of an event's first two fields
_BEFORE_STEP = 9  # bytes of the wall time and its key


@dataclass
class Series:
    """The points of one tag, in the order of the file; ``bits`` is the widest number's."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    bits: int = 0


@dataclass(frozen=True)
class EventFile:
    """One event file.

    Args:
        path: the file.
        start: wall time of its first record; None without one.
        series: the points of each scalar tag, tags in the order of the file.
        notes: what to say about how it was read.
    """

    path: Path
    start: float | None
    series: dict[str, Series]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Scalars:
    """Scalars of a block, by tag and then in the order of the file."""

    tags: Integers
    steps: Integers
    values: Floats


@dataclass
class _Tags:
    """Tags by number, their points, and the shapes of records by which they are known."""

    numbers: dict[str, int] = field(default_factory=dict)
    series: list[Series] = field(default_factory=list)
    shapes: Shapes = field(default_factory=Shapes)

    def number(self, scalar: Scalar) -> int:
        number = self.numbers.setdefault(decoded(scalar.tag), len(self.series))
        if number == len(self.series):
            self.series.append(Series())
        self.series[number].bits = max(self.series[number].bits, scalar.bits)
        return number


def read_event_file(path: Path) -> EventFile:
    """Every scalar of an event file.

    Raises:
        InputError: a record in the middle is damaged, or a record is no event.
    """
    start: float | None = None
    tags, count, ending = _Tags(), 0, Ending()
    for block in read_blocks(path):
        if isinstance(block, Ending):
            ending = block
            break
        if start is None and len(block.starts):
            start = _start(path, block)
        scalars = _block_scalars(path, block, tags)
        count += len(scalars.tags)
        _check_size(path, scalars=count, tags=len(tags.series))
        _append(scalars, tags.series)
    series = {name: tags.series[number] for name, number in tags.numbers.items()}
    return EventFile(path, start, series, _notes(path, ending, start))


def _check_size(path: Path, *, scalars: int, tags: int) -> None:
    for what, count, most in (("scalars", scalars, MOST_SCALARS), ("tags", tags, MOST_TAGS)):
        if count > most:
            raise InputError(
                f"Expected at most {most:,} {what} in one event file, but {path} has more: check "
                "what wrote the file.",
                code="unsupported",
            )


def first_tag(path: Path) -> str | None:
    """The first scalar tag near the start of an event file, if there is one."""
    block = next(read_blocks(path))
    if isinstance(block, Block):
        for record in range(len(block.starts)):
            for scalar in _event(path, block, record).scalars:
                return decoded(scalar.tag)
    return None


def decoded(tag: bytes) -> str:
    """A tag as text; bytes that are no UTF-8 stay visible."""
    return tag.decode("utf-8", "backslashreplace")


def _start(path: Path, block: Block) -> float:
    """Wall time of the first event, which shows that the records are events."""
    event = _event(path, block, 0)
    if not is_first_event(event):
        raise InputError(
            f"Expected TensorBoard events in {path}, but its records are something else: name an "
            "event file, or the folder that holds it.",
            code="format",
        )
    return event.wall_time or 0.0


def is_first_event(event: Event) -> bool:
    """Whether a message starts an event file: its version, or (CatBoost) at once a summary."""
    dated = event.wall_time is not None
    return event.file_version.startswith(b"brain.Event:") or (dated and event.has_summary)


def _notes(path: Path, ending: Ending, start: float | None) -> tuple[str, ...]:
    notes = []
    if start is None:
        notes.append(f"{path.name} holds no whole record")
    elif ending.torn is not None:
        notes.append(
            f"{path.name} ends within a record (byte {ending.torn}): its writer was stopped or is "
            "still writing; that record is left out"
        )
    if ending.passed_over:
        notes.append(
            f"{path.name}: records larger than {LARGEST_RECORD >> 20} MiB were passed over "
            f"({ending.passed_over})"
        )
    return tuple(notes)


def _event(path: Path, block: Block, record: int) -> Event:
    start = int(block.starts[record])
    try:
        return read_event(block.data, start, start + int(block.lengths[record]))
    except MalformedError:
        raise InputError(
            f"Expected TensorBoard events in {path}, but the record at byte "
            f"{block.offset + start - 12} is none: check what wrote the file.",
            code="format",
        ) from None


def _block_scalars(path: Path, block: Block, tags: _Tags) -> _Scalars:
    """The scalars of a block: of a few unknown records, then of those that are known by them."""
    data, (steps, bodies) = block.data, _steps(block)
    ends = block.starts + block.lengths
    numbers, values = np.full(len(ends), -1, np.int64), np.zeros(len(ends))
    parsed: list[tuple[int, int, int]] = []  # record, number of the tag, step
    parsed_values: list[float] = []
    rest, few = np.arange(len(ends)), 64
    while len(rest):
        numbers[rest], values[rest] = tags.shapes.known(data, bodies[rest], ends[rest])
        rest = rest[numbers[rest] < 0]
        for record in rest[:few].tolist():
            event = _event(path, block, record)
            for scalar in event.scalars:
                parsed.append((record, tags.number(scalar), event.step))
                parsed_values.append(scalar.value)
            if len(event.scalars) == 1:
                body, end = int(bodies[record]), int(ends[record])
                tags.shapes.learn(data, body, end, event, parsed[-1][1])
        rest, few = rest[few:], 4 * few
    known = np.flatnonzero(numbers >= 0)
    table = np.array(parsed, np.int64).reshape(-1, 3).T
    records = np.append(known, table[0])
    numbers = np.append(numbers[known], table[1])
    order = np.lexsort((records, numbers))
    return _Scalars(
        numbers[order],
        np.append(steps[known], table[2])[order],
        np.append(values[known], parsed_values)[order],
    )


def _steps(block: Block) -> tuple[Integers, Integers]:
    """Step of each event, and where what follows it starts: the end where neither is as usual."""
    data = np.frombuffer(block.data, np.uint8)
    ends = block.starts + block.lengths
    usual = block.lengths > _BEFORE_STEP + 12  # a step has at most eleven bytes with its key
    position = np.where(usual, block.starts, 0)
    usual &= data[position] == _WALL_TIME_KEY
    position += _BEFORE_STEP
    steps = np.zeros(len(ends), np.uint64)
    more = usual & (data[np.where(usual, position, 0)] == _STEP_KEY)
    position += more
    for shift in range(0, 70, 7):
        if not more.any():
            break
        byte = data[np.where(more, position, 0)]
        steps |= np.where(more, (byte & 0x7F).astype(np.uint64) << np.uint64(shift), 0)
        position += more
        more &= byte >= 0x80
    return steps.view(np.int64), np.where(usual & ~more, position, ends)


def _append(scalars: _Scalars, series: list[Series]) -> None:
    numbers, firsts = np.unique(scalars.tags, return_index=True)
    bounds = np.append(firsts, len(scalars.tags)).tolist()
    for place, number in enumerate(numbers.tolist()):
        part = slice(bounds[place], bounds[place + 1])
        series[number].steps.frombytes(scalars.steps[part].tobytes())
        series[number].values.frombytes(scalars.values[part].tobytes())
