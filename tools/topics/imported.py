"""Import: the cohort that is made of logs or of a table, and what is compared in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ask import Side

INPUTS = {
    "domainbed": ["shared/domainbed-logs/domainbed"],
    "swad": ["shared/domainbed-logs/swad"],
    "table": ["table.csv"],
    "table-held-out": ["table.csv", "--held-out", "sketch", "--role", "development"],
}


def answers(side: Side) -> Iterator[tuple[str, object]]:
    for name, options in INPUTS.items():
        if not Path(options[0]).exists():
            continue
        out = Path("imported") / name
        refused = side.run("import", *options, "--out", out)
        # Logs of DomainBed have accuracies only.
        for rules in ("source-acc,last", "ac-nc,ac-nll,source-acc,last"):
            compared = side.run("compare", out, "--json", "--rules", rules)
            yield f"{name}/{rules}", {"refused": refused, "compared": compared}
        for file in sorted([*out.rglob("*.json"), *out.glob("runs/**/*.jsonl")]):
            yield f"{name}/{file.relative_to(out).with_suffix('')}", side.read(file)
