"""Reading a Lightning log of 200,000 sparse rows, against pandas.read_csv of the same file.

Run: ``python -m benchmarks.log_files``
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS, EVERY, ROUNDS, TARGET_SECONDS = 200_000, 50, 3, 5.0
PANDAS, CHECKWISE = "pandas.read_csv", "load"


def write_log(path: Path) -> int:
    """Training on most rows, validation on every 50th, as CSVLogger writes them; its bytes."""
    with path.open("w") as log:
        log.write("epoch,lr-Adam,step,train_acc,train_loss,val_acc,val_loss\n")
        for row in range(ROWS):
            epoch = row // 1000
            if row % EVERY == EVERY - 1:
                accuracy = 0.9 - 0.5 / (1 + row / 9973) + row % 7 / 1000
                log.write(f"{epoch},,{row},,,{accuracy},{2 - accuracy + row % 11 / 100}\n")
            else:
                log.write(f"{epoch},0.001,{row},{row % 997 / 997},{1 / (1 + row)},,\n")
    return path.stat().st_size


def read(reader: str, path: Path) -> int:
    """Evaluations that a reader finds."""
    if reader == PANDAS:
        import pandas as pd

        return len(pd.read_csv(path).dropna(subset=["val_acc", "val_loss"]))
    import checkwise as cw

    return len(cw.load(path))


def measure(reader: str, path: Path) -> tuple[float, float]:
    """Least processor seconds of a few rounds, and megabytes that the peak of memory rose by."""
    code = (
        "import sys; from pathlib import Path; from benchmarks.log_files import one_process; "
        "one_process(*sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, reader, str(path)]
    seconds, megabytes = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.split()
    return float(seconds), float(megabytes)


def one_process(reader: str, path: str) -> None:
    """Print what :func:`measure` returns; a process of its own has a peak of its own."""
    small = Path(path).with_name("small.csv")
    read(reader, small)  # imports everything
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        assert read(reader, Path(path)) == ROWS // EVERY
        times.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(min(times), (peak - before) / 1024)


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "metrics.csv"
        size = write_log(path)
        lines = path.read_text().splitlines(keepends=True)
        path.with_name("small.csv").write_text("".join(lines[: 4 * EVERY]))
        print(f"{ROWS:,} rows, {size / 1e6:.1f} MB, {ROWS // EVERY:,} evaluations")
        parsed, parsed_memory = measure(PANDAS, path)
        loaded, loaded_memory = measure(CHECKWISE, path)
    print(f"{PANDAS:16} {parsed:6.2f} s  {parsed_memory:6.0f} MB more at its peak")
    print(f"{CHECKWISE:16} {loaded:6.2f} s  {loaded_memory:6.0f} MB  ({loaded / parsed:.1f}x)")
    verdict = "ok" if loaded < TARGET_SECONDS else "TOO SLOW"
    print(f"target           {TARGET_SECONDS:6.2f} s  {verdict}")
    return loaded >= TARGET_SECONDS


if __name__ == "__main__":
    sys.exit(main())
