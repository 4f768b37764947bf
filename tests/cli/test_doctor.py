"""``checkwise doctor`` names what is missing or too old, and says where things are."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path

import pytest

from checkwise.cli import doctor
from tests.cli.calls import answer, heard, run, said
from tests.requirements import available

NEEDS = ["numpy>=1.26", "scipy>=1.11.1; extra == 'study'", 'absent>=2; extra == "timm"']


@pytest.fixture(autouse=True)
def requirements(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    asked = [*NEEDS]
    monkeypatch.setattr(doctor, "requires", lambda name: asked)
    monkeypatch.setenv("CHECKWISE_CACHE", str(tmp_path / "cache"))
    return asked


def test_what_is_there_and_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "x").write_bytes(b"12345")
    text = said("doctor")
    assert f"numpy {metadata.version('numpy')}" in text
    assert "study  ready" in text
    assert "pip install 'checkwise[timm]'  absent missing" in text
    assert "5 bytes in 1 files" in text
    assert f"set: CHECKWISE_CACHE={tmp_path / 'cache'}" in text
    assert text.splitlines()[-1] == "Everything that checkwise needs is there."


def test_json_says_the_same() -> None:
    found = answer("doctor")
    assert found["fine"] is True
    states = {package["name"]: (package["extra"], package["fine"]) for package in found["packages"]}
    assert states == {"numpy": ("", True), "scipy": ("study", True), "absent": ("timm", False)}


def test_a_package_that_is_too_old_is_wrong(requirements: list[str]) -> None:
    requirements[0] = "numpy>=99"
    assert run("doctor") == 1
    assert f"wrong: numpy {metadata.version('numpy')} (needs 99)" in heard().out


@pytest.mark.parametrize(
    ("installed", "least", "too_old"),
    [
        ("1.9.0", "1.10", True),
        ("2.13.0+cpu", "2.4", False),
        ("3", "3.0.1", True),
        (None, "1", False),
    ],
)
def test_versions_are_compared_as_numbers(installed: str, least: str, too_old: bool) -> None:
    assert doctor.Package("x", "", installed, least).too_old is too_old


@pytest.mark.parametrize(
    ("named", "backends", "ready", "said_of"),
    [
        ("torch", ("torch",), True, ""),
        (None, ("absent", "torch"), False, "set KERAS_BACKEND=torch"),  # Keras takes tensorflow
        (None, ("absent", "away"), False, "absent, away"),
        ("absent", ("torch", "absent"), False, "KERAS_BACKEND is absent"),
        (None, ("torch",), True, ""),  # where the settings of Keras name it
    ],
)
def test_keras_is_ready_only_with_a_backend(
    requirements: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: str | None,
    backends: tuple[str, ...],
    ready: bool,
    said_of: str,
) -> None:
    available("keras", "torch")
    requirements[:] = ["keras>=3.5; extra == 'keras'"]
    monkeypatch.setattr(doctor, "KERAS_BACKENDS", backends, raising=False)
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    if named is not None:
        monkeypatch.setenv("KERAS_BACKEND", named)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    if named is None and ready:
        (tmp_path / "keras.json").write_text('{"backend": "torch"}')
    monkeypatch.setenv("COLUMNS", "200")
    assert run("doctor", "--json") == 0
    assert json.loads(heard().out)["packages"][0]["fine"] is ready
    assert run("doctor") == 0
    line = next(x for x in heard().out.splitlines() if x.startswith("keras"))
    assert ("not ready" not in line) is ready
    assert said_of in line


def test_a_cache_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CHECKWISE_CACHE", str(tmp_path / "file" / "cache"))
    assert run("doctor") == 1
    text = heard().out
    assert "wrong: cache: Expected a cache folder that can be written" in text
    assert "Everything that checkwise needs is there" not in text
    assert run("doctor", "--json") == 1
    assert json.loads(heard().out)["fine"] is False


def test_it_only_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHECKWISE_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = said("doctor")
    assert f"cache: {tmp_path / 'home' / '.cache' / 'checkwise'}, 0 bytes in 0 files" in text
    assert list(tmp_path.iterdir()) == []


def test_a_folder_above_the_cache_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = os.access

    def access(path: Path, mode: int) -> bool:  # root may write anywhere
        return path != tmp_path and may_write(path, mode)

    monkeypatch.setattr(os, "access", access)
    assert run("doctor") == 1
    assert f"but {tmp_path} cannot: make it" in heard().out
