"""Features of a frozen backbone, extracted once and cached by what went in.

The network lives elsewhere: it comes as a function.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
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
    cache: Path | str | None = None,
    verify: bool = True,
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
    path = cache_dir(cache) / "features" / f"{identity[:40]}.npy"
    n = sum(dataset.sizes)
    rows = open_rows(path, n, verify=verify)
    if rows is None:
        batches = _Batches(dataset, batch_size, stored, extract)
        shape = (n, *batches.features(0).shape[1:])
        rows = cached_rows(path, shape, stored, batches.filler(width, progress), verify=verify)
    return replace(
        dataset,
        kind="features",
        x=tuple(np.split(rows, np.cumsum(dataset.sizes)[:-1])),
        fingerprint=identity,
    )


class _Batches:
    """The batches of one extraction: rows of all domains in order, cut every ``batch_size``."""

    def __init__(
        self, dataset: DomainDataset, batch_size: int, dtype: np.dtype[Any], extract: Extract
    ) -> None:
        self._dataset = dataset
        self._batch_size = batch_size
        self._dtype = dtype
        self._extract = extract
        self._ends = np.cumsum(dataset.sizes)

    def features(self, index: int) -> NDArray[Any]:
        """Extract the features of batch ``index`` and check them."""
        first = index * self._batch_size
        examples = self._examples(first, min(first + self._batch_size, int(self._ends[-1])))
        features = np.asarray(self._extract(examples))
        if features.ndim < 2 or len(features) != len(examples) or features.dtype.kind != "f":
            raise InputError(
                f"Expected floating features [{len(examples)}, …], but got {features.dtype} "
                f"{list(features.shape)} in the extractor for {self._dataset.name}: "
                "return one row of features per example."
            )
        with np.errstate(over="ignore"):  # reported below
            features = features.astype(self._dtype)
        if not np.isfinite(features).all():
            raise InputError(
                f"Expected finite features, but got NaN or infinity in rows {first}.. as "
                f"{self._dtype} of {self._dataset.name}: check the network, or use float32."
            )
        return features

    def filler(self, width: int, progress: Progress | None) -> Callable[[RowWriter], None]:
        """Return a function that fills a row file, ``width`` batches at a time."""

        def fill(rows: RowWriter) -> None:
            def extract_into(index: int) -> None:
                rows.write(index * self._batch_size, self.features(index))

            pending = np.unique(rows.missing() // self._batch_size).tolist()
            with ThreadPoolExecutor(width) as pool:
                try:
                    for done, _ in enumerate(pool.map(extract_into, pending), start=1):
                        if progress is not None:
                            progress(done, len(pending))
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise

        return fill

    def _examples(self, first: int, last: int) -> NDArray[Any]:
        parts = []
        for x, end in zip(self._dataset.x, self._ends.tolist(), strict=True):
            start = end - len(x)
            if first < end and last > start:
                parts.append(x[max(first - start, 0) : min(last, end) - start])
        return np.concatenate(parts)
