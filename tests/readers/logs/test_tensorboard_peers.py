"""Event files against TensorBoard's own reader, and as its and torch's writers write them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkwise.readers import tensorboard as tensorboard_reader
from checkwise.readers.event_files import EventFile
from tests.readers.logs.tracker_stores import logs_in
from tests.requirements import SHARED, package, requires

loader = package("tensorboard.backend.event_processing.event_file_loader")
messages = package("tensorboard.compat.proto.event_pb2")
summaries = package("tensorboard.compat.proto.summary_pb2")
tensors = package("tensorboard.util.tensor_util")
records = package("tensorboard.summary.writer.record_writer")

SMALL = sorted((Path(__file__).parent / "tensorboard").rglob("events.*"))
REAL = sorted((SHARED / "real-logs").glob("tensorboard*/*"))

Scalars = dict[str, list[tuple[int, float]]]


def by_tensorboard(path: Path) -> Scalars:
    """Every scalar as TensorBoard itself reads it; a tag's first record says what the tag is."""
    scalars: Scalars = {}
    plugins: dict[str, str] = {}
    for event in loader.EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            name = value.metadata.plugin_data.plugin_name
            if plugins.setdefault(value.tag, name) == "scalars":
                number = tensors.make_ndarray(value.tensor).item()
                scalars.setdefault(value.tag, []).append((event.step, number))
    return scalars


def by_checkwise(path: Path) -> Scalars:
    """Every scalar as the file has it, which :meth:`EventFile.points` makes decimals of."""
    scalars: Scalars = {}
    for event in EventFile(path).events():
        for tag, value, _ in event.scalars:
            scalars.setdefault(tag, []).append((event.step, value))
    return scalars


def assert_same(path: Path) -> int:
    """Compares bit for bit; returns how many scalars there are."""
    ours, theirs = by_checkwise(path), by_tensorboard(path)
    assert list(ours) == list(theirs)
    for tag in theirs:
        np.testing.assert_array_equal(np.array(ours[tag]), np.array(theirs[tag]))
    (log,) = logs_in(tensorboard_reader, path)
    for name in log.header:
        stored = [value for _, value in theirs[name.removeprefix("validation/")]]
        cells = log.points(name).cells
        np.testing.assert_array_equal(np.array(cells, np.float32), np.array(stored, np.float32))
        assert [float(str(np.float32(value))) for value in stored] == list(cells)
    return sum(map(len, theirs.values()))


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.parent.name)
def test_real_files_hold_what_tensorboard_finds_in_them(path: Path) -> None:
    assert assert_same(path) or path.parent.name == "torn"


@requires("shared", bool(REAL), "real event files are not beside the clone")
def test_every_shared_event_file_holds_what_tensorboard_finds_in_it() -> None:
    assert len(REAL) >= 60
    assert all(tensorboard_reader.recognises(path) for path in REAL)
    assert sum(assert_same(path) for path in REAL) > 20_000


def written(path: Path, *events: Any) -> Path:
    stream = io.BytesIO()
    writer = records.RecordWriter(stream)
    for event in (messages.Event(wall_time=1.0, file_version="brain.Event:2"), *events):
        writer.write(event.SerializeToString())
    path.write_bytes(stream.getvalue())
    return path


FLOATS = st.floats(width=32)
SIMPLE = st.builds(lambda tag, x: {"tag": tag, "simple_value": x}, st.sampled_from("abc"), FLOATS)
TENSOR = st.builds(
    lambda tag, x, kind: {
        "tag": tag,
        "tensor": tensors.make_tensor_proto(np.array(x, kind)),
        "metadata": {"plugin_data": {"plugin_name": "scalars"}},
    },
    st.text(min_size=1, max_size=200),
    FLOATS,
    st.sampled_from([np.float32, np.float64]),
)
NOISE = st.sampled_from(
    [
        {"tag": "h", "histo": {"min": 1.0, "bucket": [1.0, 2.0]}},
        {"tag": "i", "image": {"height": 1, "encoded_image_string": b"png"}},
        {"tag": "n", "node_name": "node"},
    ]
)
EVENTS = st.lists(
    st.builds(
        lambda time, step, values: messages.Event(
            wall_time=time, step=step, summary={"value": values}
        ),
        st.floats(0, 1e10),
        st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 300),
        st.lists(SIMPLE | TENSOR | NOISE, max_size=3) | SIMPLE.map(lambda value: [value]),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(EVENTS)
def test_any_events_are_read_as_their_messages_say(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any]
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "events.out.tfevents.any", *events)
    expected: Scalars = {}
    for event in events:
        for value in event.summary.value:
            kind = value.WhichOneof("value")
            if kind == "simple_value":
                expected.setdefault(value.tag, []).append((event.step, value.simple_value))
            elif kind == "tensor":
                number = tensors.make_ndarray(value.tensor).item()
                expected.setdefault(value.tag, []).append((event.step, number))
    ours = by_checkwise(path)
    assert list(ours) == list(expected)
    for tag, points in expected.items():
        assert [step for step, _ in ours[tag]] == [step for step, _ in points]
        np.testing.assert_array_equal([v for _, v in ours[tag]], [v for _, v in points])


def test_what_torch_writes_is_read_back(tmp_path: Path) -> None:
    package("tensorboard")
    tensorboard = package("torch.utils.tensorboard")
    values = [0.6, 0.1, 1 / 3]
    with tensorboard.SummaryWriter(tmp_path) as writer:
        for step, value in enumerate(values):
            writer.add_scalar("simple", value, step)
            writer.add_scalar("tensor", value, step, new_style=True)
            writer.add_scalar("double", value, step, new_style=True, double_precision=True)
            writer.add_scalars("Loss/all", {"train": value, "val": value / 2}, step)
            writer.add_histogram("weights", np.arange(100), step)
            writer.add_text("words", "text", step)
    (log,) = logs_in(tensorboard_reader, tmp_path)
    assert log.header == ("simple", "tensor", "double", "val/Loss/all")
    short = [0.6, 0.1, 0.33333334]
    assert list(log.points("simple").cells) == short
    assert list(log.points("tensor").cells) == short
    assert list(log.points("double").cells) == values
    assert list(log.points("val/Loss/all").cells) == [0.3, 0.05, 0.16666667]
    assert log.points("simple").steps.tolist() == [0, 1, 2]


def test_what_tensorboards_writer_writes_is_read_back(tmp_path: Path) -> None:
    summary = package("tensorboard.summary")
    writer = summary.Writer(str(tmp_path))
    for step in range(5):
        writer.add_scalar("acc", step / 5, step)
    writer.close()
    (log,) = logs_in(tensorboard_reader, tmp_path)
    assert list(log.points("acc").cells) == [0.0, 0.2, 0.4, 0.6, 0.8]
