"""Time of one update of an MLP head against the matrix products it cannot do without.

    python -m benchmarks.updates

One thread; 3 domains × 32 rows of 1,280 features, 256 hidden units, 7 or 65 classes.
Needed products: each layer's forward, the gradients of both weights, and the gradient that enters
the hidden layer (the input needs none); for CORAL also the two that its penalty takes. Adam is
timed by itself beside the bytes it must move: parameter, gradient and two moments read, all but
the gradient written. The rest is elementwise work, allocation, autograd and Python.

The learning rate is so low that the head does not learn the one minibatch by heart: gradients
would become denormal numbers, on which every product takes several times as long.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

from benchmarks.rows import Row, show
from checkwise.study.train import algorithm_names, build_algorithm, mlp_head

DOMAINS, ROWS, FEATURES, HIDDEN = 3, 32, 1280, 256
BLOCKS, CALLS = 200, 3


def interleaved(
    works: dict[str, Callable[[], object]], *, blocks: int = BLOCKS
) -> dict[str, float]:
    """Microseconds per call, the least of many short blocks taken in turns.

    Turns let all works meet the same neighbours on the machine; blocks shorter than a scheduler's
    slice let the least of them be what the work costs when nobody interferes.
    """
    best = dict.fromkeys(works, float("inf"))
    for _ in range(blocks):
        for name, work in works.items():
            work()
            start = time.process_time()
            for _ in range(CALLS):
                work()
            best[name] = min(best[name], (time.process_time() - start) / CALLS * 1e6)
    return best


def needed_products(classes: int, *, coral: bool) -> Callable[[], None]:
    """The matrix products of one update and nothing else."""
    n = DOMAINS * ROWS
    x, w1, w2 = (
        torch.randn(n, FEATURES),
        torch.randn(HIDDEN, FEATURES),
        torch.randn(classes, HIDDEN),
    )
    hidden, d_hidden = torch.randn(n, HIDDEN), torch.randn(n, HIDDEN)
    d_logits, gram = torch.randn(n, classes), torch.randn(n, n)

    def products() -> None:
        x @ w1.t()
        hidden @ w2.t()
        d_logits.t() @ hidden
        d_logits @ w2
        d_hidden.t() @ x
        if coral:
            hidden @ hidden.t()
            gram @ hidden

    return products


def works(name: str, classes: int) -> dict[str, Callable[[], object]]:
    """What is timed for one algorithm."""
    torch.manual_seed(0)
    head = mlp_head(FEATURES, classes, hidden=HIDDEN)
    algorithm = build_algorithm(name, head.featurizer, head.classifier, {"lr": 1e-6})
    batch = [(torch.randn(ROWS, FEATURES), torch.randint(classes, (ROWS,))) for _ in range(DOMAINS)]
    algorithm.update(batch)
    return {
        "update": lambda: algorithm.update(batch),
        "products": needed_products(classes, coral=name == "CORAL"),
        "adam": algorithm.optimizer.step,
    }


def main() -> None:
    """A row for each number of classes; ``--all`` prints where the time of each update goes."""
    torch.set_num_threads(1)
    rows = []
    for classes in (7, 65):
        ratios = {}
        for name in algorithm_names():
            took = interleaved(works(name, classes))
            ratios[name] = took["update"] / took["products"]
            if "--all" in sys.argv:
                told = " ".join(f"{work} {each:.0f} µs" for work, each in took.items())
                print(f"{name} {FEATURES}→{HIDDEN}→{classes}: {told}, {ratios[name]:.2f}×")
        worst = max(ratios, key=lambda name: ratios[name])
        rows.append(
            Row(
                f"one update of a head {FEATURES} → {HIDDEN} → {classes}, "
                f"the slowest of {len(ratios)} algorithms ({worst})",
                "its matrix products",
                ratios[worst],
                2,
            )
        )
    show(rows)


if __name__ == "__main__":
    main()
