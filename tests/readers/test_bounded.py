"""Reading ends: deep and wide folders, links in circles, and small files that unpack to a lot."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import checkwise as cw
from checkwise.readers import registry, request
from checkwise.readers import tables as table_files
from checkwise.store import read_headers
from checkwise.study.data import open_features
from tests.refusals import refused


def log(folder: Path) -> None:
    rows = [{"step": t, "accuracy": 0.5 + t / 100, "nll": 1.0} for t in range(3)]
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_walk_over_nested_folders_ends_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "/".join("d" * 200)).mkdir(parents=True)
    with pytest.warns(cw.CheckwiseWarning, match="more than 32 levels below"):  # noqa: SIM117
        with refused("missing"):
            cw.load_runs(tmp_path)
    near = tmp_path / "a"
    near.mkdir()
    log(near)
    with pytest.warns(cw.CheckwiseWarning, match="more than 32 levels below"):
        assert len(cw.load_runs(tmp_path)) == 1


def test_a_walk_over_many_folders_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MOST_FOLDERS", 50)
    for i in range(60):
        (tmp_path / f"{i}").mkdir()
    with refused("unsupported: 50"):
        cw.load_runs(tmp_path)


def test_folders_with_runs_are_not_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MOST_FOLDERS", 5)
    for i in range(10):
        (tmp_path / f"{i}").mkdir()
        log(tmp_path / f"{i}")
    assert len(cw.load_runs(tmp_path)) == 10


def test_links_in_circles_are_followed_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    log(run)
    (run / "up").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(run)
    (tmp_path / "itself").symlink_to("itself")
    assert len(cw.load_runs(tmp_path)) == 1


# What readers look into, each at the place where they look.
LOOKED_INTO = [
    "checkwise.jsonl",
    "checkpoint-5/trainer_state.json",
    "checkpoint_manager_snapshot.json",
    "events.out.tfevents.1.host",
    "logs/metrics.csv",
    "meta.yaml",
    "1/abc/meta.yaml",
    "mlflow.db",
    "params.json",
    "result.json",
    "results.jsonl",
    "step-000100/val.npz",
    "wandb/run.wandb",
    "x.log",
    "x.txt",
]


@pytest.mark.parametrize("name", LOOKED_INTO)
def test_a_pipe_among_the_files_is_not_waited_for(tmp_path: Path, name: str) -> None:
    good = tmp_path / "run"
    good.mkdir()
    log(good)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(tmp_path / name)

    def waited(*_: object) -> None:
        raise AssertionError(f"a reader waits for {name}")

    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(30)
    try:
        assert len(cw.load_runs(tmp_path)) == 1
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def member(shape: tuple[int, ...], kind: str = "<f4", values: int = 0) -> bytes:
    """An array file that declares more than it holds."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    return head.getvalue() + bytes(values)


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


# Array → shape, type and how many bytes of zeros follow.
BOMBS: dict[str, dict[str, tuple[tuple[int, ...], str, int]]] = {
    "rows that are not there": {"logits": ((10**9, 10), "<f4", 0), "labels": ((10**9,), "<i8", 0)},
    "a product beyond 64 bits": {
        "logits": ((2**40, 2**40), "<f4", 0),
        "labels": ((2**40,), "<i8", 0),
    },
    "fewer labels than rows": {
        "logits": ((25_000_000, 2), "<f4", 200_000_000),
        "labels": ((2,), "<i8", 16),
    },
    "zeros": {
        "logits": ((20_000_000, 2), "<f4", 160_000_000),
        "labels": ((20_000_000,), "<i8", 160_000_000),
    },
}


# The peak of this process alone; getrusage would count the one that started it.
MEASURED = """
import re, sys
from checkwise.cli import main
from checkwise.metrics import METRICS

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])

for command, path in zip(sys.argv[1::2], sys.argv[2::2]):
    used = peak()
    try:
        main([command, path])
    except SystemExit as end:
        print(command, path, end.code, peak() - used)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_small_files_that_unpack_to_a_lot_are_refused_unread(tmp_path: Path) -> None:
    asked: list[str] = []
    for number, members in enumerate(BOMBS.values()):
        folder = tmp_path / str(number) / "step-000100"
        folder.mkdir(parents=True)
        arrays = {name: member(*facts) for name, facts in members.items()}
        path = archive(folder / "photo.npz", **arrays)
        assert path.stat().st_size < 2**20
        asked += ["metrics", str(path), "select", str(folder.parent)]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *asked],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    answers = [line.split() for line in done.stdout.splitlines()]
    assert len(answers) == done.stderr.count("\n") == len(asked) // 2
    assert not [answer for answer in answers if answer[2] != "2" or int(answer[3]) > 100_000]


def test_honest_archives_are_read_whatever_they_are_called(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, a=np.zeros((1000, 10)), b=np.arange(3), c=np.array("text"))
    with path.open("rb") as file:
        shapes = {name: array.shape for name, array in read_headers(file).items()}
    assert shapes == {"a": (1000, 10), "b": (3,), "c": ()}


def test_feature_files_are_looked_at_first(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "features.npz",
        features=member((10**9, 10)),
        label=member((10**9,), "<i8"),
        domain=member((10**9,), "<i8"),
    )
    with refused("format"):
        open_features(path)
    path = archive(
        tmp_path / "features.npz",
        features=member((3, 2), values=24),
        label=member((60_000_000,), "<i8", values=480_000_000),
        domain=member((3,), "<i8", values=24),
    )
    with refused("format"):
        open_features(path)


def test_a_table_of_too_many_rows_is_refused_unread(tmp_path: Path) -> None:
    rows = table_files.MOST_ROWS + 1
    path = tmp_path / "runs.parquet"
    column = pa.DictionaryArray.from_arrays(pa.nulls(rows, pa.int32()).fill_null(0), ["x"])
    pq.write_table(pa.table({"step": column, "accuracy": column}), path, compression="zstd")
    assert path.stat().st_size < 2**20
    with refused("unsupported: 5,000,000"):
        cw.load(path)


def test_a_file_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "LARGEST_FILE", 1 << 20)
    path = tmp_path / "runs.csv"
    path.write_text("step,accuracy\n" + "1,0.5\n" * 200_000)
    with refused("unsupported: 1 … MiB"):
        cw.load(path)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("column", ["accuracy", "step", "n", "nll"])
def test_true_is_no_number(suffix: str, column: str, tmp_path: Path) -> None:
    row = {"step": 1, "accuracy": 0.5, "n": 10, "nll": 0.5, column: True}
    path = tmp_path / f"runs.{suffix}"
    if suffix == "jsonl":
        path.write_text(json.dumps(row) + "\n")
    elif suffix == "csv":
        path.write_text(",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n")
    else:
        pq.write_table(pa.table({name: [value] for name, value in row.items()}), path)
    with refused("value: True"):
        cw.load(path)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_long_log_is_read_row_by_row(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log.{suffix}"
    with path.open("w") as file:
        if suffix == "csv":
            file.write("step,train_loss,note,val_acc,val_loss\n")
        for step in range(1, 25_001):
            row = {"step": step, "train_loss": 1 / step, "note": "x" * 80}
            row |= {"val_acc": 0.5, "val_loss": 1.25} if step % 1000 == 0 else {}
            names = ("step", "train_loss", "note", "val_acc", "val_loss")
            cells = ",".join(str(row.get(name, "")) for name in names)
            file.write(f"{cells if suffix == 'csv' else json.dumps(row)}\n")
    assert path.stat().st_size > 2_500_000
    tracemalloc.start()
    run = cw.load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(run) == 25
    assert peak < 2_200_000


def many_domains(n: int) -> str:
    rows = (f"{step},d{i},0.5,0.6,d1\n" for step in (1, 2) for i in range(n))
    return "step,domain,accuracy,nll,held_out\n" + "".join(rows)


def many_sets(n: int) -> str:
    columns = ",".join(f"val_acc/dataloader_idx_{i},val_loss/dataloader_idx_{i}" for i in range(n))
    rows = "".join(f"{step},{step},{','.join(['0.5,0.6'] * n)}\n" for step in (1, 2))
    return f"epoch,step,{columns}\n{rows}"


def many_keys(n: int) -> str:
    return "".join(f'{{"epoch":{i},"val_acc":0.5,"c{i}":1}}\n' for i in range(n))


@pytest.mark.parametrize(
    ("content", "n"), [(many_domains, 2500), (many_sets, 1000), (many_keys, 2000)]
)
def test_time_grows_with_the_size(content: Callable[[int], str], n: int, tmp_path: Path) -> None:
    def prepared(size: int) -> Callable[[], object]:
        path = tmp_path / ("metrics.jsonl" if content is many_keys else "metrics.csv")
        path.write_text(content(size))
        return lambda: cw.load(path)

    check_growth(prepared, n)


def check_growth(prepared: Callable[[int], Callable[[], object]], n: int) -> None:
    """Four times as much takes about four times as long, not sixteen: in one of four rounds.

    A busy machine can make one round seem longer; what is quadratic fails in all.
    """
    rounds = []
    for _ in range(4):
        taken = []
        for size in (n, n, 4 * n, 4 * n):
            work = prepared(size)
            started = time.process_time()
            work()
            taken.append(time.process_time() - started)
        rounds.append(min(taken[2:]) / max(taken[:2]))
        if rounds[-1] < 9:
            return
    raise AssertionError(rounds)


def test_a_cell_that_names_many_targets_is_read_once() -> None:
    def prepared(n: int) -> Callable[[], object]:
        names = [f"d{i}" for i in range(n)]
        table = {"step": [1] * n, "domain": names, "accuracy": [0.5] * n, "nll": [0.6] * n}
        table["held_out"] = [";".join(names[1:])] * n
        return lambda: cw.Trajectory.from_frame(table)

    check_growth(prepared, 1000)


def test_many_targets_beside_many_sources_take_as_long_as_both() -> None:
    def prepared(n: int) -> Callable[[], object]:
        names = [f"d{i}" for i in range(n)]
        table = {"step": [1] * n, "domain": names, "accuracy": [0.5] * n, "nll": [0.6] * n}
        key = cw.RunKey("data", "ERM", tuple(f"t{i}" for i in range(n)), 0, 0)
        return lambda: cw.Trajectory.from_frame(table, key=key)

    check_growth(prepared, 500)
