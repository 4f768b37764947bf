"""What the callback costs a Trainer of transformers: an epoch of a small CNN on 5,000 images.

Run as ``python -m benchmarks.transformers_callback``. The callback and its metrics may take 3% of
the processor time of an epoch, with its evaluation and its save, and hold 1% of the memory.
"""

from __future__ import annotations

import functools
import importlib.util
import resource
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

IMAGES, VALIDATION, CLASSES, EPOCHS = 5_000, 1_000, 10, 3
TIME_LIMIT, MEMORY_LIMIT = 0.03, 0.01
HOOKS = ("on_train_begin", "on_evaluate", "on_save", "on_train_end")


def data(n: int, seed: int) -> list[dict[str, Any]]:
    """Images of 3 × 32 × 32 whose brightness says a little about the class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    pixels = rng.normal(size=(n, 3, 32, 32)).astype(np.float32)
    pixels += labels[:, None, None, None] / CLASSES
    return [{"pixels": p, "labels": int(y)} for p, y in zip(pixels, labels, strict=True)]


def network() -> Any:
    """Three convolutions."""
    import torch
    from transformers import PretrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import SequenceClassifierOutput

    class Network(PreTrainedModel):  # type: ignore[misc, unused-ignore]
        config_class = PretrainedConfig

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            widths = (3, 16, 32, 64)
            layers: list[Any] = []
            for before, after in pairwise(widths):
                layers += [torch.nn.Conv2d(before, after, 3, 2, 1), torch.nn.ReLU()]
            self.body = torch.nn.Sequential(*layers, torch.nn.Flatten())
            self.head = torch.nn.Linear(64 * 16, CLASSES)
            self.post_init()

        def forward(self, pixels: Any, labels: Any = None) -> SequenceClassifierOutput:
            logits = self.head(self.body(pixels))
            return SequenceClassifierOutput(
                torch.nn.functional.cross_entropy(logits, labels), logits
            )

    return Network(PretrainedConfig())


class Stopwatch:
    """Adds up the processor time of the functions that it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **keywords: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **keywords)
            finally:
                self.seconds += time.process_time() - start

        return timed


def new_trainer(folder: Path, watch: Stopwatch) -> Any:
    """A Trainer whose callback is timed."""
    from transformers import Trainer, TrainingArguments

    from checkwise.integrations.transformers import ReliabilityCallback

    callback = ReliabilityCallback()
    for hook in HOOKS:
        setattr(callback, hook, watch.wrap(getattr(callback, hook)))
    return Trainer(
        model=network(),
        args=TrainingArguments(
            output_dir=str(folder),
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=64,
            per_device_eval_batch_size=64,
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model="checkwise",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=data(IMAGES, 0),
        eval_dataset=data(VALIDATION, 1),
        compute_metrics=watch.wrap(callback.compute_metrics.__call__),
        callbacks=[callback],
    )


def time_share(folder: Path) -> float:
    """Processor time of the callback per that of everything else."""
    import checkwise as cw

    watch = Stopwatch()
    trainer = new_trainer(folder, watch)
    cw.metrics.evaluate(logits=3 * np.eye(3, dtype=np.float32), labels=np.arange(3))  # compiled
    start = time.process_time()
    trainer.train()
    return watch.seconds / (time.process_time() - start - watch.seconds)


def memory_share(folder: Path) -> float:
    """What checkwise holds after training, per the largest memory of the process."""
    trainer = new_trainer(folder, Stopwatch())
    ours = [tracemalloc.Filter(True, "*checkwise/*")]
    tracemalloc.start()
    before = tracemalloc.take_snapshot().filter_traces(ours)
    trainer.train()
    after = tracemalloc.take_snapshot().filter_traces(ours)
    tracemalloc.stop()
    grown = sum(change.size_diff for change in after.compare_to(before, "filename"))
    return grown / (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def main() -> int:
    if importlib.util.find_spec("transformers") is None:
        print("transformers is not installed")
        return 0
    with tempfile.TemporaryDirectory() as name:
        seconds, size = time_share(Path(name, "time")), memory_share(Path(name, "memory"))
    missed = seconds > TIME_LIMIT or size > MEMORY_LIMIT
    print(f"time    {seconds:7.3%} of an epoch   (at most {TIME_LIMIT:.0%})")
    print(f"memory  {size:7.3%} of the peak     (at most {MEMORY_LIMIT:.0%})")
    print("TOO MUCH" if missed else "ok")
    return missed


if __name__ == "__main__":
    sys.exit(main())
