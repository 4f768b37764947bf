"""Every row of docs/speed.md: ``make bench``, or ``python -m benchmarks GROUP…`` for some.

Each group runs in a process of its own, on a machine that should be quiet. Rows are kept in
docs/speed.csv, from which the table of the page is filled.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

from benchmarks.rows import Row
from studies.page import fill

GROUPS = (
    "start",
    "metrics",
    "stability",
    "live",
    "readers",
    "loading",
    "event_files",
    "study",
    "pages",
    "updates",
    "lightning_callback",
)
DOCS = Path(__file__).parents[1] / "docs"
TABLE, PAGE = DOCS / "speed.csv", DOCS / "speed.md"
HEAD = ("group", "work", "against", "value", "aim", "at_least", "unit", "machine", "date")


def machine() -> str:
    """The processor, how many of them, and the Python."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"


def known() -> dict[str, list[dict[str, str]]]:
    """The rows of every group, as they were last measured."""
    found: dict[str, list[dict[str, str]]] = {}
    with TABLE.open(newline="") as file:
        for entry in csv.DictReader(file):
            found.setdefault(entry["group"], []).append(entry)
    return found


def row_of(entry: dict[str, str]) -> Row:
    value, aim = float(entry["value"]), float(entry["aim"])
    at_least = entry["at_least"] == "True"
    return Row(entry["work"], entry["against"], value, aim, at_least, entry["unit"])


def table(rows: list[dict[str, str]]) -> str:
    """As markdown, under the machines on which the rows were measured."""
    head = "| work | against | aim | here |\n|---|---|---:|---:|\n"
    lines = [f"| {' | '.join(row_of(entry).cells())} |" for entry in rows]
    days = sorted({entry["date"] for entry in rows})
    machines = "; ".join(sorted({entry["machine"] for entry in rows}))
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"{machines}; {when}.\n\n{head}" + "\n".join(lines)


def main(asked: list[str]) -> int:
    found = known() if TABLE.exists() else {}
    failed = []
    for group in asked or GROUPS:
        command = [sys.executable, "-m", f"benchmarks.{group}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        rows = [Row(**json.loads(line)) for line in done.stdout.splitlines()]
        for row in rows:
            print(" | ".join(row.cells()), flush=True)
        failed += [group] * (done.returncode != 0 or any(row.missed for row in rows))
        of_run = {"group": group, "machine": machine(), "date": str(date.today())}
        found[group] = [{**{n: str(v) for n, v in vars(row).items()}, **of_run} for row in rows]
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, HEAD, lineterminator="\n")
        writer.writeheader()
        every = [entry for group in GROUPS for entry in found.get(group, [])]
        writer.writerows(every)
    fill(PAGE, "speed", table(every))
    if failed:
        print(f"missed an aim or failed: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
