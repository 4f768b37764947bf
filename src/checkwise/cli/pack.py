"""``checkwise study pack`` and ``unpack``: a study's journals in one small file."""

from __future__ import annotations

from pathlib import Path

from checkwise.cli import printing
from checkwise.cli.command import argument, command
from checkwise.cli.options import force_option, out_option
from checkwise.errors import InputError
from checkwise.study.folder import SUFFIX, pack, unpack


@command("pack")
@argument("cohort", metavar="STUDY")
@out_option.but(required=True, help="The file to write, .tar.xz.")
@force_option
def pack_command(cohort: Path, out: Path, force: bool) -> None:
    """Put the journals of STUDY into one file, without weights and predictions."""
    if not out.name.endswith(SUFFIX):
        raise InputError(f"Expected -o to end in {SUFFIX}, but got {str(out)!r}.")
    printing.refuse_to_overwrite(cohort, out)
    if out.exists() and not force:
        raise InputError(
            f"{out} exists already: choose another name or add --force.", code="exists"
        )
    runs = pack(cohort, out)
    size = out.stat().st_size / 1e6
    printing.console().print(f"{runs} runs packed into {out} ({size:.2f} MB).")


@command("unpack")
@argument("file")
@out_option.but(required=True, help="The folder to make.")
def unpack_command(file: Path, out: Path) -> None:
    """Make a folder of FILE, a packed study: select, compare and report work on it."""
    unpack(file, out)
    printing.console().print(f"Unpacked into {out}.")
