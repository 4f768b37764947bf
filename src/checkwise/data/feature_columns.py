"""The columns of a feature file: everything in it but the features, one value per example."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.store.npz import ArrayHeader, read_headers

Column = tuple[NDArray[np.int64], tuple[str, ...]]
"""The values of a column as indices, and the names that these stand for."""

LABEL, DOMAIN = "label", "domain"
MOST_NAMES = 100_000  # of values that are numbers and have no names of their own
_NAMES = {LABEL: "classes", DOMAIN: "domains"}  # arrays that name the values of these two columns


def read_columns(path: Path, *columns: str) -> dict[str, NDArray[Any]]:
    """The label and the asked-for columns of a feature file, with their names and file names."""
    try:
        with path.open("rb") as raw:
            file = np.load(raw, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise InputError(
                    f"Expected an .npz file, but got a single array in {str(path)!r}: "
                    "save with np.savez(path, features=…, label=…, domain=…).",
                    code="format",
                )
            required = list(dict.fromkeys(["features", LABEL, *columns]))
            absent = [key for key in required if key not in file.files]
            if absent:
                raise InputError(
                    f"Expected the keys {', '.join(required)}, but got {', '.join(file.files)} in "
                    f"{str(path)!r}: add {', '.join(absent)}.",
                    code="missing",
                )
            raw.seek(0)
            per_row = tuple(dict.fromkeys([LABEL, *columns, "filename"]))
            _check_sizes(read_headers(raw), per_row, path)
            keys = {*per_row, *_NAMES.values()} & set(file.files)
            return {key: file[key] for key in sorted(keys)}
    except FileNotFoundError as error:
        raise InputError(
            f"Expected a feature file, but got nothing in {str(path)!r}: check the path.",
            code="missing",
        ) from error
    except InputError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise unreadable(path, error) from error


def _check_sizes(arrays: Mapping[str, ArrayHeader], columns: tuple[str, ...], path: Path) -> None:
    """Refuse arrays of different lengths before one of them is unpacked."""
    rows = arrays["features"].shape[:1] or (0,)
    for key in columns:
        if key in arrays and arrays[key].shape != rows:
            raise InputError(
                f"Expected one {key} for each of the {rows[0]} rows of features, but got shape "
                f"{list(arrays[key].shape)} in {str(path)!r}: save `{key}` with shape [n].",
                code="differs",
            )


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
            raise InputError(
                f"Expected every {key} among `{names_key}`, but got {unknown[0]!r} in "
                f"{str(path)!r}: list it in `{names_key}`.",
                code="format",
            )
        indices = np.array([position[value] for value in values.tolist()], dtype=np.int64)
        return indices, listed
    if values.dtype.kind not in "iu":
        raise InputError(
            f"Expected `{key}` as integers or strings, but got {values.dtype} in {str(path)!r}: "
            f"save it with dtype int64 or str.",
            code="format",
        )
    indices = values.astype(np.int64)
    highest = int(indices.max(initial=-1))
    lowest = int(indices.min(initial=0))
    if names is None and highest >= MOST_NAMES:
        raise InputError(
            f"Expected `{key}` numbered from 0, but got {highest} in {str(path)!r}: number from 0, "
            f"or name every one in `{names_key}`.",
            code="format",
        )
    limit = highest + 1 if names is None else len(names)
    if lowest < 0 or highest >= limit:
        raise InputError(
            f"Expected `{key}` in 0..{limit - 1}, but got {lowest if lowest < 0 else highest} in "
            f"{str(path)!r}: number from 0 and name all of them in `{names_key}`.",
            code="format",
        )
    return indices, names or tuple(str(index) for index in range(limit))


def column(path: Path, arrays: Mapping[str, NDArray[Any]], key: str) -> Column:
    """Any column; the values of one that is neither label nor domain name themselves."""
    if key in _NAMES:
        return named_column(path, arrays, key)
    values = arrays[key]
    if values.dtype.kind not in "iuU":
        raise InputError(
            f"Expected `{key}` as integers or strings, but got {values.dtype} in {str(path)!r}: "
            f"save it with dtype int64 or str.",
            code="format",
        )
    names, indices = np.unique(values, return_inverse=True)
    if "" in names.tolist():
        raise InputError(
            f"Expected a name in every row of `{key}`, but got an empty one in {str(path)!r}: fill "
            "it in, or remove those rows.",
            code="format",
        )
    return indices.astype(np.int64), tuple(str(name) for name in names.tolist())


def unreadable(path: Path, reason: object) -> InputError:
    """The error for a file that is no plain .npz."""
    return InputError(
        f"Expected a readable .npz file without Python objects, but got: {reason} in "
        f"{str(path)!r}: save plain arrays with np.savez(path, features=…, label=…, domain=…).",
        code="format",
    )
