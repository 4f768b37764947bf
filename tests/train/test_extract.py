"""Child processes extract what the backbone gives in this process, and say why they fail."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from checkwise.errors import CheckwiseError
from checkwise.predict import ONE_THREAD
from checkwise.study.data import from_arrays
from checkwise.study.train import NetworkConfig, extractor, freeze
from checkwise.study.train.extract import child_processes
from tests.refusals import said


@pytest.fixture
def images() -> NDArray[np.uint8]:
    return np.random.RandomState(0).randint(0, 256, (3, 64, 64, 3)).astype(np.uint8)


def _children() -> set[int]:
    tasks = Path("/proc/self/task").iterdir()
    return {int(child) for task in tasks for child in (task / "children").read_text().split()}


def _agree(features: NDArray[np.float32], backbone: str, images: NDArray[np.uint8]) -> None:
    # A process with several threads may round differently.
    expected = extractor(backbone, "head", "cpu")(images)
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-5)


def test_children_give_the_features_of_the_backbone_and_end_with_the_context(
    images: NDArray[np.uint8],
) -> None:
    before = _children()
    with child_processes("lite0", "head") as extract:
        assert _children() == before, "nothing is needed yet"
        features = extract(images)
        started = _children() - before
        assert len(started) == 1
        for child in started:
            environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            assert {f"{name}={value}".encode() for name, value in ONE_THREAD.items()} <= {
                *environment
            }
        assert np.array_equal(extract(images), features)
    assert _children() == before
    assert features.shape == (3, 1280)
    _agree(features, "lite0", images)


def test_the_frozen_part_is_extracted_once_and_cached_features_start_no_child(
    images: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = {"a": (images, np.arange(3) % 2), "b": (images[::-1], np.arange(3) % 2)}
    dataset = from_arrays("toy", arrays, kind="images", classes=["x", "y"])
    network = NetworkConfig("backbone", tune="head")
    first = freeze(dataset, network)
    assert np.array_equal(first.x[0], first.x[1][::-1])
    _agree(first.x[0], "lite0", images)
    monkeypatch.setattr(sys, "executable", os.devnull)
    again = freeze(dataset, network)
    assert np.array_equal(first.x[0], again.x[0])
    with pytest.raises(OSError, match=os.devnull):
        freeze(dataset, NetworkConfig("backbone", tune="last-stage"))


def test_a_timm_backbone_is_extracted_by_children_too(
    tmp_path: Path, images: NDArray[np.uint8]
) -> None:
    timm = pytest.importorskip("timm")
    model = timm.create_model("resnet10t", pretrained=False)
    timm.models.save_for_hf(model, tmp_path, model_config={"num_classes": 1000})
    name = f"timm:local-dir:{tmp_path}"
    with child_processes(name, "head") as extract:
        features = extract(images)
    assert features.shape == (3, 512)
    _agree(features, name, images)


FAILING = {
    ("lite0", 2): "system: RuntimeError … 1",
    ("timm:leaves", 3): "system: 'timm:leaves' … bye … 3",
}


def test_failing_children_say_why(
    images: NDArray[np.uint8], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "timm.py").write_text(
        "import sys\ndef create_model(name, **options):\n    print('bye')\n    sys.exit(3)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def why(case: tuple[str, int]) -> CheckwiseError | None:
        backbone, channels = case
        with child_processes(backbone, "head") as extract:
            try:
                extract(images[..., :channels])
            except CheckwiseError as error:
                return error
        return None

    with ThreadPoolExecutor(2) as pool:
        errors = dict(zip(FAILING, pool.map(why, FAILING), strict=True))
    wrong = {case: e for case, e in errors.items() if e is None or not said(e, FAILING[case])}
    assert wrong == {}
