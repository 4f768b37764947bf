"""Feature files: what is read, in which order, and what is refused."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from checkwise.study.data import open_features
from tests.refusals import refused

FEATURES = np.arange(24, dtype=np.float32).reshape(6, 4)
LABELS = np.array([0, 1, 2, 0, 1, 2])
DOMAINS = np.array(["b", "a", "b", "a", "b", "a"])


def _save(path: Path, **changes: NDArray[Any] | None) -> Path:
    arrays: dict[str, Any] = {"features": FEATURES, "label": LABELS, "domain": DOMAINS, **changes}
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.npz"


def test_rows_are_grouped_by_domain_in_file_order(path: Path) -> None:
    data = open_features(_save(path))
    assert (data.name, data.kind, data.domains) == ("some", "features", ("a", "b"))
    assert data.classes == ("0", "1", "2")
    assert np.array_equal(data.x[0], FEATURES[[1, 3, 5]])
    assert np.array_equal(data.x[1], FEATURES[[0, 2, 4]])
    assert data.y[0].tolist() == [1, 0, 2]
    assert data.ids[0] == ("row 1", "row 3", "row 5")


def test_the_order_inside_a_domain_is_kept_however_many_rows(path: Path) -> None:
    features = np.arange(3000, dtype=np.float32)[:, np.newaxis]
    domain = np.random.RandomState(0).randint(0, 3, size=3000)
    np.savez(path, features=features, label=domain, domain=domain)
    for index, x in enumerate(open_features(path).x):
        assert np.array_equal(x, features[domain == index])


def test_named_integers_and_file_names_are_used(path: Path) -> None:
    names = np.array([f"{index}.jpg" for index in range(6)])
    data = open_features(
        _save(
            path,
            domain=np.array([1, 0, 1, 0, 1, 0], np.int8),
            domains=np.array(["Art", "Clipart"]),
            classes=np.array(["x", "y", "z", "unused"]),
            filename=names,
        )
    )
    assert data.domains == ("Art", "Clipart")
    assert data.num_classes == 4
    assert data.ids[1] == ("0.jpg", "2.jpg", "4.jpg")


def test_string_labels_become_sorted_classes(path: Path) -> None:
    data = open_features(_save(path, label=np.array(["dog", "cat", "dog", "cat", "cat", "dog"])))
    assert data.classes == ("cat", "dog")
    assert data.y[1].tolist() == [1, 1, 0]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8"])
def test_layout_on_disk_does_not_matter(
    path: Path, order: Any, compressed: bool, dtype: str
) -> None:
    features = np.asarray(FEATURES, dtype=dtype, order=order)
    save = np.savez_compressed if compressed else np.savez
    save(path, features=features, label=LABELS, domain=DOMAINS)
    data = open_features(path)
    assert np.array_equal(np.concatenate(data.x), FEATURES[[1, 3, 5, 0, 2, 4]])
    assert data.x[0].dtype.isnative
    assert data.x[0].dtype.itemsize == min(np.dtype(dtype).itemsize, 4)


def test_activations_of_more_dimensions_keep_their_shape(path: Path) -> None:
    data = open_features(_save(path, features=FEATURES.reshape(6, 2, 2, 1)))
    assert data.x[0].shape == (3, 2, 2, 1)


def test_the_fingerprint_is_of_the_content_not_of_the_file(path: Path, tmp_path: Path) -> None:
    first = open_features(_save(path)).fingerprint
    other = tmp_path / "other.npz"
    np.savez_compressed(other, features=FEATURES, label=LABELS, domain=DOMAINS)
    assert open_features(other).fingerprint == first
    changed = FEATURES.copy()
    changed[2, 2] += 1
    assert open_features(_save(path, features=changed)).fingerprint != first
    assert open_features(_save(path, label=2 - LABELS)).fingerprint != first


def test_the_features_are_never_all_in_memory(path: Path) -> None:
    n = 20_000
    np.savez(
        path,
        features=np.ones((n, 256), np.float32),
        label=np.zeros(n, np.int8),
        domain=np.zeros(n, np.int8),
        filename=np.full(n, "x"),
    )
    tracemalloc.start()
    data = open_features(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.sizes == (n,)
    assert peak < 0.6 * n * 256 * 4


class _Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("something was unpickled",))


@pytest.mark.parametrize("key", ["features", "label", "domain", "filename"])
def test_python_objects_are_refused_and_never_unpickled(path: Path, key: str) -> None:
    _save(path, **{key: np.array([_Trap() for _ in range(6)], dtype=object)})
    with refused("format"):
        open_features(path)


def test_a_pickle_is_refused_and_never_unpickled(path: Path) -> None:
    path.write_bytes(pickle.dumps(_Trap()))
    with refused("format"):
        open_features(path)


def _with(array: NDArray[Any], position: Any, value: Any) -> NDArray[Any]:
    changed = array.copy()
    changed[position] = value
    return changed


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"label": None}, "missing: label"),
        ({"features": None, "domain": None}, "missing: features, domain"),
        ({"label": LABELS[:5]}, "differs: label … 6"),
        ({"label": LABELS.astype(float)}, "format: `label`"),
        ({"label": LABELS - 1}, "format: -1"),
        ({"label": _with(LABELS, 0, 2**40)}, "format: 0 … 1099511627776"),
        ({"domain": _with(np.arange(6), 0, 5_000_000)}, "format: 0 … 5000000"),
        ({"classes": np.array(["x", "y"])}, "format: `label` … 0 … 1 … 2"),
        ({"domains": np.array(["a", "c"])}, "format: 'b'"),
        ({"domains": np.array(["a", "b", "c"])}, "empty: 'c'"),
        ({"features": FEATURES[:, 0]}, "format"),
        ({"features": FEATURES.astype(int)}, "format"),
        ({"features": FEATURES[:, :0]}, "format: non-empty"),
        ({"features": _with(FEATURES, (3, 1), np.nan)}, "format: 3"),
        ({"features": _with(FEATURES, (5, 0), np.inf)}, "format: 5"),
        ({"filename": np.array(["x"])}, "differs: filename"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    path: Path, changes: dict[str, NDArray[Any] | None], match: str
) -> None:
    with refused(match) as caught:
        open_features(_save(path, **changes))
    assert "some.npz" in str(caught.value)


def test_absent_and_truncated_files_are_refused(path: Path, tmp_path: Path) -> None:
    with refused("missing"):
        open_features(path)
    _save(path)
    path.write_bytes(path.read_bytes()[:-40])
    with refused("format"):
        open_features(path)
    np.save(tmp_path / "single.npy", FEATURES)
    with refused("format"):
        open_features(tmp_path / "single.npy")


def test_damage_inside_the_features_is_noticed(path: Path) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(600, 40)).astype(np.float32)
    labels = np.arange(600) % 3
    np.savez_compressed(path, features=features, label=labels, domain=labels)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)
    with refused("format"):
        open_features(path)


def test_domains_come_from_any_column(path: Path) -> None:
    region = np.array([20, 3, 20, 3, 3, 20])
    data = open_features(_save(path, domain=None, region=region), domain_by="region")
    assert data.domains == ("3", "20")
    assert np.array_equal(data.x[0], FEATURES[[1, 3, 4]])
    assert data.y[1].tolist() == LABELS[[0, 2, 5]].tolist()


def test_two_columns_of_one_file_are_cached_apart(path: Path) -> None:
    other = np.array(["x", "x", "x", "y", "y", "y"])
    _save(path, other=other)
    assert np.array_equal(open_features(path).x[0], FEATURES[[1, 3, 5]])
    assert np.array_equal(open_features(path, domain_by="other").x[0], FEATURES[:3])
    assert np.array_equal(open_features(path).x[0], FEATURES[[1, 3, 5]])


def test_groups_follow_their_rows_and_change_the_fingerprint(path: Path) -> None:
    sites = np.array(["s2", "s1", "s2", "s1", "s3", "s4"])
    data = open_features(_save(path, site=sites), groups="site")
    assert data.group_names == ("s1", "s2", "s3", "s4")
    assert [part.tolist() for part in data.groups] == [[0, 0, 3], [1, 1, 2]]
    assert data.fingerprint != open_features(path).fingerprint
    _save(path, site=np.array(["s2", "s1", "s3", "s1", "s3", "s4"]))
    assert data.fingerprint != open_features(path, groups="site").fingerprint


def test_a_group_in_two_domains_is_refused(path: Path) -> None:
    _save(path, site=np.array(["s1", "s1", "s2", "s2", "s3", "s4"]))
    with refused("format: 's1' … `site` … 'a' … 'b'"):
        open_features(path, groups="site")


@pytest.mark.parametrize(
    ("site", "message"),
    [
        (None, "missing: site"),
        (np.arange(6.0), "format: `site` … float64"),
        (np.array(["s", "", "s", "s", "s", "s"]), "format: `site`"),
        (np.arange(5), "differs: site … 6"),
    ],
)
def test_a_column_that_does_not_fit_is_named(
    path: Path, site: NDArray[Any] | None, message: str
) -> None:
    _save(path, site=site)
    with refused(message):
        open_features(path, groups="site")


@pytest.mark.parametrize(
    ("one", "other"), [("North", "north"), ("Site 1", "Site1"), ("é", "e\u0301")]
)
def test_domains_that_selection_would_confuse_are_refused(path: Path, one: str, other: str) -> None:
    domain = np.array([one, other, "south"] * 2)
    with refused("ambiguous"):
        open_features(_save(path, domain=domain))
