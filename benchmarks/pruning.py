"""A million random runs, pruned while they grow: how often does that change the choice?

Run with ``python -m benchmarks.pruning``.
"""

from __future__ import annotations

import sys
import time

from tests.selection.sequences import disagreements

RUNS, AT_ONCE = 1_000_000, 20_000


def main() -> int:
    start = time.perf_counter()
    wrong = sum(disagreements(AT_ONCE, seed) for seed in range(RUNS // AT_ONCE))
    seconds = time.perf_counter() - start
    print(f"{RUNS:,} random runs in {seconds:.0f} s: pruning changes {wrong} choices")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
