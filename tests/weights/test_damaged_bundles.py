"""Whatever ``deployed.json`` or ``calibration.json`` hold: one error with a code, or a model.

Files are changed with their digests, as by somebody who means harm, or without.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import checkwise as cw
from checkwise.calibrators import calibrators, fit
from checkwise.deployed import check_out, load
from checkwise.deployed.bundle import CARD, _own_digest, write_bundle
from checkwise.errors import InputError
from checkwise.store import fingerprint_of
from tests.calibrators.drawn import domains
from tests.commands import complaint
from tests.refusals import refused
from tests.weights.deployments import contents, examples, network, train

CODES = {"damaged", "format", "outside", "differs"}
ABSENT = object()
PATHS = ["../secret", "/etc/passwd", "a/../../b", "card.md", "weights.safetensors/", "a\\b", "\0"]
ODD: list[Any] = [
    ABSENT, None, True, False, -1, 0, 1, 3, 2**62, 0.5, -0.5, 1e-320, 1e308, -1e308, "", "T", "1",
    "x" * 300, [], [[]], [1, 2], [None], ["a"], {}, {"a": 1}, {"a": None}, *PATHS,
]  # fmt: skip
RAW = [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b"\xef\xbb\xbf{}", b"[" * 5000, b'{"schema": 1}',
    b'{"schema": NaN}', b'{"schema": 1e999}', b'{"schema": ' + b"9" * 5000 + b"}",
    b'{"schema": 1, "schema": 1}', b'{"schema": "\\ud800"}',
]  # fmt: skip


@pytest.fixture(scope="module")
def predictions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("run"), rows=40)


@pytest.fixture(scope="module")
def bundles(predictions: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("bundles")
    ways: dict[str, dict[str, Any]] = {
        "single": {},
        "ensemble": {"average": "probabilities", "members": 2, "delta_pp": 5},
        "none": {"calibrator": "none"},
    }
    for name, options in ways.items():
        cw.deploy(predictions, place / name, **options)
    return {name: place / name for name in ways}


@pytest.fixture
def model(bundles: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundles["single"], tmp_path / "model"))


def seal(folder: Path, name: str, raw: bytes) -> None:
    """Put a file into a bundle with the digests that make it look as if it had been written so."""
    (folder / name).write_bytes(raw)
    if name != "deployed.json":
        info = json.loads((folder / "deployed.json").read_bytes())
        info["files"][name] = dict(fingerprint_of(raw))
        put(folder, info)


def put(folder: Path, info: Any) -> None:
    info = dict(info)
    if "sha256" in info:
        info["sha256"] = _own_digest(info)
    (folder / "deployed.json").write_text(json.dumps(info))


def use(folder: Path) -> str:
    """What comes of a folder: "model", a code, or the kind of an error that nobody planned."""
    before = contents(folder)
    try:
        deployed = load(folder)
        p = deployed.module(network()).probabilities(examples("art", 4)[0])
        came = "model" if torch.isfinite(p).all() else "probabilities that are none"
    except InputError as error:
        came = error.code if error.code in CODES else f"the code {error.code}: {error}"
    except Exception as error:
        came = f"{type(error).__name__}: {error}"
    try:
        check_out(folder, replace=True)
        allowed = "replaced"
    except InputError as error:
        allowed = error.code
    except Exception as error:
        allowed = f"{type(error).__name__}: {error}"
    if allowed not in ("replaced", "exists"):
        came = f"--force: {allowed}"
    assert contents(folder) == before
    return came


def fine(came: str) -> bool:
    return came == "model" or came in CODES


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Ways to the parts of a JSON value, to the first two of a list or of many alike."""
    if way:
        yield way
    if isinstance(value, dict):
        inner = list(value) if len(way) < 1 or way[0] in ("params", "files") else list(value)[:2]
    else:
        inner = list(range(min(len(value), 2))) if isinstance(value, list) else []
    for name in inner:
        yield from places(value[name], (*way, name))


def changed(value: Any, way: tuple[Any, ...], odd: Any) -> Any:
    """The value with something else at one place."""
    whole = deepcopy(value)
    inner = whole
    for name in way[:-1]:
        inner = inner[name]
    if odd is ABSENT:
        del inner[way[-1]]
    else:
        inner[way[-1]] = odd
    return whole


@pytest.mark.parametrize("kind", ["single", "ensemble", "none"])
def test_deployed_json_with_anything_anywhere(
    bundles: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(bundles[kind], tmp_path / "model"))
    info = json.loads((folder / "deployed.json").read_bytes())
    assert use(folder) == "model"
    bad: dict[object, str] = {}
    tries = 0
    for way in places(info):
        # Other kinds differ in these fields; of the rest some values are enough.
        every = kind == "single" or way[0] in ("kind", "members", "steps", "calibrator", "files")
        for odd in ODD if every else ODD[::5]:
            put(folder, changed(info, way, odd))
            came, tries = use(folder), tries + 1
            if not fine(came):
                bad[way, str(odd)] = came
    for name in PATHS:
        digest = {} if name == CARD else info["files"][CARD]
        for other in ({"members": [name]}, {"files": {**info["files"], name: digest}}):
            put(folder, {**info, **other})
            came, tries = use(folder), tries + 1
            if came not in CODES:
                bad[name, str(other)[:40]] = came
    for raw in RAW:
        seal(folder, "deployed.json", raw)
        came, tries = use(folder), tries + 1
        if came not in CODES:
            bad[raw] = came
    assert not bad, f"{len(bad)} of {tries}"


@pytest.mark.parametrize("calibrator", calibrators())
def test_calibration_json_with_anything_anywhere(model: Path, calibrator: str) -> None:
    content = fit(domains(), calibrator).to_dict()
    assert content["params"]
    info = json.loads((model / "deployed.json").read_bytes())
    put(model, {**info, "calibrator": calibrator})
    seal(model, "calibration.json", json.dumps(content).encode())
    assert use(model) == "model"
    bad: dict[object, str] = {}
    tries = 0
    for way in places(content):
        for odd in ODD:
            seal(model, "calibration.json", json.dumps(changed(content, way, odd)).encode())
            came, tries = use(model), tries + 1
            if not fine(came):
                bad[way, str(odd)] = came
    for raw in RAW:
        seal(model, "calibration.json", raw)
        came, tries = use(model), tries + 1
        if came not in CODES:
            bad[raw] = came
    assert not bad, f"{len(bad)} of {tries}"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(PATHS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["single", "ensemble"]), sealed=st.booleans())
def test_several_places_of_both_files_at_once(
    data: st.DataObject, kind: str, sealed: bool, bundles: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    folder = Path(shutil.copytree(bundles[kind], tmp_path_factory.mktemp("drawn") / "model"))
    for name in data.draw(st.lists(st.sampled_from(["deployed.json", "calibration.json"]))):
        content = json.loads((folder / name).read_bytes())
        ways = sorted(places(content), key=str)
        if not ways or (name == "calibration.json" and "files" not in _info(folder)):
            break
        content = changed(content, data.draw(st.sampled_from(ways)), data.draw(ANYTHING))
        if name == "deployed.json" and sealed:
            put(folder, content)
        elif sealed and isinstance(_info(folder)["files"], dict):
            seal(folder, name, json.dumps(content).encode())
        else:
            (folder / name).write_text(json.dumps(content))
    came = use(folder)
    shutil.rmtree(folder)
    assert fine(came), came


def _info(folder: Path) -> Any:
    return json.loads((folder / "deployed.json").read_bytes())


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "far link"])
@pytest.mark.parametrize("name", ["deployed.json", "calibration.json", "weights.safetensors"])
def test_only_regular_files_of_the_folder_are_read(
    name: str, kind: str, model: Path, tmp_path: Path
) -> None:
    (model / name).rename(tmp_path / name)
    if kind == "folder":
        (model / name).mkdir()
    elif kind == "pipe":
        os.mkfifo(model / name)
    else:
        (model / name).symlink_to(tmp_path / name if kind == "link" else "/dev/zero")
    with pytest.raises(InputError) as error:
        load(model)
    assert error.value.code == "outside"
    assert name in str(error.value)
    with pytest.raises(InputError) as error:
        check_out(model, replace=True)
    assert error.value.code == "exists"


MINE = ["notes.md", ".git/HEAD", ".gitignore", "members/notes.md", "empty/", "weights/.keep"]


@pytest.mark.parametrize("name", MINE)
def test_force_never_replaces_a_folder_that_holds_anything_else(
    predictions: Path, model: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = model / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.mkdir() if name.endswith("/") else mine.write_text("the only copy")
    before = contents(model)
    with pytest.raises(InputError) as error:
        cw.deploy(predictions, model, force=True)
    assert error.value.code == "exists"
    first = name.split("/")[0]
    assert str(model / first) in str(error.value)
    said = complaint(capsys, "deploy", str(predictions), "-o", str(model), "--force")
    assert first in said
    assert contents(model) == before
    assert mine.exists()


@pytest.mark.parametrize("name", ["card.md", "weights.safetensors", "calibration.json"])
@pytest.mark.parametrize("how", ["edited", "gone", "added"])
def test_what_does_not_read_back_is_neither_loaded_nor_replaced(
    predictions: Path, model: Path, name: str, how: str
) -> None:
    file = model / (f"{name}.py" if how == "added" else name)
    file.unlink() if how == "gone" else file.write_text("mine")
    before = contents(model)
    with refused(f"damaged: {file}"):
        load(model)
    with refused(f"exists: {file}"):
        cw.deploy(predictions, model, force=True)
    assert contents(model) == before


def test_only_a_deployed_model_is_ever_replaced(predictions: Path, tmp_path: Path) -> None:
    other, named, link = tmp_path / "other", tmp_path / "named", tmp_path / "link"
    for folder in (other, named):
        folder.mkdir()
        (folder / "thesis.tex").write_text("the only copy")
    (named / "deployed.json").write_text('{"schema": 1, "kind": "single", "files": {}}')
    link.symlink_to(other)
    for place in (other, named, link, predictions, predictions.parent):
        with refused("exists"):
            cw.deploy(predictions, place, force=True)
    assert [(f / "thesis.tex").read_text() for f in (other, named)] == ["the only copy"] * 2


def test_what_is_put_there_during_the_work_is_not_replaced(
    predictions: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(out: Path, *args: Any, **options: Any) -> Any:
        (out / "notes.md").write_text("the only copy")
        return write_bundle(out, *args, **options)

    monkeypatch.setattr("checkwise.deployed.deploying.write_bundle", later)
    with pytest.raises(InputError) as error:
        cw.deploy(predictions, model, force=True)
    assert error.value.code == "exists"
    assert (model / "notes.md").read_text() == "the only copy"
    assert load_without(model, "notes.md")


def load_without(folder: Path, name: str) -> bool:
    (folder / name).unlink()
    return load(folder).calibrator is not None


def test_a_shard_outside_the_folder_is_not_read(model: Path) -> None:
    from checkwise.deployed.bundle import check_shards

    index: dict[str, Any] = {"weight_map": {"a": "model-1.safetensors"}}
    for shard, code in (("../x.safetensors", "outside"), (3, "outside"), (None, "outside")):
        index["weight_map"]["b"] = shard
        raw = json.dumps(index).encode()
        (model / "model").mkdir(exist_ok=True)
        (model / "model" / "model-1.safetensors").write_bytes(b"")
        seal(model, "model/model-1.safetensors", b"")
        seal(model, "model/model.safetensors.index.json", raw)
        with pytest.raises(InputError) as error:
            check_shards(model, _info(model))
        assert error.value.code == code
    for raw in (b"[]", b"{", b'{"weight_map": 3}', b'{"weight_map": []}'):
        seal(model, "model/model.safetensors.index.json", raw)
        with pytest.raises(InputError) as error:
            check_shards(model, _info(model))
        assert error.value.code == "format"
