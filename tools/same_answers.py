"""Compare the answers of two commits: journals, selections, comparisons, tables, metrics.

    python tools/same_answers.py BEFORE [AFTER]

AFTER is the working tree unless a commit is named. The exit code is 1 if any answer differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from differences import Allowance, Difference, compare_folders
from sides import Side, answers

SHOWN = 20


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", nargs="?", help="a commit [default: the working tree]")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        help="largest difference of decimal numbers; steps stay exact [default: 0, every byte]",
    )
    parser.add_argument(
        "--reworded",
        action="store_true",
        help="sentences may use other words; the numbers in them are compared",
    )
    parser.add_argument("--keep", type=Path, help="folder for the answers of commits, used again")
    parser.add_argument("--shared", type=Path, help="folder with domainbed-logs and real-logs")
    return parser.parse_args(arguments)


def table(before: Path, differences: dict[str, list[Difference]]) -> str:
    """One row a kind of answer. A refusal on both sides counts as an answer."""
    answers_of, refused, differ = Counter[str](), Counter[str](), Counter[str]()
    for file, changes in differences.items():
        kind = Path(file).parts[0]
        answers_of[kind] += 1
        differ[kind] += bool(changes)
        old = before / file
        refused[kind] += old.exists() and old.read_bytes().startswith(b'{"exit"')
    rows = [f"{'':10} {'answers':>8} {'refused':>8} {'differ':>8}"]
    for kind, count in sorted(answers_of.items()):
        rows.append(f"{kind:10} {count:8} {refused[kind]:8} {differ[kind]:8}")
    return "\n".join(rows)


def main() -> int:
    options = parse()
    sides = [Side.named(options.before), Side.named(options.after)]
    with tempfile.TemporaryDirectory(prefix="same-answers-") as temporary:
        before, after = (
            answers(
                side,
                folder=Path(temporary).resolve() / name,
                shared=options.shared,
                keep=options.keep,
            )
            for name, side in zip(("before", "after"), sides, strict=True)
        )
        allowed = Allowance(tolerance=options.tolerance, reworded=options.reworded)
        differences = compare_folders(before, after, allowed)
        print(f"\n{table(before, differences)}\n")
    first = [changes[0] for changes in differences.values() if changes]
    for difference in first[:SHOWN]:
        print(difference)
    if len(first) > SHOWN:
        print(f"… and {len(first) - SHOWN} more files")
    print("Different." if first else "The same.")
    return 1 if first else 0


if __name__ == "__main__":
    sys.exit(main())
