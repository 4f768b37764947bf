"""Event files: what is read, what is left out and said, and what is refused."""

from __future__ import annotations

import contextlib
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkwise.errors import InputError
from checkwise.readers import event_files, tensorboard
from checkwise.readers.log import Log
from checkwise.readers.tensorboard import recognises
from tests.readers.logs import event_bytes
from tests.readers.logs.event_bytes import event, record, scalar, simple, span, tensor, version
from tests.readers.logs.tracker_stores import logs_in
from tests.refusals import refused

REAL = Path(__file__).parent / "tensorboard"
KERAS = REAL / "keras/validation/events.out.tfevents.1748348913.c08530ad2bb0.19.1.v2"
SMALL = REAL / "transformers/events.out.tfevents.1754671355.ALOY.11600.1"
NAME = "events.out.tfevents.1.host"


def write(folder: Path, *records: bytes, name: str = NAME) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(b"".join(records))
    return path


def opened(path: Path) -> Log:
    (log,) = logs_in(tensorboard, path)
    return log


def cells(log: Log, name: str) -> list[float]:
    return list(log.points(name).cells)


def steps(log: Log, name: str) -> list[float]:
    return list(log.points(name).steps)


@given(st.binary(max_size=100))
def test_checksums_are_those_of_the_definition(message: bytes) -> None:
    assert struct.pack("<I", event_files.masked(message)) == event_bytes.masked(message)


def test_the_checksum_has_its_published_value() -> None:
    assert event_bytes.crc32c(b"123456789") == 0xE3069283  # RFC 3720's polynomial


def test_a_32_bit_number_is_read_as_the_decimal_that_was_logged(tmp_path: Path) -> None:
    log = opened(write(tmp_path, version(), scalar(10, "val/acc", 0.6), scalar(20, "val/acc", 0.7)))
    assert log.header == ("val/acc",)
    assert cells(log, "val/acc") == [0.6, 0.7]
    assert steps(log, "val/acc") == [10, 20]
    assert np.isnan(log.points("val/acc").epochs).all()
    assert log.axes == {"step": "step"}


def test_what_a_keras_run_wrote_of_its_validation_set() -> None:
    log = opened(KERAS)
    assert log.header == tuple(
        f"validation/{tag}"
        for tag in (
            "evaluation_loss_vs_iterations",
            "evaluation_accuracy_vs_iterations",
            "epoch_loss",
            "epoch_accuracy",
        )
    )
    assert cells(log, "validation/epoch_accuracy") == [0.864, 0.888, 0.876]
    assert log.points("validation/epoch_accuracy").epochs.tolist() == [0, 1, 2]
    assert steps(log, "validation/evaluation_accuracy_vs_iterations") == [438, 876, 1314]
    assert opened(REAL / "keras").header == log.header
    assert opened(KERAS.parent).header == log.header


def test_a_keras_file_alone_shows_that_it_is_validation(tmp_path: Path) -> None:
    path = write(tmp_path, KERAS.read_bytes())
    log = opened(path)
    assert log.trainer.validation == ("epoch_loss", "epoch_accuracy")
    train = write(tmp_path / "b", version(), scalar(1, "epoch_accuracy", 0.5))
    assert opened(train).trainer.validation == ()


def test_a_folder_is_one_run_in_the_order_of_its_files_starts(tmp_path: Path) -> None:
    write(tmp_path, version(9.0), scalar(3, "acc", 0.3), name=NAME + ".a")
    write(tmp_path, version(1.0), scalar(1, "acc", 0.1), name=NAME + ".z")
    write(tmp_path, version(9.0), scalar(4, "acc", 0.4), name=NAME + ".b")
    log = opened(tmp_path)
    assert steps(log, "acc") == [1, 3, 4]
    assert any("3 event files" in note for note in log.notes)


def test_real_files_of_one_folder_follow_each_other() -> None:
    log = opened(REAL / "transformers")
    assert steps(log, "eval/accuracy") == [150, 300, 450, 450]
    assert log.points("eval/accuracy").epochs.tolist() == [1, 2, 3, 3]
    assert log.axes == {"step": "step", "epoch": "train/epoch"}
    assert "train/epoch" not in log.header


def test_folders_with_a_role_qualify_their_tags_and_training_stays_closed(tmp_path: Path) -> None:
    for role in ("train", "validation"):
        write(tmp_path / role, version(), scalar(0, "epoch_accuracy", 0.5))
    write(tmp_path / "test", version(), b"damaged")
    write(tmp_path / "another-run", version(), scalar(0, "acc", 0.5))
    assert recognises(tmp_path)
    assert opened(tmp_path).header == ("validation/epoch_accuracy",)
    assert opened(tmp_path / "train").header == ("train/epoch_accuracy",)


def test_a_run_that_is_called_train_keeps_its_own_roles(tmp_path: Path) -> None:
    path = write(tmp_path / "train", version(), scalar(0, "val/loss", 1), scalar(0, "lr", 1))
    assert opened(path).header == ("val/loss", "train/lr")


def test_curves_of_add_scalars_belong_to_the_run_beside_them(tmp_path: Path) -> None:
    write(tmp_path, version(), scalar(1, "lr", 0.1))
    write(tmp_path / "Loss_all_val", version(), scalar(1, "Loss/all", 0.2))
    write(tmp_path / "Loss_all_train", version(), scalar(1, "Loss/all", 0.3))
    write(tmp_path / "version_1", version(), scalar(1, "Loss/all", 0.4))
    log = opened(tmp_path)
    assert log.header == ("lr", "val/Loss/all")
    assert cells(log, "val/Loss/all") == [0.2]


def test_epochs_are_those_logged_at_the_same_step_of_the_same_file(tmp_path: Path) -> None:
    write(tmp_path, version(1), scalar(5, "epoch", 1), scalar(5, "acc", 0.1), name=NAME + ".0")
    write(tmp_path, version(2), scalar(5, "acc", 0.2), scalar(5, "epoch", 2), name=NAME + ".1")
    write(tmp_path, version(3), scalar(5, "acc", 0.3), scalar(7, "acc", 0.4), name=NAME + ".2")
    points = opened(tmp_path).points("acc")
    np.testing.assert_array_equal(points.epochs, [1, 2, 2, np.nan])


def test_only_scalars_are_columns(tmp_path: Path) -> None:
    one = struct.pack("<f", 0.6)
    vector = b"\x08\x01" + span(2, span(2, b"\x08\x02")) + span(4, one + one)
    text = b"\x08\x07" + span(8, b"words")
    path = write(
        tmp_path,
        version(),
        event(2, 1, span(4, b"a graph")),
        event(2, 1, span(5, span(1, span(1, b"histogram") + span(5, b"\0" * 9)))),
        event(2, 1, span(5, span(1, span(1, b"image") + span(4, b"")))),
        event(2, 1, span(5, tensor(b"text", text, b"text"))),
        event(2, 1, span(5, tensor(b"vector", vector))),
        event(2, 1, span(5, tensor(b"curve", b"\x08\x01" + span(4, one), b"pr_curves"))),
        event(2, 1, span(5, simple(b"loss", 0.5) + simple(b"acc", 0.25) + simple(b"loss", 1.5))),
        event(2, 2, b""),
    )
    log = opened(path)
    assert log.header == ("loss", "acc")
    assert cells(log, "loss") == [0.5, 1.5]


def test_tensors_of_one_number_are_scalars(tmp_path: Path) -> None:
    single, double = struct.pack("<f", 0.6), struct.pack("<d", 1 / 3)
    kinds = {
        b"\x08\x01" + span(4, single): 0.6,
        b"\x08\x01" + span(5, single): 0.6,  # packed float_val
        b"\x08\x01\x2d" + single: 0.6,  # the same, not packed
        b"\x08\x02" + span(4, double): 1 / 3,
        b"\x08\x02" + span(6, double): 1 / 3,
    }
    for fields, expected in kinds.items():
        for shape in (b"", span(2, b"")):
            what = span(5, tensor(b"acc", fields + shape))
            log = opened(write(tmp_path, version(), *(event(2, s, what) for s in (0, 1, 2))))
            assert cells(log, "acc") == [expected] * 3
            assert steps(log, "acc") == [0, 1, 2]


def test_steps_and_values_are_kept_as_they_are(tmp_path: Path) -> None:
    rows = [(-3, 0.1), (5, math.nan), (5, math.inf), (1 << 40, -math.inf), (5, 0.0), (0, 2.0)]
    log = opened(write(tmp_path, version(), *(scalar(s, "loss", v) for s, v in rows)))
    assert steps(log, "loss") == [s for s, _ in rows]
    np.testing.assert_array_equal(log.points("loss").cells, [v for _, v in rows])


def test_every_kind_of_nan_is_read_without_a_warning(tmp_path: Path) -> None:
    signalling = b"\x00\x00\xa0\x7f"
    plain = span(5, span(1, span(1, b"a") + b"\x15" + signalling))
    in_tensor = span(5, tensor(b"b", b"\x08\x01" + span(4, signalling)))
    rows = [event(2, step, what) for step in range(100) for what in (plain, in_tensor)]
    log = opened(write(tmp_path, version(), *rows))
    for name in "ab":
        assert len(cells(log, name)) == 100
        assert np.isnan(cells(log, name)).all()


def test_a_tag_that_is_no_text_stays_readable(tmp_path: Path) -> None:
    path = write(tmp_path, version(), event(2, 1, span(5, simple(b"\xffacc", 0.5))))
    assert opened(path).header == ("\\xffacc",)


def test_files_larger_than_a_block_are_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_files, "LARGEST_RECORD", 500)
    between = [event(2, 0, span(4, b"g" * size)) for size in (100, 400, 1000)]
    rows = [scalar(s, f"tag{s % 3}", s / 8) for s in range(300)]
    log = opened(write(tmp_path, version(), *rows[:150], *between, *rows[150:]))
    assert [cells(log, f"tag{i}") for i in range(3)] == [
        [s / 8 for s in range(i, 300, 3)] for i in range(3)
    ]
    assert log.notes == ()


def test_a_file_cut_anywhere_keeps_what_stands_before(tmp_path: Path) -> None:
    for content in small_contents():
        whole = opened(write(tmp_path, content))
        ends = _record_ends(content)
        for cut in range(len(content)):
            copy = write(tmp_path, content[:cut])
            if cut < ends[0]:
                with refused("empty"):
                    logs_in(tensorboard, copy)
                continue
            log = opened(copy)
            assert any("within a record" in note for note in log.notes) == (cut not in ends)
            _assert_start_of(log, whole)


def test_a_flipped_bit_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    for content in small_contents():
        whole = opened(write(tmp_path, content))
        for place in range(len(content)):
            damaged = bytearray(content)
            damaged[place] ^= 1 << place % 8
            try:
                log = opened(write(tmp_path, bytes(damaged)))
            except InputError:
                continue
            assert any("within a record" in note for note in log.notes)
            _assert_start_of(log, whole)


def small_contents() -> list[bytes]:
    """Five records each of a real file with plain values, and of one with tensors."""
    files = [path.read_bytes() for path in (SMALL, KERAS)]
    return [content[: _record_ends(content)[4]] for content in files]


def _record_ends(content: bytes) -> list[int]:
    ends = [0]
    while ends[-1] < len(content):
        ends.append(ends[-1] + 16 + int(struct.unpack_from("<Q", content, ends[-1])[0]))
    return ends[1:]


def _assert_start_of(log: Log, whole: Log) -> None:
    for name in log.header:
        count = len(log.points(name).cells)
        assert cells(log, name) == cells(whole, name)[:count]
        assert steps(log, name) == steps(whole, name)[:count]


def test_damage_in_the_middle_is_refused_with_a_way_on(tmp_path: Path) -> None:
    first = version() + scalar(1, "acc", 0.5)
    damaged = bytearray(first + scalar(2, "acc", 0.6) + scalar(3, "acc", 0.7))
    damaged[len(first) + 40] ^= 1
    path = write(tmp_path, bytes(damaged))
    with pytest.raises(InputError, match=rf"byte {len(first)} is damaged.*head -c"):
        logs_in(tensorboard, path)
    assert cells(opened(write(tmp_path, bytes(damaged[: len(first)]))), "acc") == [0.5]


def test_zeros_after_the_last_record_are_a_torn_end(tmp_path: Path) -> None:
    whole = version() + scalar(1, "acc", 0.5)
    for tail in (b"\0" * 5000, scalar(2, "acc", 0.6)[:30] + b"\0" * 5000):
        log = opened(write(tmp_path, whole, tail))
        assert cells(log, "acc") == [0.5]
        assert any(f"within a record (byte {len(whole)})" in note for note in log.notes)


def test_a_length_beyond_the_file_is_a_torn_end(tmp_path: Path) -> None:
    length = struct.pack("<Q", (1 << 64) - 1)
    path = write(tmp_path, version(), scalar(1, "acc", 0.5), length, event_bytes.masked(length))
    assert cells(opened(path), "acc") == [0.5]


def test_a_real_torn_file_is_read_to_its_last_whole_record() -> None:
    log = opened(REAL / "torn")
    assert log.header == ()
    assert any("byte 3811" in note for note in log.notes)


def test_an_empty_file_is_refused_alone_and_said_beside_others(tmp_path: Path) -> None:
    empty = write(tmp_path, name=NAME + ".0")
    assert recognises(empty)
    with refused("empty"):
        logs_in(tensorboard, empty)
    write(tmp_path, version(), scalar(1, "acc", 0.5), name=NAME + ".1")
    log = opened(tmp_path)
    assert cells(log, "acc") == [0.5]
    assert any(f"{NAME}.0 holds no whole record" in note for note in log.notes)


def test_events_are_recognised_by_content(tmp_path: Path) -> None:
    assert recognises(write(tmp_path, version(), name="log"))
    assert recognises(write(tmp_path, scalar(1, "acc", 0.5), name="catboost"))
    example = span(1, span(1, b"features"))
    for name, content in {
        "empty": b"",
        "table.csv": b"step,accuracy\n1,0.5\n2,0.6\n",
        "torn": version()[:20],
        "flipped": version()[:-1] + b"x",
        "example": record(example),
        "nothing": record(b""),
        "no-message": record(b"\xff" * 20),
    }.items():
        assert not recognises(write(tmp_path / "other", content, name=name)), name
    assert not recognises(tmp_path / "other")
    assert not recognises(tmp_path / "missing")


def test_records_of_another_kind_are_refused(tmp_path: Path) -> None:
    for data in (span(1, span(1, b"features")), b"\xff" * 20, b"", b"\x08" * 30):
        with refused("format: TensorBoard"):
            logs_in(tensorboard, write(tmp_path, record(data)))


def test_a_malformed_event_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"record at byte {len(version())} is none"):
        logs_in(tensorboard, write(tmp_path, version(), event(2, 1, b"\x2a\x7f")))


@given(st.binary(max_size=60))
def test_any_record_with_the_right_checksum_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = write(tmp_path_factory.getbasetemp() / "any", version(), event(2, 1, span(5, data)))
    with contextlib.suppress(InputError):  # any other error fails the test
        assert set(opened(path).axes) <= {"step", "epoch"}


def test_too_many_tags_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_files, "MOST_TAGS", 2)
    with refused("unsupported: 2"):
        logs_in(tensorboard, write(tmp_path, version(), *(scalar(1, tag, 0.5) for tag in "abc")))
