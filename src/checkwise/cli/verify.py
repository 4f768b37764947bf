"""``checkwise verify``: check a cohort's files, and say what to do about each fault."""

from __future__ import annotations

import json
from dataclasses import asdict

from checkwise.cli import show
from checkwise.cli.options import AsJson
from checkwise.cli.train_options import CohortFolder, steps


def command(path: CohortFolder, as_json: AsJson = False) -> int:
    """Check every file of DIR against its checksum, and that nothing is missing."""
    from checkwise.store.verify import verify

    with steps("verifying") as step:
        faults = verify(path, progress=step)
    if as_json:
        content = {"schema": 1, "faults": [asdict(fault) for fault in faults]}
        print(json.dumps(content, allow_nan=False))
    else:
        out = show.console()
        for fault in faults:
            out.print(f"{fault.run}: {fault.what}: {fault.do}.")
        out.print(f"{len(faults)} fault(s)." if faults else "Everything is as it was written.")
    return 1 if faults else 0
