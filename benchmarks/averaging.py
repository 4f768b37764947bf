"""What keeping averages adds to an update, for a head and for the last stage of a backbone.

    python -m benchmarks.averaging

One thread. Both averages are kept at once; `hook` includes its share of the float64 additions
that every 32nd update makes. `record` is what ends a segment of dense SWAD, once per record.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from benchmarks.updates import interleaved
from checkwise.study.train import (
    AVERAGED_AT_ONCE,
    Algorithm,
    Averages,
    Network,
    build_algorithm,
    frozen_part,
    lite0,
    mlp_head,
    trainable_part,
)

DOMAINS, ROWS = 3, 32
LIMIT = 0.10


def head() -> tuple[Network, Tensor]:
    """An MLP head on the features of the backbone."""
    return mlp_head(1280, 7, hidden=256), torch.randn(ROWS, 1280)


def last_stage() -> tuple[Network, Tensor]:
    """The last stage of EfficientNet-Lite0 with live BatchNorm."""
    backbone = lite0()
    cut = frozen_part(backbone, "last-stage").shape
    return trainable_part(backbone, "last-stage", 7), torch.randn(ROWS, *cut)


def hook_block(hook: Averages, algorithm: Algorithm) -> Callable[[], None]:
    """The calls of one block of updates, so that each flushes once."""

    def calls() -> None:
        for step in range(1, AVERAGED_AT_ONCE + 1):
            hook.after_update(step, algorithm)

    return calls


def measured(network: Network, x: Tensor, *, blocks: int) -> tuple[int, float, float, float]:
    """Parameters, and microseconds of an update, of the hook per update, and of a record."""
    algorithm = build_algorithm("ERM", network.featurizer, network.classifier, {"lr": 1e-6})
    batch = [(x, torch.randint(7, (ROWS,))) for _ in range(DOMAINS)]
    hook = Averages(("sma", "dense-swad"), last_step=-1, sma_start=0)
    hook.after_update(0, algorithm)
    works: dict[str, Callable[[], object]] = {
        "update": lambda: algorithm.update(batch),
        "hook": hook_block(hook, algorithm),
    }
    took = interleaved(works, blocks=blocks)
    record = {"step": 0, "diverged": False, "domains": {"a": {"nll": 0.5}}}
    with TemporaryDirectory() as folder:
        took_record = float("inf")
        for _ in range(8):
            hook.after_update(1, algorithm)
            began = time.perf_counter()
            hook.at_record(record, algorithm, Path(folder))
            took_record = min(took_record, (time.perf_counter() - began) * 1e6)
    count = sum(parameter.numel() for parameter in algorithm.parameters())
    return count, took["update"], took["hook"] / AVERAGED_AT_ONCE, took_record


def main() -> None:
    """Print one line per network; fail where an update becomes more than a tenth slower."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{'':12}{'parameters':>12}{'update':>10}{'hook':>8}{'share':>8}{'record':>9}   (µs)")
    worst = 0.0
    for name, build, blocks in (("MLP head", head, 60), ("last stage", last_stage, 6)):
        count, update, hook, record = measured(*build(), blocks=blocks)
        worst = max(worst, hook / update)
        print(
            f"{name:12}{count:12,}{update:10.0f}{hook:8.0f}{100 * hook / update:7.1f}%{record:9.0f}"
        )
    if worst > LIMIT:
        raise SystemExit(f"Expected at most {LIMIT:.0%} of an update, but got {worst:.1%}.")


if __name__ == "__main__":
    main()
