"""Tests that lack something skip, or fail where it was promised."""

from __future__ import annotations

import pytest

from tests.requirements import requires


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
    with pytest.raises(ValueError, match="shared, chromium, node, slurm"):
        requires("gpu", False, "no gpu")
    with pytest.raises(ValueError, match="present"):
        requires("slurm")
