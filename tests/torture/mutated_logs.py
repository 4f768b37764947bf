"""Read 10,000 damaged logs; every one has to give an answer or a clear refusal.

python -m tests.torture.mutated_logs [HOW_MANY [FIRST]] [--more]

``--more`` takes the kinds of ``material/more`` alone. Each is a number: the same number makes the
same log. A process that reads them may use two
gigabytes more than it starts with, and 20 seconds for a log.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from checkwise.errors import CheckwiseWarning
from tests.readers.logs.mutations import damaged, kind, more_seeds, seeds
from tests.readers.logs.outcomes import outcome

HOW_MANY = 10_000
MEMORY = 2 << 30  # bytes that reading may add
AT_ONCE = 2  # processes
OF_ONE_TASK = 50


def _size() -> int:
    """Bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def read_some(numbers: range, more: bool) -> tuple[list[tuple[int, str, str]], int]:
    """Number, kind and outcome of each, and the peak of this process's memory in kilobytes."""
    outcome(Path(__file__).parents[1] / "readers" / "logs" / "real" / "keras")  # imports everything
    resource.setrlimit(resource.RLIMIT_AS, (_size() + MEMORY, resource.RLIM_INFINITY))
    warnings.simplefilter("error")
    warnings.simplefilter("default", CheckwiseWarning)
    every = more_seeds() if more else seeds()
    results = []
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            path = damaged(number, Path(folder), every)
            results.append((number, kind(every[number % len(every)]), outcome(path)))
    return results, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> int:
    more = "--more" in sys.argv
    arguments = [int(word) for word in sys.argv[1:] if word != "--more"]
    how_many = arguments[0] if arguments else HOW_MANY
    first = arguments[1] if len(arguments) > 1 else 0
    parts = [
        range(begin, min(begin + OF_ONE_TASK, first + how_many))
        for begin in range(first, first + how_many, OF_ONE_TASK)
    ]
    counts: Counter[tuple[str, str]] = Counter()
    wrong: list[tuple[int, str]] = []
    peak = 0
    with ProcessPoolExecutor(AT_ONCE, get_context("spawn")) as pool:
        for results, memory in pool.map(partial(read_some, more=more), parts):
            peak = max(peak, memory)
            for number, of_kind, result in results:
                fair = result in ("answer", "refused")
                counts[of_kind, result if fair else "wrong"] += 1
                if not fair:
                    wrong.append((number, result))
    alike: dict[str, list[int]] = {}
    for number, result in wrong:
        alike.setdefault("\n".join(result.splitlines()[-6:]), []).append(number)
    for result, numbers in alike.items():
        print(f"{len(numbers)} logs, the first {numbers[:5]}:\n{result}\n")
    for of_kind in [*sorted({name for name, _ in counts}), "all"]:
        numbers = [
            sum(n for (name, r), n in counts.items() if r == result and of_kind in (name, "all"))
            for result in ("answer", "refused", "wrong")
        ]
        print(f"{of_kind:10} {numbers[0]:6,} answers {numbers[1]:6,} refused {numbers[2]:6,} wrong")
    print(f"a process needed at most {peak / 1024:.0f} MB")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
