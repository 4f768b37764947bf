"""The real benchmarks, where they are at hand: PACS as images, OfficeHome as features."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from checkwise.study.data import open_dataset, open_image_folder, split
from checkwise.study.data.images import decode, scan
from tests.requirements import SHARED, requires

PACS = SHARED / "data" / "PACS"


@requires("shared")
def test_pacs_is_listed_whole() -> None:
    folder = scan(PACS)
    assert folder.domains == ("art_painting", "cartoon", "photo", "sketch")
    assert [len(files) for files in folder.files] == [2048, 2344, 1670, 3929]
    assert folder.classes == ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
    for files, labels in zip(folder.files, folder.labels, strict=True):
        assert list(files) == sorted(files)
        assert [folder.classes[label] for label in labels] == [file.split("/")[1] for file in files]


@requires("shared")
def test_the_split_of_pacs_has_the_check_values() -> None:
    files = scan(PACS).files[0]
    _, out = split(len(files), domain_index=0, trial_seed=0)
    assert (len(out), out[:5].tolist()) == (409, [548, 677, 1997, 977, 1553])


@requires("shared")
def test_a_piece_of_pacs_is_decoded_as_pillow_does(tmp_path: Path) -> None:
    chosen = [files[::400] for files in scan(PACS).files]
    small = tmp_path / "piece"
    common = set.intersection(*({file.split("/")[1] for file in files} for files in chosen))
    for files in chosen:
        for file in files:
            if file.split("/")[1] in common:
                (small / file).parent.mkdir(parents=True, exist_ok=True)
                (small / file).symlink_to(PACS / file)
    data = open_image_folder(small)
    assert data.x[0].shape[1:] == (224, 224, 3)
    for domain, ids in enumerate(data.ids):
        for row, file in enumerate(ids):
            assert np.array_equal(data.x[domain][row], decode((PACS / file).read_bytes(), 224))


@requires("shared")
def test_officehome_features_have_the_known_shape_and_duplicates() -> None:
    path = SHARED / "data" / "officehome_lite0.npz"
    data = open_dataset("Features", path, name="OfficeHome")
    assert data.domains == ("Art", "Clipart", "Product", "Real World")
    assert data.sizes == (2427, 4365, 4439, 4357)
    assert data.num_classes == 65
    assert data.x[0].dtype == np.float16
    for ids, domain in zip(data.ids, data.domains, strict=True):
        assert {name.split("/")[0] for name in ids} == {domain}
    clean = data.without_duplicates()
    assert sum(clean.sizes) == 15588 - 508
    assert clean.without_duplicates() is clean
