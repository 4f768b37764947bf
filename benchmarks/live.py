"""Live selection over a long run: records of 100,000 evaluations, a choice every 100."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

import checkwise as cw
from benchmarks.rows import Row, in_turn, show

RECORDS, FIRST, EVERY = 100_000, 1_000, 100


def metrics(random: np.random.Generator, step: int) -> dict[str, dict[str, float]]:
    """A run that improves for ever more slowly; n is 5,000."""
    error = 0.05 + 0.5 / (1 + step / 50) ** 0.5 + 0.004 * random.standard_normal()
    correct = round(5_000 * (1 - min(max(error, 0.01), 0.99)))
    nll = 2 * error + 0.05 * random.random()
    return {"val": {"accuracy": correct / 5_000, "nll": nll, "cwece": nll / 40, "n": 5_000}}


def per_record(records: int) -> list[float]:
    """Processor seconds of a record, in each stretch of the run."""
    random = np.random.default_rng(0)
    live = cw.LiveSelector()
    after, taken = 0, [0.0]
    for step in range(1, records + 1):
        outputs = metrics(random, step)
        start = time.process_time()
        live.add(step, outputs)
        if step % EVERY == 0:
            assert live.choice in live.keep
        after += 1
        taken[-1] += time.process_time() - start
        if after == FIRST:
            taken.append(0.0)
            after = 0
    return [one / FIRST for one in taken if one]


def write(records: int, journal: Path) -> None:
    """The journal of a run."""
    random = np.random.default_rng(0)
    live = cw.LiveSelector(journal=journal)
    for step in range(1, records + 1):
        live.add(step, metrics(random, step))


def opened(records: int, journal: Path) -> None:
    """Go on from a journal."""
    assert len(cw.LiveSelector(journal=journal).steps) == records


def main() -> None:
    per_record(FIRST)
    whole = per_record(RECORDS)
    first = min(per_record(FIRST)[0] for _ in range(5))
    places = [FIRST, 10 * FIRST]
    with tempfile.TemporaryDirectory() as name:
        journals = {n: Path(name) / str(n) / "checkwise.jsonl" for n in places}
        for n, journal in journals.items():
            write(n, journal)
        took = in_turn({str(n): partial(opened, n, journals[n]) for n in places}, rounds=2)
    show(
        [
            Row(
                f"live selection, {RECORDS:,} records, a choice every {EVERY}, per record",
                f"the first {FIRST:,}, per record",
                float(np.median(whole)) / first,
                1.5,
            ),
            Row(
                f"restart from a journal of {10 * FIRST:,} records, per record",
                f"from one of {FIRST:,}",
                took[str(10 * FIRST)] / 10 / took[str(FIRST)],
                1.2,
            ),
        ]
    )


if __name__ == "__main__":
    main()
