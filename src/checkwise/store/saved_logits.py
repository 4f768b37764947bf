"""Reads the logits of one checkpoint from a run's folder, if they are as they were written."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from checkwise.calibrators.examples import Logits
from checkwise.errors import InputError
from checkwise.store.done import read_recorded
from checkwise.store.npz import open_npz


def read_logits(folder: Path, name: str, *, what: str, advice: Callable[[], str]) -> Logits:
    """``<domain>.logits`` and ``<domain>.labels`` of one of a run's files, by domain.

    ``advice`` says what to do where there is no such file.
    """
    path = folder / name
    try:
        with open_npz(io.BytesIO(read_recorded(folder, name))) as (headers, arrays):
            domains = sorted(n.removesuffix(".logits") for n in headers if n.endswith(".logits"))
            return {d: (arrays[f"{d}.logits"], arrays[f"{d}.labels"]) for d in domains}
    except FileNotFoundError:
        raise InputError(
            f"Expected {what}, but there is no {path.name} in {path.parent}: {advice()}."
        ) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(
            f"Expected {what}, but got: {error} in {path}: the file is damaged; "
            "`checkwise verify` says what to do."
        ) from None
