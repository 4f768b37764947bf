"""An option that several commands have is the same option in each of them."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from checkwise.cli import app


def options(command: str) -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return {option.opts[0]: option for option in group.commands[command].params}


SHARED = ("--executor", "--workers", "--data", "--algorithm", "--hparams-seed", "--trial-seed")


@pytest.mark.parametrize("name", [*SHARED, "--dry-run"])
def test_sweep_and_lodo_share_their_options(name: str) -> None:
    one, other = options("sweep")[name], options("lodo")[name]
    assert (one.help, one.multiple, one.default) == (other.help, other.multiple, other.default)


def test_json_is_asked_for_in_one_way() -> None:
    group: Any = typer.main.get_command(app)
    asked = [options(name)["--json"] for name in group.commands if "--json" in options(name)]
    assert len(asked) >= 10
    assert {(option.help, option.is_flag) for option in asked} == {
        ("Print JSON for machines.", True)
    }
