"""``checkwise verify``: check a cohort's files, and say what to do about each fault."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from checkwise.cli import printing
from checkwise.cli.json_output import print_json
from checkwise.cli.options import AsJson
from checkwise.cli.progress import counting
from checkwise.text import counted

if TYPE_CHECKING:
    from checkwise.study.registered import Registered


def command(
    path: Annotated[Path, typer.Argument(metavar="DIR", help="A cohort, or one run of it.")],
    registered: Annotated[
        str | None,
        typer.Option(
            metavar="DIGEST",
            help="Also check that the log still holds the registration with this digest, before "
            "held-out results were opened.",
        ),
    ] = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin",
            help="Also check that this file or module is the one that runs were trained with; "
            "repeatable.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check every file of DIR against its checksum, and that nothing is missing."""
    from checkwise.store.verify import unsigned, verify, verify_plugins
    from checkwise.study.registered import registered_as

    asked = None if registered is None else registered_as(path, registered)
    with counting("verifying") as step:
        faults = verify(path, progress=step)
    changed, notes = verify_plugins(path, plugin or ())
    faults, notes = [*faults, *changed], [*unsigned(path), *notes]
    if as_json:
        content = {"schema": 1, "faults": [asdict(fault) for fault in faults]}
        if asked is not None:
            content["registered"] = {"digest": registered, "rule": asked[0], **asdict(asked[1])}
        print_json("verify", content)
    else:
        out = printing.console()
        for fault in faults:
            out.print(f"{fault.run}: {fault.what}: {fault.do}.")
        for note in notes:
            out.print(note)
        out.print(
            f"{counted(len(faults), 'fault')}." if faults else "Everything is as it was written."
        )
        if asked is not None:
            out.print(f"{registered}: {_said(*asked)}")
    late = asked is not None and asked[1].state != "before"
    return 1 if faults or late else 0


def _said(rule: str, registration: Registered) -> str:
    if registration.state == "none":
        return (
            "no registration in the log has this digest: the log was written anew, or the digest "
            "is that of another cohort. Look for a copy of the log."
        )
    return f"{rule} {registration}" if rule else str(registration)
