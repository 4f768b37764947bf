"""Every test here gets a cache of its own and, on request, a small image folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

DOMAINS = ("photo", "sketch")
CLASSES = ("cat", "dog", "emu")
IMAGES_PER_CLASS = 4


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("CHECKWISE_CACHE", str(cache))
    return cache


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two domains × three classes × four distinct PNG images of 10×8 pixels."""
    root = tmp_path / "Zoo"
    random = np.random.RandomState(0)
    for domain in DOMAINS:
        for name in CLASSES:
            (root / domain / name).mkdir(parents=True)
            for index in range(IMAGES_PER_CLASS):
                pixels = random.randint(0, 256, size=(8, 10, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(root / domain / name / f"{index}.png")
    return root
