"""A worker that notes every run it trains: ``python -m tests.sweep.logged_worker COHORT LOG``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from checkwise.study.sweep import worker
from checkwise.study.sweep import worker as one_run
from checkwise.study.train import train_run


def main() -> None:
    cohort, log = sys.argv[1], Path(sys.argv[2])

    def noted(folder: Path, *args: Any, **options: Any) -> Any:
        with log.open("a") as file:
            file.write(f"{os.getpid()} {folder.parent.name}\n")
        return train_run(folder, *args, **options)

    setattr(one_run, "train_run", noted)  # noqa: B010  (as a worker looks it up)
    print("ready", flush=True)
    sys.stdin.readline()
    worker.work(worker.Job(cohort=cohort, round="a"))


if __name__ == "__main__":
    main()
