"""Logs damaged in every way that a random generator comes up with; the same number, the same log.

Logs of text are damaged as bytes, as lines, as cells and as JSON. The records of event files get
right checksums after the damage, since a wrong one stops the reading at once. Databases are damaged
as bytes and by statements.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.readers.logs.event_bytes import record

HERE = Path(__file__).parent
MATERIAL = HERE.parents[1] / "material"
LARGEST_SEED = 40_000  # bytes
CELLS = (
    "", " ", "nan", "NaN", "inf", "-inf", "-1", "-0", "1e308", "1e400", "9" * 400, "1_000", "0x10",
    "١٢", "½", "+5", "5.", ".5", "1,5", "None", "null", "true", "text", '"', "'", "\\", "a\x00b",
    "\ufeff", "2**53", "9007199254740993", "1e18", "4.9e-324", "val_acc", "step", "epoch", "[",
    "{}", "=1+1", "%", "99%", "0.5;0.6", "\r", "\t", "x" * 70_000,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 10**400, 1e308, float("nan"), float("inf"), "", "text", "0.5", [], {}, [[]],
    {"a": {"b": 1}}, [1, "a", None], "\ud800", {"": 0}, {"step": 1},
)  # fmt: skip
SUFFIXES = (".csv", ".json", ".jsonl", ".log", ".txt", ".db", ".parquet", "")


@cache
def seeds() -> tuple[Path, ...]:
    """Logs and folders of logs that are read, or refused, before they are damaged."""
    logs = [path for path in sorted(HERE.glob("real/*/*")) if path.is_file()]
    logs += sorted(HERE.glob("tensorboard/*/**/*tfevents*"))
    for case in sorted(MATERIAL.glob("trainers/*/*/files")):
        states = sorted(case.rglob("trainer_state.json"), key=lambda path: path.stat().st_size)
        logs += states[:1] + states[-1:]
        for pattern in ("*.csv", "*.log", "*tfevents*"):
            logs += sorted(case.rglob(pattern))
    logs += sorted(MATERIAL.glob("trackers/ray/*/result.json"))
    logs += sorted(MATERIAL.glob("trackers/ray/*/progress.csv"))
    logs = [path for path in dict.fromkeys(logs) if path.stat().st_size <= LARGEST_SEED]
    stores = [MATERIAL / "trackers" / name for name in ("mlflow.sql", "trackio.sql", "mlruns")]
    return (*logs, *stores, *more_seeds())


@cache
def more_seeds() -> tuple[Path, ...]:
    """Logs of the kinds in ``material/more``, alone and in their folders, and Optuna's store."""
    files = [path for path in sorted(MATERIAL.glob("more/*/**/*")) if path.is_file()]
    folders = [MATERIAL / "more" / name for name in ("allennlp", "catboost", "dvclive", "mm0")]
    return (*files, *folders, MATERIAL / "trackers" / "optuna.sql")


def kind(seed: Path) -> str:
    """What a log is, in a word."""
    if "tfevents" in seed.name:
        return "events"
    if seed in more_seeds() and seed.suffix != ".sql":
        return seed.relative_to(MATERIAL / "more").parts[0]
    names = {".sql": "database", ".json": "JSON", "": "folder"}
    return names.get(seed.suffix, "CSV")


def damaged(number: int, folder: Path, every: tuple[Path, ...] | None = None) -> Path:
    """The damaged log of a number, written into an empty folder; by default of all seeds."""
    draw = Random(number)
    every = every or seeds()
    seed = every[number % len(every)]
    if seed.suffix == ".sql":
        return _store(draw, seed, folder / f"{seed.stem}.db")
    if seed.is_dir():
        shutil.copytree(seed, folder / seed.name)
        files = sorted(path for path in (folder / seed.name).rglob("*") if path.is_file())
        for path in draw.sample(files, min(3, len(files))):
            path.write_bytes(_text(draw, path.read_bytes()))
        return folder / seed.name
    content = seed.read_bytes()
    content = _damage(seed)(draw, content)
    name = seed.name if draw.random() < 0.9 else seed.stem[:20] + draw.choice(SUFFIXES)
    path = folder / name
    path.write_bytes(content)
    return folder if draw.random() < 0.2 else path


def _times(draw: Random) -> int:
    return draw.choice((1, 1, 1, 2, 3, 6))


def _text(draw: Random, content: bytes) -> bytes:
    for _ in range(_times(draw)):
        content = draw.choice(TEXT)(draw, content)
    return content


def flip(draw: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        if changed:
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(draw: Random, content: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def insert(draw: Random, content: bytes) -> bytes:
    place = draw.randrange(len(content) + 1)
    return content[:place] + draw.randbytes(draw.choice((1, 2, 8, 300))) + content[place:]


def remove(draw: Random, content: bytes) -> bytes:
    place = draw.randrange(len(content) + 1)
    return content[:place] + content[place + draw.choice((1, 2, 8, 100, 1000)) :]


def repeat(draw: Random, content: bytes) -> bytes:
    """A second run, or a part of it, appended."""
    return content + draw.choice((content, cut(draw, content), content[len(content) // 2 :]))


def lines(draw: Random, content: bytes) -> bytes:
    """Lines doubled, left out, swapped or in another order."""
    parts = content.splitlines(keepends=True)
    if len(parts) < 2:
        return content
    for _ in range(draw.choice((1, 1, 3, 20))):
        a, b = draw.randrange(len(parts)), draw.randrange(len(parts))
        kind = draw.randrange(4)
        if kind == 0:
            parts.insert(b, parts[a])
        elif kind == 1 and len(parts) > 1:
            del parts[a]
            continue
        elif kind == 2:
            parts[a], parts[b] = parts[b], parts[a]
        elif draw.random() < 0.1:
            draw.shuffle(parts)
    return b"".join(parts)


def cells(draw: Random, content: bytes) -> bytes:
    """Cells doubled, left out, swapped or replaced."""
    parts = content.split(b"\n")
    for _ in range(draw.choice((1, 1, 2, 10))):
        place = draw.randrange(len(parts))
        row = parts[place].split(b",")
        a, b = draw.randrange(len(row)), draw.randrange(len(row))
        kind = draw.randrange(6)
        if kind == 0:
            row.insert(b, row[a])
        elif kind == 1:
            del row[a]
        elif kind == 2:
            row[a], row[b] = row[b], row[a]
        else:
            row[a] = draw.choice(CELLS).encode()
        parts[place] = b",".join(row)
    return b"\n".join(parts)


def column(draw: Random, content: bytes) -> bytes:
    """One value in a whole column."""
    rows = [row.split(b",") for row in content.split(b"\n")]
    place, cell = draw.randrange(len(rows[0])), draw.choice(CELLS).encode()
    for row in rows[draw.randrange(2) :]:
        if len(row) > place:
            row[place] = cell
    return b"\n".join(b",".join(row) for row in rows)


def separate(draw: Random, content: bytes) -> bytes:
    """Another separator, another end of lines, another encoding."""
    kind = draw.randrange(4)
    if kind == 0:
        return content.replace(b",", draw.choice((b";", b"\t", b"|", b", ", b" ,", b",,", b" ")))
    if kind == 1:
        unix = content.replace(b"\r\n", b"\n")
        return unix.replace(b"\n", draw.choice((b"\r\n", b"\r", b"\n\n", b"\n\r", b"\x0c", b"")))
    if kind == 2:
        text = content.decode("latin-1")
        return text.encode(draw.choice(("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-7")))
    return draw.choice((b"\xef\xbb\xbf", b"\x00", b"\n", b"# comment\n", b"\x1f\x8b")) + content


def nested(draw: Random, content: bytes) -> bytes:
    """JSON within JSON, to any depth."""
    depth = draw.choice((1, 3, 50, 100_000))
    begin, end = draw.choice(((b"[", b"]"), (b'{"log_history":', b"}"), (b'{"a":[', b"]}")))
    return begin * depth + content + end * draw.choice((depth, depth, 0))


def values(draw: Random, content: bytes) -> bytes:
    """Other JSON values in some places of a document, or of every line."""
    try:
        return json.dumps(_spoilt(draw, json.loads(content))).encode()
    except (ValueError, RecursionError):
        pass
    parts = []
    for line in content.splitlines():
        try:
            parts.append(json.dumps(_spoilt(draw, json.loads(line))).encode())
        except (ValueError, RecursionError):
            parts.append(line)
    return b"\n".join(parts)


def _spoilt(draw: Random, value: Any) -> Any:
    if draw.random() < 0.02:
        return draw.choice(VALUES)
    if isinstance(value, dict):
        names = {name: name if draw.random() > 0.01 else draw.choice(CELLS) for name in value}
        return {names[name]: _spoilt(draw, inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_spoilt(draw, inner) for inner in value if draw.random() > 0.01]
    return value


def _records(draw: Random, content: bytes) -> bytes:
    """Records of W&B with right checksums after the damage, or without."""
    if draw.random() < 0.3:
        return draw.choice((flip, cut, insert, remove, repeat))(draw, content)
    payloads, place = [], 7
    while place + 7 <= len(content):
        (length,) = struct.unpack_from("<H", content, place + 4)
        payloads.append(content[place + 7 : place + 7 + length])
        place += 7 + length
    for _ in range(_times(draw)):
        at = draw.randrange(len(payloads))
        payloads[at] = draw.choice((flip, cut, insert, remove))(draw, payloads[at])
    framed = [
        struct.pack("<IHB", zlib.crc32(one, zlib.crc32(b"\x01")), len(one), 1) + one
        for one in payloads
    ]
    return content[:7] + b"".join(framed)


def _damage(seed: Path) -> Callable[[Random, bytes], bytes]:
    return _events if "tfevents" in seed.name else _records if seed.suffix == ".wandb" else _text


TEXT: tuple[Callable[[Random, bytes], bytes], ...] = (
    flip, cut, insert, remove, repeat, lines, cells, cells, column, separate, nested, values,
    values,
)  # fmt: skip


def _events(draw: Random, content: bytes) -> bytes:
    if draw.random() < 0.3:
        return draw.choice((flip, cut, insert, remove, repeat))(draw, content)
    payloads, rest = [], content
    while len(rest) >= 12:
        (length,) = struct.unpack("<Q", rest[:8])
        payloads.append(rest[12 : 12 + length])
        rest = rest[16 + length :]
    for _ in range(_times(draw)):
        a, b = draw.randrange(len(payloads)), draw.randrange(len(payloads))
        kind = draw.randrange(5)
        if kind == 0:
            payloads.insert(b, payloads[a])
        elif kind == 1 and len(payloads) > 1:
            del payloads[a]
        elif kind == 2:
            payloads[a], payloads[b] = payloads[b], payloads[a]
        else:
            payloads[a] = draw.choice((flip, cut, insert, remove))(draw, payloads[a])
    return b"".join(map(record, payloads))


def _store(draw: Random, seed: Path, path: Path) -> Path:
    """A database, damaged by statements or as bytes."""
    with closing(sqlite3.connect(path)) as store:
        store.executescript(seed.read_text(encoding="utf-8"))
        if draw.random() < 0.5:
            for _ in range(_times(draw)):
                _change(draw, store)
        store.commit()
    if draw.random() < 0.5:
        path.write_bytes(draw.choice((flip, cut, insert, remove))(draw, path.read_bytes()))
    return path


def _change(draw: Random, store: sqlite3.Connection) -> None:
    tables = store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    table = draw.choice(sorted(tables))[0]
    names = [row[1] for row in store.execute(f'PRAGMA table_info("{table}")')]
    if not names:
        return
    name = draw.choice(names)
    value = draw.choice(
        (None, -1, 2**62, 1e308, "text", "nan", b"\x00\xff", '{"a": [}', "[" * 9999)
    )
    statements = (
        (f'UPDATE OR IGNORE "{table}" SET "{name}" = ?', (value,)),
        (f'UPDATE OR IGNORE "{table}" SET "{name}" = ? WHERE rowid % 3 = 0', (value,)),
        (f'DELETE FROM "{table}" WHERE rowid % 2 = 0', ()),
        (f'ALTER TABLE "{table}" RENAME COLUMN "{name}" TO "other"', ()),
        (f'DROP TABLE "{table}"', ()),
    )
    with suppress(sqlite3.Error):  # damage that the store itself refuses
        store.execute(*draw.choice(statements))
