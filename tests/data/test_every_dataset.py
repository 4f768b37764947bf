"""Opening data sets by name, and the contract every one of them keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checkwise.errors import InputError
from checkwise.study.data import (
    DATASETS,
    DomainDataset,
    dataset_names,
    domain_names,
    open_dataset,
    split,
)
from tests.refusals import refused


def _open(name: str, folder: Path) -> DomainDataset:
    if name.endswith("MNIST"):
        return open_dataset(name)
    if name == "Features":
        path = folder.parent / "some.npz"
        labels = np.arange(20) % 2
        np.savez(path, features=np.eye(20, dtype=np.float32), label=labels, domain=labels)
        return open_dataset(name, path)
    return open_dataset(name, folder, size=8)


@pytest.mark.parametrize("name", dataset_names())
def test_every_registered_data_set_keeps_the_contract(name: str, folder: Path) -> None:
    data = _open(name, folder)
    assert len(data.domains) >= 2
    assert len(data.fingerprint) == 64
    assert _open(name, folder).fingerprint == data.fingerprint
    for domain, n in enumerate(data.sizes):
        inside, out = split(n, domain_index=domain, trial_seed=0)
        assert len(data.rows(domain, inside)) + len(data.rows(domain, out)) == n
        assert not data.x[domain].flags.writeable
        assert set(data.y[domain].tolist()) <= set(range(data.num_classes))


@pytest.mark.parametrize("name", dataset_names())
def test_domains_are_named_without_reading_examples(
    name: str, folder: Path, own_cache: Path
) -> None:
    root = None if name.endswith("MNIST") else folder
    if name == "Features":
        root = folder.parent / "some.npz"
        kinds = np.array(["late", "early"] * 10)
        features = np.eye(20, dtype=np.float32)
        np.savez(root, features=features, label=np.arange(20) % 2, domain=kinds)
    found = domain_names(name, root)
    assert not own_cache.exists()
    options = {} if name.endswith("MNIST") or name == "Features" else {"size": 8}
    assert found == open_dataset(name, root, **options).domains


def test_domains_are_found_where_the_data_are(folder: Path) -> None:
    folder.rename(folder.with_name("office_home"))
    assert domain_names("OfficeHome", folder.parent) == ("photo", "sketch")
    with refused("missing"):
        domain_names("PACS", folder)
    with refused("unknown: 'pacs'"):
        domain_names("pacs", folder)


def test_a_benchmark_has_its_name_and_is_found_inside_a_data_folder(folder: Path) -> None:
    assert open_dataset("VLCS", folder, size=8).name == "VLCS"
    folder.rename(folder.with_name("office_home"))
    assert open_dataset("OfficeHome", folder.parent, size=8).name == "OfficeHome"


def test_an_unknown_name_lists_what_exists() -> None:
    with pytest.raises(InputError) as caught:
        open_dataset("pacs", "/data")
    assert all(name in str(caught.value) for name in DATASETS)
