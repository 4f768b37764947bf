"""Features of a frozen backbone, extracted once and cached by what went in.

The network lives elsewhere: it comes as a function.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from checkwise.errors import InputError
from checkwise.study.data.caches import Progress, RowWriter, cache_dir, cached_rows, open_rows
from checkwise.study.data.dataset import DomainDataset, fingerprint

Extract = Callable[[NDArray[Any]], NDArray[Any]]


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
        if features.ndim < 2 or len(features) != len(examples) or features.dtype.kind != "f":
            raise InputError(
                f"Expected floating features [{len(examples)}, …], but got {features.dtype} "
                f"{list(features.shape)} in the extractor for {dataset.name}: return one row of "
                "features per example."
            )
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
        dataset,
        kind="features",
        x=tuple(np.split(rows, ends[:-1])),
        fingerprint=identity,
    )
