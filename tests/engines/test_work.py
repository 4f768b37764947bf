"""Four `checkwise study work`, two killed and one stopped, leave what the local executor leaves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.engines.conftest import Reference
from tests.engines.sweeps import LONG
from tests.sweep.test_work import four_workers, holders, lose_two_and_stop_one


@LONG
def test_the_demo_with_two_workers_killed_and_one_stopped(
    reference: Reference, tmp_path: Path
) -> None:
    study, expected = reference("demo")
    cohort = tmp_path / "cohort"
    words = ["study", "run", study, "--plan-only", "--out", str(cohort)]
    subprocess.run([sys.executable, "-m", "checkwise", *words], check=True)
    with four_workers(cohort) as processes:
        victims = holders(cohort, 3)
        assert victims, "the runs ended before three workers trained"
        lose_two_and_stop_one(cohort, processes, victims, expected)
