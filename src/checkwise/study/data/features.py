"""Features: of a file (.npz), with columns of one value per example, or of a frozen backbone.

Features of a backbone are extracted once and cached by what went in. The network lives elsewhere:
it comes as a function.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from checkwise.errors import Code, InputError
from checkwise.store import ArrayHeader, read_headers
from checkwise.study.data.caches import (
    Progress,
    RowWriter,
    cache_dir,
    cached_rows,
    content_hashes,
    open_rows,
)
from checkwise.study.data.dataset import DomainDataset, fingerprint

Extract = Callable[[NDArray[Any]], NDArray[Any]]
Column = tuple[NDArray[np.int64], tuple[str, ...]]
"""The values of a column as indices, and the names that these stand for."""

LABEL, DOMAIN = "label", "domain"
MOST_NAMES = 100_000  # of values that are numbers and have no names of their own
_NAMES = {LABEL: "classes", DOMAIN: "domains"}  # arrays that name the values of these two columns
_SAVE_PLAIN = "save plain arrays with np.savez(path, features=…, label=…, domain=…)"
_ROWS_AT_ONCE = 1024


def _refused(path: Path, wanted: str, got: object, do: str, code: Code = "format") -> InputError:
    return InputError(f"Expected {wanted}, but got {got} in {str(path)!r}: {do}.", code=code)


def _unreadable(path: Path, reason: object) -> InputError:
    wanted = "a readable .npz file without Python objects"
    return _refused(path, wanted, f"this: {reason}", _SAVE_PLAIN)


def open_features(
    path: Path | str, *, name: str | None = None, domain_by: str = DOMAIN, groups: str | None = None
) -> DomainDataset:
    """Open a feature file; its features are unpacked into the cache.

    Args:
        path: the file; its name without suffix is the default ``name``.
        domain_by: the column that says which domain an example belongs to.
        groups: the column that says which group it belongs to: its site, its patient.
    """
    path = Path(path)
    header, small = _read(path, domain_by, *([] if groups is None else [groups]))
    labels, classes = _column(path, small, LABEL)
    domain_of, domains = _column(path, small, domain_by)
    shape, dtype = header
    if dtype.kind != "f" or len(shape) < 2 or 0 in shape:
        wanted = "`features` as a non-empty floating array [n, …]"
        raise _refused(path, wanted, f"{dtype} {list(shape)}", "save it as float32 or float16")
    order = np.argsort(domain_of, kind="stable")
    sizes = np.bincount(domain_of, minlength=len(domains))
    if not sizes.all():
        got = f"none for {domains[int(np.argmin(sizes))]!r}"
        do = "remove it from `domains`, or add its rows"
        raise _refused(path, "rows in every domain", got, do, "empty")
    order_by = () if domain_by == DOMAIN else (domain_by,)
    content = content_hashes(path.parent, [path.name])[0]
    identity = fingerprint("feature file, by domain", content, *order_by)
    features = cached_rows(
        cache_dir("features") / f"{identity[:40]}.npy",
        shape,
        np.dtype(np.float32) if dtype.itemsize > 4 else dtype.newbyteorder("="),
        _unpacker(path, order),
    )
    rows = [f"row {row}" for row in range(shape[0])]
    ids = small.get("filename", np.array(rows))
    starts = np.cumsum(sizes)[:-1]
    x = tuple(np.split(features, starts))
    y = tuple(np.split(labels[order], starts))
    dataset = DomainDataset(
        name=name or path.stem,
        kind="features",
        domains=domains,
        classes=classes,
        x=x,
        y=y,
        ids=tuple(tuple(part.tolist()) for part in np.split(ids[order], starts)),
        fingerprint=fingerprint(repr(domains), repr(classes), *x, *y),
    )
    if groups is None:
        return dataset
    codes, names = _column(path, small, groups)
    parts = tuple(np.split(codes[order], starts))
    domain_of_group: dict[int, str] = {}
    for domain, part in zip(domains, parts, strict=True):
        for code in np.unique(part).tolist():
            if domain_of_group.setdefault(code, domain) != domain:
                raise InputError(
                    f"Expected every group in one domain, but {names[code]!r} of `{groups}` is in "
                    f"{domain_of_group[code]!r} and {domain!r} of {dataset.name}, so it would be "
                    "on both sides of a split: use groups that lie inside the domains.",
                    code="format",
                )
    identity = fingerprint("groups", dataset.fingerprint, repr(names), *parts)
    return replace(dataset, groups=parts, group_names=names, fingerprint=identity)


def feature_domains(path: Path | str, domain_by: str = DOMAIN) -> tuple[str, ...]:
    path = Path(path)
    return _column(path, _read(path, domain_by)[1], domain_by)[1]


def _read(path: Path, *columns: str) -> tuple[ArrayHeader, dict[str, NDArray[Any]]]:
    """The header of the features; the label, the asked-for columns, their names, file names."""
    per_row = tuple(dict.fromkeys([LABEL, *columns, "filename"]))
    try:
        with path.open("rb") as raw:
            file = np.load(raw, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise _refused(path, "an .npz file", "a single array", _SAVE_PLAIN)
            required = ["features", *(key for key in per_row if key != "filename")]
            absent = [key for key in required if key not in file.files]
            if absent:
                wanted, got = f"the keys {', '.join(required)}", ", ".join(file.files)
                raise _refused(path, wanted, got, f"add {', '.join(absent)}", "missing")
            raw.seek(0)
            headers = read_headers(raw)
            rows = headers["features"].shape[:1] or (0,)
            for key in per_row:  # before one of them is unpacked
                if key in headers and headers[key].shape != rows:
                    wanted = f"one {key} for each of the {rows[0]} rows of features"
                    got = f"shape {list(headers[key].shape)}"
                    raise _refused(path, wanted, got, f"save `{key}` with shape [n]", "differs")
            keys = {*per_row, *_NAMES.values()} & set(file.files)
            return headers["features"], {key: file[key] for key in sorted(keys)}
    except FileNotFoundError as error:
        raise _refused(path, "a feature file", "nothing", "check the path", "missing") from error
    except InputError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from error


def _column(path: Path, arrays: Mapping[str, NDArray[Any]], key: str) -> Column:
    """A column; ``classes`` and ``domains`` name the values of label and domain where present."""
    values, names_key = arrays[key], _NAMES.get(key)
    if values.dtype.kind not in "iuU":
        wanted = f"`{key}` as integers or strings"
        raise _refused(path, wanted, values.dtype, "save it with dtype int64 or str")
    named = names_key is not None and names_key in arrays
    names = tuple(map(str, arrays[str(names_key)].tolist())) if named else None
    if names_key is None or (names is None and values.dtype.kind == "U"):
        distinct, indices = np.unique(values, return_inverse=True)
        if names_key is None and "" in distinct.tolist():
            wanted = f"a name in every row of `{key}`"
            raise _refused(path, wanted, "an empty one", "fill it in, or remove those rows")
        return indices.astype(np.int64), tuple(map(str, distinct.tolist()))
    if names is not None and values.dtype.kind == "U":
        position = {name: index for index, name in enumerate(names)}
        unknown = sorted(set(values.tolist()) - set(position))
        if unknown:
            wanted = f"every {key} among `{names_key}`"
            raise _refused(path, wanted, repr(unknown[0]), f"list it in `{names_key}`")
        return np.array([position[value] for value in values.tolist()], dtype=np.int64), names
    highest, lowest = int(values.max(initial=0)), int(values.min(initial=0))
    limit = min(highest + 1, MOST_NAMES) if names is None else len(names)
    if lowest < 0 or highest >= limit:
        got = lowest if lowest < 0 else highest
        do = f"number from 0 and name all of them in `{names_key}`"
        raise _refused(path, f"`{key}` in 0..{limit - 1}", got, do)
    return values.astype(np.int64), names or tuple(map(str, range(limit)))


def _unpacker(path: Path, order: NDArray[np.int64]) -> Callable[[RowWriter], None]:
    target_of = np.empty_like(order)
    target_of[order] = np.arange(len(order))

    def fill(rows: RowWriter) -> None:
        for first, chunk in _chunks(path):
            finite = np.isfinite(chunk).reshape(len(chunk), -1).all(axis=1)
            if not finite.all():
                rows.path.unlink(missing_ok=True)
                got = f"NaN or infinity in row {first + int(np.argmin(finite))}"
                raise _refused(path, "finite features", got, "remove or repair that row")
            targets = target_of[first : first + len(chunk)]
            # One write per stretch of rows that stay neighbours; usually the whole chunk.
            breaks = np.flatnonzero(np.diff(targets) != 1) + 1
            for run, target in zip(np.split(chunk, breaks), np.split(targets, breaks), strict=True):
                rows.write(int(target[0]), run)

    return fill


def _chunks(path: Path) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield (first row, rows) of the features without holding all of them."""
    with zipfile.ZipFile(path) as archive, archive.open("features.npy") as member:
        version = npy.read_magic(member)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran_order, dtype = read(member)
        whole = None
        if fortran_order:
            whole = np.frombuffer(member.read(), dtype=dtype).reshape(shape, order="F")
        row_bytes = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        for first in range(0, shape[0], _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, shape[0] - first)
            if whole is not None:
                yield first, whole[first : first + count]
                continue
            try:
                content = member.read(count * row_bytes)
                rows = np.frombuffer(content, dtype=dtype).reshape(count, *shape[1:])
            except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
                raise _unreadable(path, error) from error
            yield first, rows


def frozen_features(
    dataset: DomainDataset,
    backbone: str,
    extract: Extract,
    *,
    batch_size: int = 16,
    width: int = 1,
    dtype: DTypeLike = np.float32,
    progress: Progress | None = None,
) -> DomainDataset:
    """Return ``dataset`` with every example replaced by its features.

    ``extract`` maps a uint8 batch [b, height, width, channels] to floating features [b, …] of a
    fixed shape; ``width`` threads call it at once, and only if the features are not cached.
    ``backbone`` names the network *and* its weights, for instance with a hash of the weights: with
    the data set's fingerprint it is the cache's key. Batches do not depend on ``width``, and a
    killed extraction continues where it stopped.
    """
    stored = np.dtype(dtype)
    identity = fingerprint(
        "frozen features", dataset.fingerprint, backbone, stored.str, str(batch_size)
    )
    path = cache_dir("features") / f"{identity[:40]}.npy"
    ends = np.cumsum(dataset.sizes).tolist()

    def batch(index: int) -> NDArray[Any]:
        first, last = index * batch_size, min((index + 1) * batch_size, ends[-1])
        parts = []
        for x, end in zip(dataset.x, ends, strict=True):
            start = end - len(x)
            if first < end and last > start:
                parts.append(x[max(first - start, 0) : min(last, end) - start])
        examples = np.concatenate(parts)
        features = np.asarray(extract(examples))
        with np.errstate(over="ignore"):  # reported below
            features = features.astype(stored)
        if not np.isfinite(features).all():
            raise InputError(
                f"Expected finite features, but got NaN or infinity in rows {first}.. as {stored} "
                f"of {dataset.name}: check the network, or use float32."
            )
        return features

    def fill(rows: RowWriter) -> None:
        pending = np.unique(rows.missing() // batch_size).tolist()
        with ThreadPoolExecutor(width) as pool:
            written = pool.map(lambda index: rows.write(index * batch_size, batch(index)), pending)
            try:
                for done, _ in enumerate(written, start=1):
                    if progress is not None:
                        progress(done, len(pending))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    rows = open_rows(path, ends[-1])
    if rows is None:
        rows = cached_rows(path, (ends[-1], *batch(0).shape[1:]), stored, fill)
    return replace(
        dataset, kind="features", x=tuple(np.split(rows, ends[:-1])), fingerprint=identity
    )
