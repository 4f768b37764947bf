"""Reading logs: in time that grows as they do, and in memory that does not.

Each log is read in a process of its own, whose peak of memory is its own as well.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.rows import Row, in_turn, show

ROWS, EVERY = 17_500, 50  # a megabyte
TIMES, ROUNDS = 100, 3


def write_rows(path: Path, rows: int) -> None:
    """Training on most rows, validation on every 50th, as Lightning writes them."""
    with path.open("w") as log:
        log.write("epoch,lr-Adam,step,train_acc,train_loss,val_acc,val_loss\n")
        for row in range(rows):
            epoch = row // 1000
            if row % EVERY == EVERY - 1:
                accuracy = 0.9 - 0.5 / (1 + row / 9973) + row % 7 / 1000
                log.write(f"{epoch},,{row},,,{accuracy},{2 - accuracy + row % 11 / 100}\n")
            else:
                log.write(f"{epoch},0.001,{row},{row % 997 / 997},{1 / (1 + row)},,\n")


def write_columns(path: Path, columns: int) -> None:
    """Accuracy and loss on one set, and columns of other things."""
    names = [f"layer{number}/grad_norm" for number in range(columns)]
    with path.open("w") as log:
        log.write(",".join(["epoch", "val_acc", "val_loss", *names]) + "\n")
        for row in range(50):
            cells = [f"{row}", f"{0.9 - 0.5 / (1 + row):.4f}", f"{0.4 + 0.5 / (1 + row):.4f}"]
            log.write(",".join([*cells, *["0.125"] * columns]) + "\n")


def write_sets(path: Path, sets: int) -> None:
    """A table of accuracy and loss on many sets."""
    with path.open("w") as table:
        table.write("step,domain,accuracy,nll\n")
        for step in range(50):
            pair = f"{0.9 - 0.5 / (1 + step):.4f},{0.4 + 0.5 / (1 + step):.4f}"
            table.writelines(f"{step},site{number},{pair}\n" for number in range(sets))


KINDS = {"rows": (write_rows, ROWS), "columns": (write_columns, 200), "sets": (write_sets, 40)}


def measured(path: Path) -> tuple[float, float]:
    """Processor seconds, and megabytes that the peak of memory rose by."""
    command = [sys.executable, "-m", "benchmarks.readers", str(path)]
    seconds, megabytes = subprocess.check_output(command, text=True).split()
    return float(seconds), float(megabytes)


def one_process(path: Path) -> None:
    """Print what :func:`measured` returns."""
    import checkwise as cw

    cw.load(path.with_name("first.csv"))  # imports everything
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rounds = ROUNDS if path.stat().st_size < 1e7 else 1
    took = in_turn({"load": lambda: cw.load(path)}, rounds=rounds)["load"]
    print(took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "first.csv", 4 * EVERY)
        for kind, (write, size) in KINDS.items():
            times = TIMES if kind == "rows" else 10
            small, large = folder / "small.csv", folder / "large.csv"
            write(small, size)
            write(large, times * size)
            (before, _), (after, memory) = measured(small), measured(large)
            rows.append(
                Row(
                    f"a log of {times * size:,} {kind} ({large.stat().st_size / 1e6:.0f} MB), "
                    f"per {kind.removesuffix('s')}",
                    f"a log of {size:,} {kind}",
                    after / times / before,
                    1.2,
                )
            )
            if kind == "rows":
                rows.append(Row("memory to read it", "–", memory, 50, unit="MB"))
    show(rows)


if __name__ == "__main__":
    if sys.argv[1:]:
        one_process(Path(sys.argv[1]))
    else:
        main()
