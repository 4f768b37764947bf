"""Feature files (.npz): features, and columns with one value per example."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from checkwise.errors import Code, InputError
from checkwise.store import ArrayHeader, read_headers
from checkwise.study.data.caches import RowWriter, cache_dir, cached_rows, content_hashes
from checkwise.study.data.dataset import DomainDataset, fingerprint

Column = tuple[NDArray[np.int64], tuple[str, ...]]
"""The values of a column as indices, and the names that these stand for."""

LABEL, DOMAIN = "label", "domain"
MOST_NAMES = 100_000  # of values that are numbers and have no names of their own
_NAMES = {LABEL: "classes", DOMAIN: "domains"}  # arrays that name the values of these two columns


def _refused(path: Path, wanted: str, got: object, do: str, code: Code = "format") -> InputError:
    return InputError(f"Expected {wanted}, but got {got} in {str(path)!r}: {do}.", code=code)


def _unreadable(path: Path, reason: object) -> InputError:
    wanted = "a readable .npz file without Python objects"
    return _refused(path, wanted, f"this: {reason}", _SAVE_PLAIN)


_SAVE_PLAIN = "save plain arrays with np.savez(path, features=…, label=…, domain=…)"


def read_columns(path: Path, *columns: str) -> dict[str, NDArray[Any]]:
    """The label and the asked-for columns of a feature file, with their names and file names."""
    try:
        with path.open("rb") as raw:
            file = np.load(raw, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise _refused(path, "an .npz file", "a single array", _SAVE_PLAIN)
            required = list(dict.fromkeys(["features", LABEL, *columns]))
            absent = [key for key in required if key not in file.files]
            if absent:
                wanted, got = f"the keys {', '.join(required)}", ", ".join(file.files)
                raise _refused(path, wanted, got, f"add {', '.join(absent)}", "missing")
            raw.seek(0)
            per_row = tuple(dict.fromkeys([LABEL, *columns, "filename"]))
            _check_sizes(read_headers(raw), per_row, path)
            keys = {*per_row, *_NAMES.values()} & set(file.files)
            return {key: file[key] for key in sorted(keys)}
    except FileNotFoundError as error:
        raise _refused(path, "a feature file", "nothing", "check the path", "missing") from error
    except InputError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from error


def _check_sizes(arrays: Mapping[str, ArrayHeader], columns: tuple[str, ...], path: Path) -> None:
    """Refuse arrays of different lengths before one of them is unpacked."""
    rows = arrays["features"].shape[:1] or (0,)
    for key in columns:
        if key in arrays and arrays[key].shape != rows:
            wanted = f"one {key} for each of the {rows[0]} rows of features"
            got = f"shape {list(arrays[key].shape)}"
            raise _refused(path, wanted, got, f"save `{key}` with shape [n]", "differs")


def named_column(path: Path, arrays: Mapping[str, NDArray[Any]], key: str) -> Column:
    """The label or the domain: ``classes`` and ``domains`` name their values where present."""
    names_key = _NAMES[key]
    values = arrays[key]
    names = tuple(str(name) for name in arrays[names_key].tolist()) if names_key in arrays else None
    if values.dtype.kind == "U":
        listed = names or tuple(np.unique(values).tolist())
        position = {name: index for index, name in enumerate(listed)}
        unknown = sorted(set(values.tolist()) - set(position))
        if unknown:
            wanted = f"every {key} among `{names_key}`"
            raise _refused(path, wanted, repr(unknown[0]), f"list it in `{names_key}`")
        indices = np.array([position[value] for value in values.tolist()], dtype=np.int64)
        return indices, listed
    _check_kind(path, key, values)
    indices = values.astype(np.int64)
    highest = int(indices.max(initial=-1))
    lowest = int(indices.min(initial=0))
    do = f"number from 0 and name all of them in `{names_key}`"
    if names is None and highest >= MOST_NAMES:
        raise _refused(path, f"`{key}` numbered from 0", highest, do)
    limit = highest + 1 if names is None else len(names)
    if lowest < 0 or highest >= limit:
        got = lowest if lowest < 0 else highest
        raise _refused(path, f"`{key}` in 0..{limit - 1}", got, do)
    return indices, names or tuple(str(index) for index in range(limit))


def _check_kind(path: Path, key: str, values: NDArray[Any]) -> None:
    if values.dtype.kind not in "iuU":
        wanted = f"`{key}` as integers or strings"
        raise _refused(path, wanted, values.dtype, "save it with dtype int64 or str")


def column(path: Path, arrays: Mapping[str, NDArray[Any]], key: str) -> Column:
    """Any column; the values of one that is neither label nor domain name themselves."""
    if key in _NAMES:
        return named_column(path, arrays, key)
    values = arrays[key]
    _check_kind(path, key, values)
    names, indices = np.unique(values, return_inverse=True)
    if "" in names.tolist():
        wanted = f"a name in every row of `{key}`"
        raise _refused(path, wanted, "an empty one", "fill it in, or remove those rows")
    return indices.astype(np.int64), tuple(str(name) for name in names.tolist())


_ROWS_AT_ONCE = 1024


def open_features(
    path: Path | str,
    *,
    name: str | None = None,
    domain_by: str = DOMAIN,
    groups: str | None = None,
    cache: Path | str | None = None,
    verify: bool = True,
) -> DomainDataset:
    """Open a feature file.

    Args:
        path: the file; its name without suffix is the default ``name``.
        domain_by: the column that says which domain an example belongs to.
        groups: the column that says which group it belongs to: its site, its patient.
        cache: where the features are unpacked.
        verify: compare unpacked features with their checksum.
    """
    path = Path(path)
    small = read_columns(path, domain_by, *([] if groups is None else [groups]))
    labels, classes = named_column(path, small, LABEL)
    domain_of, domains = column(path, small, domain_by)
    shape, dtype = _features_header(path)
    n = shape[0]
    order = np.argsort(domain_of, kind="stable")
    sizes = np.bincount(domain_of, minlength=len(domains))
    if not sizes.all():
        got = f"none for {domains[int(np.argmin(sizes))]!r}"
        do = "remove it from `domains`, or add its rows"
        raise _refused(path, "rows in every domain", got, do, "empty")
    caches = cache_dir(cache)
    stored = np.dtype(np.float32) if dtype.itemsize > 4 else dtype.newbyteorder("=")
    content = content_hashes(path.parent, [path.name], cache=caches)[0]
    order_by = () if domain_by == DOMAIN else (domain_by,)
    identity = fingerprint("feature file, by domain", content, *order_by)
    features = cached_rows(
        caches / "features" / f"{identity[:40]}.npy",
        shape,
        stored,
        _unpacker(path, order),
        verify=verify,
    )
    ids = small["filename"] if "filename" in small else np.array([f"row {i}" for i in range(n)])
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
    codes, names = column(path, small, groups)
    return _with_groups(dataset, (codes[order], names), starts, groups)


def _with_groups(
    dataset: DomainDataset, grouped: Column, starts: NDArray[np.int64], column_name: str
) -> DomainDataset:
    """The data set with a group for every example; a group lies in one domain."""
    codes, names = grouped
    parts = tuple(np.split(codes, starts))
    domain_of: dict[int, str] = {}
    for domain, part in zip(dataset.domains, parts, strict=True):
        for code in np.unique(part).tolist():
            if domain_of.setdefault(code, domain) != domain:
                raise InputError(
                    f"Expected every group in one domain, but {names[code]!r} of `{column_name}` "
                    f"is in {domain_of[code]!r} and {domain!r} of {dataset.name}, so it would be "
                    "on both sides of a split: use groups that lie inside the domains.",
                    code="format",
                )
    return replace(
        dataset,
        groups=parts,
        group_names=names,
        fingerprint=fingerprint("groups", dataset.fingerprint, repr(names), *parts),
    )


def feature_domains(path: Path | str, domain_by: str = DOMAIN) -> tuple[str, ...]:
    """The domains of a feature file; its features are not read."""
    path = Path(path)
    return column(path, read_columns(path, domain_by), domain_by)[1]


def _features_header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with _open_features(path) as member:
        shape, _, dtype = _array_header(member)
    if dtype.kind != "f" or len(shape) < 2 or 0 in shape:
        kind = "Python objects" if dtype.hasobject else str(dtype)
        wanted = "`features` as a non-empty floating array [n, …]"
        raise _refused(path, wanted, f"{kind} {list(shape)}", "save it as float32 or float16")
    return shape, dtype


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
    with _open_features(path) as member:
        shape, fortran_order, dtype = _array_header(member)
        if fortran_order:
            flat = np.frombuffer(member.read(), dtype=dtype)
            whole = flat.reshape(shape, order="F")
            for first in range(0, shape[0], _ROWS_AT_ONCE):
                yield first, whole[first : first + _ROWS_AT_ONCE]
            return
        row_bytes = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        for first in range(0, shape[0], _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, shape[0] - first)
            try:
                content = member.read(count * row_bytes)
            except (OSError, EOFError, zipfile.BadZipFile) as error:
                raise _unreadable(path, error) from error
            if len(content) != count * row_bytes:
                raise _unreadable(path, "the features end early")
            yield first, np.frombuffer(content, dtype=dtype).reshape(count, *shape[1:])


@contextmanager
def _open_features(path: Path) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive, archive.open("features.npy") as member:
        yield member


def _array_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(member)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran_order, dtype = read(member)
    return shape, fortran_order, dtype
