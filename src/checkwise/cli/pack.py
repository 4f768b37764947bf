"""``checkwise pack`` and ``checkwise unpack``: a cohort's journals in one small file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import printing
from checkwise.errors import InputError
from checkwise.store import pack as packing
from checkwise.store import unpack as unpacking


def pack(
    cohort: Annotated[Path, typer.Argument(help="A finished cohort.")],
    output: Annotated[
        Path,
        typer.Option("--output", "--out", "-o", help="The file to write, .tar.xz."),
    ],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Put the journals of COHORT into one file, without weights and predictions."""
    if not output.name.endswith(packing.SUFFIX):
        raise InputError(f"Expected -o to end in {packing.SUFFIX}, but got {str(output)!r}.")
    printing.refuse_to_overwrite(cohort, output)
    if output.exists() and not force:
        raise InputError(
            f"{output} exists already: choose another name or add --force.", code="exists"
        )
    runs = packing.pack(cohort, output)
    size = output.stat().st_size / 1e6
    printing.console().print(f"{runs} runs packed into {output} ({size:.2f} MB).")


def unpack(
    file: Annotated[Path, typer.Argument(help="A file made by `checkwise pack`.")],
    out: Annotated[
        Path,
        typer.Option("--out", "--output", "-o", help="The cohort's folder to make."),
    ],
) -> None:
    """Make a cohort's folder from a packed one: select, compare, tables and report work on it."""
    unpacking.unpack(file, out)
    printing.console().print(f"Unpacked into {out}.")
