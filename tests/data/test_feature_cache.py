"""Frozen features: the right rows, extracted once, continued after a stop."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from checkwise.study.data import DomainDataset, from_arrays, frozen_features
from tests.refusals import refused


def _means(batch: NDArray[Any]) -> NDArray[Any]:
    means: NDArray[Any] = batch.mean(axis=(1, 2)).astype(np.float32)
    return means


@pytest.fixture
def images() -> DomainDataset:
    random = np.random.RandomState(0)
    arrays = {
        name: (random.randint(0, 256, size=(n, 5, 5, 3)).astype(np.uint8), np.arange(n) % 2)
        for name, n in (("a", 7), ("b", 21), ("c", 3))
    }
    return from_arrays("toy", arrays, kind="images", classes=["x", "y"])


def _refuse(batch: NDArray[Any]) -> NDArray[Any]:
    raise AssertionError("must not be extracted again")


@pytest.mark.parametrize("width", [1, 3])
def test_every_example_gets_its_own_features(images: DomainDataset, width: int) -> None:
    seen: list[tuple[int, int]] = []
    features = frozen_features(
        images, "mean", _means, batch_size=4, width=width, progress=lambda *now: seen.append(now)
    )
    assert seen[-1] == (8, 8)
    assert (features.kind, features.domains, features.ids) == (
        "features",
        images.domains,
        images.ids,
    )
    for domain in range(3):
        assert np.array_equal(features.x[domain], _means(images.x[domain]))
        assert np.array_equal(features.y[domain], images.y[domain])


def test_features_are_extracted_once_per_data_backbone_and_type(images: DomainDataset) -> None:
    first = frozen_features(images, "mean", _means)
    again = frozen_features(images, "mean", _refuse)
    assert again.fingerprint == first.fingerprint
    assert np.array_equal(again.x[1], first.x[1])
    half = frozen_features(images, "mean", _means, dtype=np.float16)
    other = frozen_features(images, "other", lambda batch: 2 * _means(batch))
    assert half.x[0].dtype == np.float16
    assert np.array_equal(other.x[0], 2 * first.x[0])
    assert len({first.fingerprint, half.fingerprint, other.fingerprint}) == 3


def test_width_threads_extract_at_once(images: DomainDataset) -> None:
    together = threading.Barrier(2, timeout=60)
    first = threading.Event()

    def waits_for_another(batch: NDArray[Any]) -> NDArray[Any]:
        if first.is_set():  # the first batch comes alone: it tells the shape
            together.wait()
        first.set()
        return _means(batch)

    frozen_features(images, "mean", waits_for_another, batch_size=4, width=2)
    assert not together.broken


def test_a_stopped_extraction_is_continued(images: DomainDataset) -> None:
    sizes: list[int] = []

    def stops(batch: NDArray[Any]) -> NDArray[Any]:
        sizes.append(len(batch))
        if len(sizes) >= 5:
            raise KeyboardInterrupt
        return _means(batch)

    with pytest.raises(KeyboardInterrupt):
        frozen_features(images, "mean", stops, batch_size=4)
    sizes.clear()

    def counts(batch: NDArray[Any]) -> NDArray[Any]:
        sizes.append(len(batch))
        return _means(batch)

    features = frozen_features(images, "mean", counts, batch_size=4)
    # Of eight batches three were stored; one more is extracted again to learn the shape.
    assert len(sizes) == 1 + 8 - 3
    assert np.array_equal(features.x[1], _means(images.x[1]))


@pytest.mark.parametrize(
    ("extract", "match"),
    [
        (lambda batch: np.full((len(batch), 2), np.nan), "value"),
        (lambda batch: np.full((len(batch), 2), 1e300), "value: float32"),
    ],
)
def test_an_extractor_that_does_not_fit_is_refused(
    images: DomainDataset, extract: Any, match: str
) -> None:
    with refused(match):
        frozen_features(images, "x", extract)
