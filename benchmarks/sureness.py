"""How long it takes to say how sure a choice is, by tolerance and by suffix.

``--sure`` draws the examples 1,000 times, and up to 800 times more of them. Rules that draw
examples themselves are drawn 100 times; here 10 of these are timed.

Run with ``python -m benchmarks.sureness`` on a quiet machine.
"""

from __future__ import annotations

import time

import checkwise as cw
from benchmarks.stability import SIZES, predictions
from checkwise.selection.stability import NESTED_DRAWS
from checkwise.selection.tolerances import TOLERANCES

NESTED = ("ac-nc-stable", "ac-nc-one-se", "ac-nc-abstain", "ac-nc-crossfit")
TIMED = 10


def main() -> None:
    for size, (n, classes, *_) in SIZES.items():
        run = cw.Trajectory.from_predictions(predictions(n, classes))
        cw.select(run, guard=False).stability(100)  # compiles
        for name in TOLERANCES:
            chosen = cw.select(run, "ac-nc", guard=False, tolerance=name)
            start = time.perf_counter()
            chosen.sureness.as_dict()
            print(f"{size}, {name}: {time.perf_counter() - start:.1f} s", flush=True)
        for rule in NESTED:
            chosen = cw.select(run, rule, guard=False)
            start = time.perf_counter()
            chosen.stability(TIMED)
            each = (time.perf_counter() - start) / TIMED
            print(f"{size}, {rule}: {each * NESTED_DRAWS:.0f} s for {NESTED_DRAWS}", flush=True)


if __name__ == "__main__":
    main()
