"""``checkwise study pack`` and ``unpack``: a study's journals in one small file."""

from __future__ import annotations

from pathlib import Path

from checkwise.cli import printing
from checkwise.cli.command import argument, command
from checkwise.cli.options import force_option, out_option
from checkwise.cli.places import check_file
from checkwise.study.folder import SUFFIX, pack, unpack


@command("pack")
@argument("cohort", metavar="STUDY")
@out_option.but(required=True, help="The file to write, .tar.xz.")
@force_option
def pack_command(cohort: Path, out: Path, force: bool) -> None:
    """Put the journals of STUDY into one file, without weights and predictions."""
    check_file(out, cohort, kinds=(SUFFIX,), replace=force)
    runs = pack(cohort, out)
    size = out.stat().st_size / 1e6
    printing.say(f"{runs} runs packed into {out} ({size:.2f} MB).")


@command("unpack")
@argument("file")
@out_option.but(required=True, help="The folder to make.")
def unpack_command(file: Path, out: Path) -> None:
    """Make a folder of FILE, a packed study: select, compare and report work on it."""
    unpack(file, out)
    printing.say(f"Unpacked into {out}.")
