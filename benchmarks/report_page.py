"""The page of 540 runs: time to write it, its size, and how soon it follows the slider.

Run with ``python -m benchmarks.report_page``; needs Chromium. A move counts until the browser has
drawn what changed. Held-out results are closed at first, then open.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.study import DATASETS, make_cohort
from checkwise.study.report import write_report
from tests.page.chromium import CHROMIUM, Browser, browser

TARGET_SECONDS, TARGET_BYTES, TARGET_MS = 15.0, 6_000_000, 100.0
MOVES = [str(k % 10) for k in range(1, 41)]
MOVE = """new Promise((done) => {
  const field = document.getElementById('controls').elements.namedItem('slider');
  const began = performance.now();
  field.value = '%s';
  field.dispatchEvent(new Event('input', { bubbles: true }));
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - began), 0));
})"""


def moves(page: Browser) -> list[float]:
    """Milliseconds of every move; the page rests between two, as under a slow hand."""
    found = []
    for value in MOVES:
        found.append(float(page.run(MOVE % value)))
        page.run("new Promise((done) => setTimeout(done, 400))")
    return found


def main() -> int:
    if CHROMIUM is None:
        print("Expected Chromium, but `chromium` is not installed: nothing measured.")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        path = make_cohort(Path(folder) / "cohort", dict.fromkeys(DATASETS, "evaluation"))
        page = Path(folder) / "report.html"
        start = time.process_time()
        write_report(path, page)
        seconds, size = time.process_time() - start, page.stat().st_size
        with browser(Path(folder) / "profile") as tab:
            tab.open(page)
            closed = moves(tab)
            tab.run("document.querySelector('#heldout > summary').click()")
            tab.wait("document.querySelectorAll('#rules-target tbody tr').length > 1")
            opened = moves(tab)
    slow = max(statistics.median(closed), statistics.median(opened))
    met = seconds < TARGET_SECONDS and size < TARGET_BYTES and slow < TARGET_MS
    print(f"540 runs: written in {seconds:.1f} s of processor time, {size / 1e6:.2f} MB")
    for name, found in (("closed", closed), ("open", opened)):
        print(
            f"slider, held-out results {name}: median {statistics.median(found):.0f} ms, "
            f"slowest of {len(found)} {max(found):.0f} ms"
        )
    limits = f"{TARGET_SECONDS:.0f} s, {TARGET_BYTES / 1e6:.0f} MB and {TARGET_MS:.0f} ms"
    print(f"below {limits}: {'yes' if met else 'NO'}")
    return not met


if __name__ == "__main__":
    sys.exit(main())
