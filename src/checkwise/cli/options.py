"""Options that every command spells the same."""

from __future__ import annotations

from typing import Annotated

import typer

HeldOut = Annotated[
    list[str] | None, typer.Option(help="A domain that must not be read; repeatable.")
]
Source = Annotated[
    list[str] | None,
    typer.Option(help="A validation set whose name looks held out (test, ood, …); repeatable."),
]
Column = Annotated[
    list[str] | None,
    typer.Option(help="NAME=COLUMN: the column of a table to read as NAME; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
