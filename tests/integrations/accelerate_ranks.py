"""``python -m tests.integrations.accelerate_ranks PROGRAM…`` runs each in two processes."""

from __future__ import annotations

import runpy
import sys

import accelerate  # noqa: F401  # before the fork
import torch  # noqa: F401

import checkwise  # noqa: F401
from tests.forked_ranks import in_two


def run(program: str) -> None:
    in_two(lambda: runpy.run_path(program, run_name="__main__"))


if __name__ == "__main__":
    for program in sys.argv[1:]:
        run(program)
