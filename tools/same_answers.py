"""Compare the answers of two commits: every command, live selection, callbacks, pages, real logs.

    python tools/same_answers.py BEFORE [AFTER] [--quick] [--only KIND,KIND] [--shared FOLDER]

AFTER is the working tree unless a commit is named. Each side is asked in its own words: a commit
that renames a command, a Python name, a key or a rule says so in its `tools/words.toml`, and its
answers are compared under the old names. A refusal is an answer; no answer on one side is a
difference. Differences that are meant stand in a file given by `--listed`:

    [[difference]]
    file = "deploy/*"                # kind, and file below it; * is anything
    place = "*.temperature"          # place in the file [default: *]
    reason = "the temperature is free where data are like validation"

The exit code is 1 if any answer differs that is not listed.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from differences import Allowance, Difference, Listed, compare_folders, read_listed, set_apart
from questions import KINDS, Asked
from sides import Side, answers

SHOWN = 100


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", nargs="?", help="a commit [default: the working tree]")
    parser.add_argument(
        "--only",
        type=_kinds,
        default=frozenset(KINDS),
        metavar="KIND[,KIND]",
        help=f"kinds of questions: {', '.join(sorted(KINDS))} [default: all]",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="some questions of every kind, in about two minutes a side",
    )
    parser.add_argument("--listed", type=Path, help="file of differences that are meant, as above")
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


def _kinds(text: str) -> frozenset[str]:
    kinds = frozenset(text.split(","))
    if kinds - KINDS:
        unknown, known = sorted(kinds - KINDS)[0], ", ".join(sorted(KINDS))
        raise argparse.ArgumentTypeError(f"expected kinds among {known}, but got {unknown!r}")
    return kinds


def table(
    before: Path, differences: dict[str, list[Difference]], listed: dict[Listed, list[Difference]]
) -> str:
    """One row a kind of answer. A refusal on both sides counts as an answer."""
    answers_of, refused, differ = Counter[str](), Counter[str](), Counter[str]()
    for file, changes in differences.items():
        kind = Path(file).parts[0]
        answers_of[kind] += 1
        differ[kind] += bool(changes)
        old = before / file
        refused[kind] += old.exists() and old.read_bytes().startswith(b'{"exit"')
    meant = {change.file for changes in listed.values() for change in changes}
    allowed = Counter(Path(file).parts[0] for file in meant)
    rows = [f"{'':10} {'answers':>8} {'refused':>8} {'differ':>8} {'listed':>8}"]
    for kind, count in sorted(answers_of.items()):
        rows.append(f"{kind:10} {count:8} {refused[kind]:8} {differ[kind]:8} {allowed[kind]:8}")
    return "\n".join(rows)


def by_place(
    differences: dict[str, list[Difference]],
) -> dict[tuple[str, str], list[Difference]]:
    """Differences of one kind in one place together, whichever entry of a list it is."""
    groups: dict[tuple[str, str], list[Difference]] = {}
    for change in (change for changes in differences.values() for change in changes):
        kind, place = Path(change.file).parts[0], re.sub(r"\[\d+\]", "[*]", change.place)
        groups.setdefault((kind, place), []).append(change)
    return groups


def main() -> int:
    options = parse()
    sides = [Side.named(options.before), Side.named(options.after)]
    meant = read_listed(options.listed) if options.listed else []
    asked = Asked(kinds=options.only, quick=options.quick, shared=options.shared)
    with tempfile.TemporaryDirectory(prefix="same-answers-") as temporary:
        before, after = (
            answers(side, asked, folder=Path(temporary).resolve() / name, keep=options.keep)
            for name, side in zip(("before", "after"), sides, strict=True)
        )
        allowed = Allowance(
            tolerance=options.tolerance,
            reworded=options.reworded,
            rewritten=any(side.words.renames_answers for side in sides),
        )
        found = compare_folders(before, after, allowed)
        differences, listed = set_apart(found, meant)
        print(f"\n{table(before, differences, listed)}\n")
    for entry, changes in listed.items():
        files = len({change.file for change in changes})
        seen = f"{len(changes)} in {files} files" if changes else "nothing differs there"
        print(f"listed: {entry.file} {entry.place}: {seen} ({entry.reason})")
    groups = by_place(differences)
    for (kind, place), changes in sorted(groups.items(), key=lambda group: -len(group[1]))[:SHOWN]:
        files = len({change.file for change in changes})
        print(f"{files} of {kind} differ in {place or 'all'}, such as {changes[0]}")
    if len(groups) > SHOWN:
        print(f"… and {len(groups) - SHOWN} more places")
    print("Different." if groups else "The same.")
    return 1 if groups else 0


if __name__ == "__main__":
    sys.exit(main())
