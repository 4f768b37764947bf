"""Every benchmark, one after the other, each in a process of its own.

Run with ``make bench`` on a quiet machine: all figures are ratios measured in the same run.
"""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    "metrics",
    "selection",
    "stability",
    "live_predictions",
    "pruning",
    "loading",
    "event_files",
    "log_files",
    "data",
    "updates",
    "training",
    "averaging",
    "deploy",
    "study",
    "engines",
    "report_page",
    "large_cohorts",
    "transformers_callback",
    "lightning_callback",
)


def main() -> int:
    failed = []
    for name in NAMES:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode:
            failed.append(name)
    if failed:
        print(f"\nmissed a target or failed: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
