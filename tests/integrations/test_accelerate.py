"""The program for Accelerate on the page, on two processes, killed and resumed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import checkwise as cw
from tests.requirements import available

available("accelerate")

from tests.docs.run_page import BLOCK
from tests.integrations import accelerate_ranks

ROOT = Path(__file__).parents[2]
EXAMPLES = 1001  # odd: one of two processes has a row too many


def program() -> str:
    blocks = BLOCK.findall((ROOT / "docs" / "live.md").read_text())
    (accelerated,) = [code for _, code in blocks if "Accelerator" in code]
    (data,) = re.findall(r"^def examples.*?(?=\n\n\n)", blocks[0][1], re.DOTALL | re.MULTILINE)
    return f"import torch\n{data}\n{accelerated}"


def launch(folder: Path, *programs: str) -> list[str]:
    """Run each in two processes; what they print, in the order of their ranks."""
    names = [f"train-{number}.py" for number in range(len(programs))]
    for name, code in zip(names, programs, strict=True):
        (folder / name).write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", accelerate_ranks.__name__, *names],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return re.findall(r"process \d+ chooses epoch \d+", done.stdout)


def test_two_processes_count_every_example_once_and_choose_alike(tmp_path: Path) -> None:
    code = program()
    short = code.replace("range(last + 1, 6)", "range(last + 1, 3)")
    assert short != code
    watched = code.replace("live.resume(last)", "live.resume(last); assert last == 2, last")
    assert watched != code
    answers = launch(tmp_path, short, watched)[2:]  # two others go on from epoch 2
    journal = tmp_path / "accelerated" / "checkwise.jsonl"
    live = cw.LiveSelector.from_journal(journal)
    assert sorted(answers) == [f"process {rank} chooses epoch {live.choice}" for rank in (0, 1)]
    assert live.steps == (1, 2, 3, 4, 5)
    assert live.trajectory.counts is not None
    assert live.trajectory.counts.tolist() == [EXAMPLES]
    on_disk = {int(path.name.partition("-")[2]) for path in journal.parent.glob("epoch-*")}
    assert on_disk == {*live.keep, 5}
    assert live.path is not None
    assert (live.path / "model.safetensors").is_file()
