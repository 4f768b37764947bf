"""What keeping predictions costs in live selection: bytes in all, and seconds for each record.

OfficeHome size: 51 records of 3 × 900 examples and 65 classes. Every way is timed in turn, so that
a busy machine slows all of them alike.

Run with ``python -m benchmarks.live_predictions`` on a quiet machine.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import checkwise as cw
from benchmarks.stability import predictions

EXAMPLES, CLASSES, DOMAINS = 900, 65, 3
WAYS: dict[str, dict[str, Any]] = {
    "journal alone": {},
    "predictions": {"predictions": True},
    "predictions and calibrator": {"calibrator": "ts-soften"},
}
LARGEST_MB, LONGEST = 21.0, 0.1  # of the files, and of keeping one record


def main() -> int:
    made = predictions(EXAMPLES, CLASSES)
    first = next(iter(made.values()))
    cw.LiveSelector().add(0, first)  # compiles
    wall: dict[str, list[float]] = {name: [] for name in WAYS}
    busy: dict[str, list[float]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        places = {name: Path(folder, str(i)) for i, name in enumerate(WAYS)}
        lives = {
            name: cw.LiveSelector(journal=places[name] / "checkwise.jsonl", **options)
            for name, options in WAYS.items()
        }
        for step, outputs in made.items():
            for name, live in lives.items():
                start, used = time.perf_counter(), time.process_time()
                live.add(step, outputs)
                wall[name].append(time.perf_counter() - start)
                busy[name].append(time.process_time() - used)
        files = list((places["predictions"] / "predictions").rglob("*.npz"))
        size = sum(file.stat().st_size for file in files) / 1e6
        logits = len(made) * DOMAINS * EXAMPLES * CLASSES * 2 / 1e6
        choices = {live.choice for live in lives.values()}
    print(f"{len(made)} records: {size:.1f} MB in {len(files)} files, {logits:.1f} MB of it logits")
    for name in WAYS:
        took, spent = sorted(wall[name]), sorted(busy[name])
        middle_ms, used_ms = 1000 * took[len(took) // 2], 1000 * spent[len(spent) // 2]
        print(
            f"  {name}: {middle_ms:.0f} ms a record (median; {used_ms:.0f} ms of processor time, "
            f"most {1000 * took[-1]:.0f} ms)"
        )
    middle = [sorted(busy[name])[len(made) // 2] for name in ("journal alone", "predictions")]
    return int(len(choices) != 1 or size > LARGEST_MB or middle[1] - middle[0] > LONGEST)


if __name__ == "__main__":
    sys.exit(main())
