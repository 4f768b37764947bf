"""Tests that lack something skip, or fail where it was promised."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.requirements import available, package, requires


def test_what_is_there_runs() -> None:
    assert requires("slurm", True, "no slurm").args == (False,)


def test_what_is_absent_skips_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHECKWISE_REQUIRE", raising=False)
    mark = requires("chromium", False, "no browser here")
    assert (mark.name, mark.args) == ("skipif", (True,))
    assert mark.kwargs == {"reason": "no browser here"}


def test_what_was_promised_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKWISE_REQUIRE", "shared,chromium")
    mark = requires("chromium", False, "no browser here")
    assert mark.name == "usefixtures"
    assert "no browser here" in mark.args[0]
    assert requires("slurm", False, "no slurm").name == "skipif"


def test_only_known_names_are_taken() -> None:
    with pytest.raises(ValueError, match="shared, chromium, node, slurm, ray, packages"):
        requires("gpu", False, "no gpu")
    with pytest.raises(ValueError, match="present"):
        requires("slurm")


def test_a_package_that_is_missing_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHECKWISE_REQUIRE", raising=False)
    assert package("json.decoder").__name__ == "json.decoder"
    with pytest.raises(pytest.skip.Exception, match="no_such_package is not installed"):
        available("json", "no_such_package")


@pytest.mark.parametrize("promise", ["packages", "no_such_package"])
def test_a_package_that_was_promised_fails(monkeypatch: pytest.MonkeyPatch, promise: str) -> None:
    monkeypatch.setenv("CHECKWISE_REQUIRE", f"shared,{promise}")
    with pytest.raises(pytest.fail.Exception, match=rf"\(CHECKWISE_REQUIRE lists {promise}\)"):
        package("no_such_package.part")


def test_only_packages_that_dev_leaves_out_are_skipped_without_a_word() -> None:
    skip = re.compile(r"importor" + r"skip\(\"(\w+)")
    tests = Path(__file__).parent.rglob("*.py")
    skipped = {name for path in tests for name in skip.findall(path.read_text())}
    assert skipped <= {"timm", "submitit", "onnx", "onnxscript", "onnxruntime"}
