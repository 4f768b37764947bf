"""Do the tests notice when something breaks? Puts the faults of `faults.toml` in, one by one.

`python tools/faults.py` checks that every fault has exactly one place in the source. Then, for each
one, it copies the source, puts the fault into the copy, and runs the fault's tests on it. It prints
who caught what, writes that to `tools/faults.md`, and exits with 1 if a fault was missed that is
not listed as missed. Tests that caught something are run once more without any fault.

    python tools/faults.py [--only NAME,…] [--jobs N] [--whole] [--check]
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST, RESULTS = ROOT / "tools" / "faults.toml", ROOT / "tools" / "faults.md"
WHOLE = ("tests", "--ignore=tests/engines", "--ignore=tests/package")
PYTEST = (
    *(sys.executable, "-m", "pytest", "-x", "-q", "--tb=no"),
    *("-p", "no:cacheprovider", "--hypothesis-seed=0"),
)
PATIENCE_SECONDS = 1800  # a fault may make a test wait for ever
HEADER = ("fault", "package", "result", "test that caught it", "seconds")


@dataclass(frozen=True)
class Fault:
    """One entry of the list; `find` and `replace` keep the indentation that lines have together."""

    name: str
    package: str
    find: str
    replace: str
    breaks: str
    tests: tuple[str, ...]
    missed: bool = False

    def places(self, text: str) -> list[re.Match[str]]:
        """Where it could go in a file; any space stands for any other."""
        return list(re.finditer(r"\s+".join(map(re.escape, self.find.split())), text))

    def put_into(self, text: str) -> str:
        """The file with the fault."""
        (place,) = self.places(text)
        line = text[text.rfind("\n", 0, place.start()) + 1 : place.start()]
        indent = len(line) - len(line.lstrip()) - (len(self.find) - len(self.find.lstrip()))
        first, *others = self.replace.split("\n")
        new = "\n".join([first.lstrip(), *(" " * indent + other for other in others)])
        return text[: place.start()] + new + text[place.end() :]


@dataclass(frozen=True)
class Result:
    """What came of a fault: "caught", "missed", or why its tests say nothing."""

    fault: Fault
    result: str
    test: str
    seconds: float

    def row(self) -> tuple[str, ...]:
        """As it is shown."""
        fault = self.fault
        return (fault.name, fault.package, self.result, self.test, f"{self.seconds:.0f}")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    options.add_argument("--only", default="", help="names of faults, with commas between them")
    options.add_argument("--jobs", type=int, default=1, help="faults at a time")
    options.add_argument("--whole", action="store_true", help="run all tests, not those listed")
    options.add_argument("--check", action="store_true", help="only look for their places")
    asked = options.parse_args()
    entries = tomllib.loads(LIST.read_text())["fault"]
    faults = [Fault(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
    only = set(filter(None, asked.only.split(",")))
    chosen = [fault for fault in faults if not only or fault.name in only]
    problems = [*_misplaced(faults), *(f"no fault {name}" for name in only - _names(faults))]
    if problems or asked.check:
        print("\n".join(problems) or f"{len(faults)} faults, each with one place.")
        return 1 if problems else 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        results = []
        for result in pool.map(partial(tried, whole=asked.whole), chosen):
            print("  ".join(result.row()), flush=True)
            results.append(result)
    results = _confirmed(results)
    RESULTS.write_text(_markdown(faults, {one.fault.name: one.row() for one in results}))
    wrong = [one for one in results if one.result != "caught" and not one.fault.missed]
    print(f"{len(results)} faults, {sum(one.result == 'caught' for one in results)} caught.")
    print("\n".join(f"not listed as missed: {one.fault.name}: {one.result}" for one in wrong))
    return 1 if wrong else 0


def _names(faults: list[Fault]) -> set[str]:
    return {fault.name for fault in faults}


def _misplaced(faults: list[Fault]) -> list[str]:
    """What is wrong with the list: no place or several in the source, no Python, a name twice."""
    texts = [path.read_text() for path in sorted((ROOT / "src" / "checkwise").rglob("*.py"))]
    problems = []
    for at, fault in enumerate(faults):
        places = [text for text in texts for _ in fault.places(text)]
        if len(places) != 1:
            problems.append(f"{fault.name} has {len(places)} places")
        else:
            ast.parse(fault.put_into(places[0]), fault.name)
        if fault.name in _names(faults[:at]):
            problems.append(f"{fault.name} stands twice")
    return problems


def tried(fault: Fault, *, whole: bool) -> Result:
    """Put a fault into a copy of the source, and run its tests on it."""
    began = time.monotonic()
    code, said = run_tests(WHOLE if whole else fault.tests, fault)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+(?: \S+)*?)(?: - |$)", said, re.MULTILINE)
    test = failed[1].replace("|", "") if failed else ""
    results = {0: "missed", 1: "caught", 2: "caught" if failed else "interrupted"}
    result = results.get(code, f"pytest exits with {code}")
    return Result(fault, result, test, time.monotonic() - began)


def run_tests(tests: Sequence[str], fault: Fault | None = None) -> tuple[int, str]:
    """Run tests on a copy of the source; pytest's exit code, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source)  # with its caches, for their times are kept
        for path in source.rglob("*.py") if fault else ():
            if fault and fault.places(text := path.read_text()):
                path.write_text(fault.put_into(text))
        own = {"PYTHONPATH": str(source), "HYPOTHESIS_STORAGE_DIRECTORY": f"{folder}/examples"}
        environment = {**os.environ, **own}
        where = [sys.executable, "-c", "import checkwise; print(checkwise.__file__)"]
        imported = subprocess.check_output(where, cwd=ROOT, env=environment, text=True)
        if not imported.startswith(str(source)):
            raise SystemExit(f"Expected the copy to be imported, but got {imported}")
        command = [*PYTEST, f"--basetemp={folder}/tests", *tests]
        with Path(folder, "said").open("w+") as said:
            run = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=said, stderr=said, start_new_session=True
            )
            try:
                run.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                said.write(f"FAILED waiting for {PATIENCE_SECONDS} seconds\n")
            with suppress(ProcessLookupError):  # also what a test has left behind
                os.killpg(run.pid, signal.SIGKILL)
            code = run.wait()
            said.seek(0)
            return (1 if code < 0 else code), said.read()


def _confirmed(results: list[Result]) -> list[Result]:
    """The results, where a test that also fails without the fault has caught nothing."""
    tests = sorted({_function(one.test) for one in results if "::" in one.test})
    said = run_tests(["--maxfail=0", *tests])[1] if tests else ""
    failing = {_function(test) for test in re.findall(r"^FAILED (\S+)", said, re.MULTILINE)}
    why = "its test fails in any case"
    return [replace(r, result=why) if _function(r.test) in failing else r for r in results]


def _function(test: str) -> str:
    return test.partition("[")[0]


def _markdown(faults: list[Fault], new: dict[str, tuple[str, ...]]) -> str:
    """The table with new rows; the others stay, as far as their faults are in the list."""
    before = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    cells = [tuple(line.strip("| ").split(" | ")) for line in before if line.startswith("| ")]
    rows = {row[0]: row for row in cells if len(row) == len(HEADER)} | new
    packages = list(dict.fromkeys(fault.package for fault in faults))
    known = [rows[fault.name] for fault in faults if fault.name in rows]
    counts = [
        (package, *(str(len(some)) for some in (of_it, [r for r in of_it if r[2] == "caught"])))
        for package in [*packages, "all"]
        if (of_it := [row for row in known if package in (row[1], "all")])
    ]
    tables = [*_table(("package", "faults", "caught"), counts), "", *_table(HEADER, known)]
    return "\n".join(["# What the tests catch", "", "By `tools/faults.py`.", "", *tables, ""])


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


if __name__ == "__main__":
    sys.exit(main())
