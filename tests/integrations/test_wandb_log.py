"""A selection in W&B: a real run in offline mode, so that nothing is sent."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from tests.integrations.selections import STEPS, selection
from tests.requirements import package

wandb = package("wandb")

from checkwise.integrations.wandb import WandbLog
from tests.refusals import refused

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("wandb")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_ARTIFACT_DIR"):
            patch.setenv(name, str(folder / name.lower()))
        patch.setenv("WANDB_ERROR_REPORTING", "false")
        quiet = wandb.Settings(silent=True, console="off", x_disable_stats=True)
        opened = wandb.init(project="digits", mode="offline", dir=str(folder), settings=quiet)
        yield opened
        opened.finish()


def written(folder: Path, words: bytes) -> bool:
    """Whether W&B's own journal of what it would send holds words; it is written a little later."""
    (file,) = folder.glob("run-*.wandb")
    end = time.monotonic() + 300
    while words not in (content := file.read_bytes()) and time.monotonic() < end:
        time.sleep(0.05)
    return words in content


def test_the_summary_names_the_choice_and_the_alias_is_on_its_weights(
    run: Any, tmp_path: Path
) -> None:
    chosen = selection(tmp_path)
    rows: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:  # a spy: every row still goes to W&B
        patch.setattr(type(run), "log", _noting(type(run).log, rows))
        log = WandbLog(run, upload=True)
        log.log(chosen)
        log.log(chosen)
    assert run.summary["checkwise/choice"] == chosen.step
    assert run.summary["checkwise/rule"] == "ac-nc"
    assert run.summary["checkwise/path"] == str(tmp_path / f"{chosen.step}.pt")
    assert run.summary["checkwise/why"] == chosen.explain()
    assert [row["checkwise/step"] for row in rows] == list(STEPS)  # logged once
    # What W&B's API exports after a sync: its own step, and the columns in any order.
    with (tmp_path / "history.csv").open("w", newline="") as file:
        names = ["_step", "_runtime", "loss", *rows[0]]
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerow({"_step": 0, "_runtime": 0.1, "loss": 2.0})
        for number, row in enumerate(rows, start=1):
            writer.writerow({"_step": number, "_runtime": number, **row})
    again = cw.select(cw.load(tmp_path / "history.csv"), "ac-nc", delta_pp=2)
    assert (again.step, again.accuracy) == (chosen.step, chosen.accuracy)


def _noting(log: Any, rows: list[dict[str, Any]]) -> Any:
    def noted(self: Any, row: dict[str, Any], *arguments: Any, **options: Any) -> None:
        rows.append(dict(row))
        log(self, row, *arguments, **options)

    return noted


def test_wrong_arguments_are_refused_at_once(run: Any) -> None:
    with refused("value: 'digits'"):
        WandbLog("digits")
    with refused("missing"):
        WandbLog(run, upload=True).log(selection())


def test_an_offline_run_is_on_this_disk_and_select_reads_it(run: Any, tmp_path: Path) -> None:
    folder, chosen = Path(run.dir).parent, selection(tmp_path)
    WandbLog(run, upload=True).log(chosen)  # tests before may be in another process
    run.finish()
    assert written(folder, b"checkwise/choice")
    assert written(folder, b"step-200")
    *_, newest = cw.load_runs(folder).values()  # tests before logged to the same run
    again = cw.select(newest, "ac-nc", delta_pp=2)
    assert (again.step, again.accuracy) == (chosen.step, chosen.accuracy)
