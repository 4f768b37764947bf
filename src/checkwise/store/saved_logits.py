"""Reads the logits of one checkpoint from a run's folder, if they are as they were written."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.calibrators.examples import Groups, Logits
from checkwise.errors import InputError
from checkwise.store.done import read_recorded
from checkwise.store.npz import open_npz


def read_logits(folder: Path, name: str, *, what: str, advice: Callable[[], str]) -> Logits:
    """``<domain>.logits`` and ``<domain>.labels`` of one of a run's files, by domain.

    ``advice`` says what to do where there is no such file.
    """
    arrays = read_arrays(folder, name, (".logits", ".labels"), what=what, advice=advice)
    domains = sorted(n.removesuffix(".logits") for n in arrays if n.endswith(".logits"))
    return {d: (arrays[f"{d}.logits"], arrays[f"{d}.labels"]) for d in domains}


def read_groups(folder: Path, name: str, *, what: str, advice: Callable[[], str]) -> Groups:
    """``<domain>.groups`` of the same file: the site or patient of every example, as numbers.

    Empty where the data set has no groups.
    """
    arrays = read_arrays(folder, name, (".groups",), what=what, advice=advice)
    return {n.removesuffix(".groups"): codes.astype(np.int64) for n, codes in arrays.items()}


def read_arrays(
    folder: Path, name: str, endings: tuple[str, ...], *, what: str, advice: Callable[[], str]
) -> dict[str, NDArray[Any]]:
    """The arrays of one of a run's files whose names end so."""
    path = folder / name
    try:
        with open_npz(io.BytesIO(read_recorded(folder, name))) as (headers, arrays):
            return {n: arrays[n] for n in headers if n.endswith(endings)}
    except FileNotFoundError:
        raise InputError(
            f"Expected {what}, but there is no {path.name} in {path.parent}: {advice()}.",
            code="missing",
        ) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(
            f"Expected {what}, but got: {error} in {path}: the file is damaged; "
            "`checkwise study status --verify` says what to do.",
            code="damaged",
        ) from None
