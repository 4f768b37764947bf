"""Feature files: one ``.npz`` with the features, label and domain of every example.

Keys: ``features`` [n, …] floating; ``label`` [n], integers or class names; ``domain`` [n], integers
or domain names; optional ``classes`` and ``domains``, the names that integers stand for, and
``filename`` [n]. Nothing is unpickled. The features are unpacked once into a row file in the cache,
grouped by domain in their original order, and mapped from there.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from checkwise.data.cache import cache_dir
from checkwise.data.dataset import DomainDataset, fingerprint
from checkwise.data.manifest import content_hashes
from checkwise.data.rowfile import RowWriter, cached_rows
from checkwise.errors import InputError
from checkwise.store.npz import ArrayHeader, read_headers

_REQUIRED = ("features", "label", "domain")
_ROWS_AT_ONCE = 1024


def open_features(
    path: Path | str,
    *,
    name: str | None = None,
    cache: Path | str | None = None,
    verify: bool = True,
) -> DomainDataset:
    """Open a feature file. ``name`` defaults to the file's name without its suffix."""
    path = Path(path)
    small = _small_arrays(path)
    labels, classes = _indices(path, small, "label", "classes")
    domain_of, domains = _indices(path, small, "domain", "domains")
    shape, dtype = _features_header(path)
    n = shape[0]
    order = np.argsort(domain_of, kind="stable")
    sizes = np.bincount(domain_of, minlength=len(domains))
    if not sizes.all():
        raise InputError(
            f"Expected rows in every domain, but got none for {domains[int(np.argmin(sizes))]!r} "
            f"in {str(path)!r}: remove it from `domains`, or add its rows."
        )
    caches = cache_dir(cache)
    stored = np.dtype(np.float32) if dtype.itemsize > 4 else dtype.newbyteorder("=")
    content = content_hashes(path.parent, [path.name], cache=caches)[0]
    features = cached_rows(
        caches / "features" / f"{fingerprint('feature file, by domain', content)[:40]}.npy",
        shape,
        stored,
        _unpacker(path, order),
        verify=verify,
    )
    ids = small["filename"] if "filename" in small else np.array([f"row {i}" for i in range(n)])
    starts = np.cumsum(sizes)[:-1]
    x = tuple(np.split(features, starts))
    y = tuple(np.split(labels[order], starts))
    return DomainDataset(
        name=name or path.stem,
        kind="features",
        domains=domains,
        classes=classes,
        x=x,
        y=y,
        ids=tuple(tuple(part.tolist()) for part in np.split(ids[order], starts)),
        fingerprint=fingerprint(repr(domains), repr(classes), *x, *y),
    )


def feature_domains(path: Path | str) -> tuple[str, ...]:
    """The domains of a feature file; its features are not read."""
    path = Path(path)
    return _indices(path, _small_arrays(path), "domain", "domains")[1]


def _small_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read everything but the features."""
    try:
        with path.open("rb") as raw:
            file = np.load(raw, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise InputError(
                    f"Expected an .npz file, but got a single array in {str(path)!r}: "
                    "save with np.savez(path, features=…, label=…, domain=…)."
                )
            absent = [key for key in _REQUIRED if key not in file.files]
            if absent:
                raise InputError(
                    f"Expected the keys {', '.join(_REQUIRED)}, but got {', '.join(file.files)} in "
                    f"{str(path)!r}: add {', '.join(absent)}."
                )
            raw.seek(0)
            _check_sizes(read_headers(raw), path)
            keys = {"label", "domain", "classes", "domains", "filename"} & set(file.files)
            return {key: file[key] for key in sorted(keys)}
    except FileNotFoundError as error:
        raise InputError(
            f"Expected a feature file, but got nothing in {str(path)!r}: check the path."
        ) from error
    except InputError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from error


def _check_sizes(arrays: Mapping[str, ArrayHeader], path: Path) -> None:
    """Refuse arrays of different lengths before one of them is unpacked."""
    rows = arrays["features"].shape[:1] or (0,)
    for key in ("label", "domain", "filename"):
        if key in arrays and arrays[key].shape != rows:
            raise InputError(
                f"Expected one {key} for each of the {rows[0]} rows of features, but got shape "
                f"{list(arrays[key].shape)} in {str(path)!r}: save `{key}` with shape [n]."
            )


def _indices(
    path: Path, arrays: dict[str, NDArray[Any]], key: str, names_key: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return ``key`` as indices, with the names they stand for."""
    values = arrays[key]
    names = tuple(str(name) for name in arrays[names_key].tolist()) if names_key in arrays else None
    if values.dtype.kind == "U":
        listed = names or tuple(np.unique(values).tolist())
        position = {name: index for index, name in enumerate(listed)}
        unknown = sorted(set(values.tolist()) - set(position))
        if unknown:
            raise InputError(
                f"Expected every {key} among `{names_key}`, but got {unknown[0]!r} in "
                f"{str(path)!r}: list it in `{names_key}`."
            )
        indices = np.array([position[value] for value in values.tolist()], dtype=np.int64)
        return indices, listed
    if values.dtype.kind not in "iu":
        raise InputError(
            f"Expected `{key}` as integers or strings, but got {values.dtype} in {str(path)!r}: "
            f"save it with dtype int64 or str."
        )
    indices = values.astype(np.int64)
    highest = int(indices.max(initial=-1))
    lowest = int(indices.min(initial=0))
    limit = highest + 1 if names is None else len(names)
    if lowest < 0 or highest >= limit:
        raise InputError(
            f"Expected `{key}` in 0..{limit - 1}, but got {lowest if lowest < 0 else highest} in "
            f"{str(path)!r}: number from 0 and name all of them in `{names_key}`."
        )
    return indices, names or tuple(str(index) for index in range(limit))


def _features_header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with _open_features(path) as member:
        shape, _, dtype = _array_header(member)
    if dtype.kind != "f" or len(shape) < 2 or 0 in shape:
        kind = "Python objects" if dtype.hasobject else str(dtype)
        raise InputError(
            f"Expected `features` as a non-empty floating array [n, …], but got {kind} "
            f"{list(shape)} in {str(path)!r}: save it as float32 or float16."
        )
    return shape, dtype


def _unpacker(path: Path, order: NDArray[np.int64]) -> Callable[[RowWriter], None]:
    target_of = np.empty_like(order)
    target_of[order] = np.arange(len(order))

    def fill(rows: RowWriter) -> None:
        for first, chunk in _chunks(path):
            finite = np.isfinite(chunk).reshape(len(chunk), -1).all(axis=1)
            if not finite.all():
                rows.discard()
                raise InputError(
                    f"Expected finite features, but got NaN or infinity in row "
                    f"{first + int(np.argmin(finite))} in {str(path)!r}: remove or repair that row."
                )
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


def _unreadable(path: Path, reason: object) -> InputError:
    return InputError(
        f"Expected a readable .npz file without Python objects, but got: {reason} in "
        f"{str(path)!r}: save plain arrays with np.savez(path, features=…, label=…, domain=…)."
    )
