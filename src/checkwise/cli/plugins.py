"""Rules, metrics and algorithms of one's own on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from checkwise.plugins import Plugin, load_plugin

Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", help="A Python file or module with rules or metrics of your own."),
]
TrainingPlugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        help="A Python file or module with algorithms or metrics of your own; repeatable.",
    ),
]


def load_plugins(names: list[str] | None) -> tuple[Plugin, ...]:
    """Import files or modules whose decorators register what is in them."""
    return tuple(load_plugin(name) for name in names or ())
