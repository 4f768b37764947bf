"""What the training loop costs, beside a plain loader loop and beside bare matrix products.

    python -m benchmarks.training [--updates 1001] [--workers 0 1] [--only digits|head]

digits: one trajectory of the digits CNN (5 source rotations, 64 rows each, 51 records) against a
loop with one loader per domain that turns each digit with Pillow when it is asked for and, at every
record, goes through both splits of all domains. The loader loop may use all cores, and loaders
with `--workers`; this library's run has one thread, so a sweep fits one per core. Where others
use the machine too, say `--threads 1`: threads that wait for each other are slowed out of measure.

head: updates of an MLP head (1,280 → 256 → 7, 3 domains × 32 rows) inside the loop against the
matrix products they need, and where the rest goes. Times are the least of many short blocks.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler, Subset

from benchmarks.updates import interleaved, needed_products
from checkwise import metrics
from checkwise.records import RunKey
from checkwise.study.data import DomainDataset, from_arrays, open_dataset, split
from checkwise.study.sweep import read_study, run_config
from checkwise.study.train import (
    Evaluator,
    NetworkConfig,
    RunConfig,
    TrainingData,
    build_algorithm,
    build_run,
    digits_network,
    evaluated_parts,
    generator_states,
    prepare,
    train_run,
)

RECORDS = 50


class Turned(Dataset[tuple[Tensor, int]]):
    """Digits that are turned and made into tensors when they are asked for."""

    def __init__(self, digits: np.ndarray[Any, np.dtype[np.uint8]], labels: Any, angle: int):
        self._digits, self._labels, self._angle = digits, labels, angle

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = Image.fromarray(self._digits[index, ..., 0])
        turned = np.asarray(image.rotate(self._angle, Image.Resampling.BILINEAR))
        return torch.from_numpy(turned.copy()).float().div(255)[None], int(self._labels[index])


def loader_loop(data: DomainDataset, updates: int, workers: int, batch: int = 64) -> float:
    """Seconds of the plain loop."""
    options: dict[str, Any] = {"num_workers": workers, "persistent_workers": workers > 0}
    began = time.perf_counter()
    torch.manual_seed(0)
    train, evaluate = [], []
    for domain, name in enumerate(data.domains):
        whole = Turned(data.x[domain], data.y[domain], int(name))
        parts = [
            Subset(whole, rows.tolist())
            for rows in split(len(whole), domain_index=domain, trial_seed=0)
        ]
        evaluate += [DataLoader(part, batch_size=64, **options) for part in parts]
        if domain > 0:
            drawn = RandomSampler(parts[0], replacement=True, num_samples=batch * updates)
            train.append(iter(DataLoader(parts[0], batch_size=batch, sampler=drawn, **options)))
    network = digits_network(data.num_classes)
    algorithm = build_algorithm("ERM", network.featurizer, network.classifier, {"lr": 1e-3})
    every = max(1, (updates - 1) // RECORDS)
    for step in range(updates):
        algorithm.update([next(batches) for batches in train])
        if step % every == 0:
            for loader in evaluate:
                right = sum(
                    int((algorithm.predict(x).argmax(1) == y).sum()) for x, y in _batches(loader)
                )
                assert right >= 0
    return time.perf_counter() - began


def _batches(loader: Any) -> Iterator[tuple[Tensor, Tensor]]:
    yield from loader


def own_loop(asked: RunConfig, data: TrainingData) -> float:
    """Seconds of a run of this library, files and all metrics included."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        train_run(Path(folder), asked, data)
        return time.perf_counter() - began


def digits(updates: int, workers_tried: list[int], threads: int) -> None:
    """Compare the trajectories."""
    data = open_dataset("RotatedMNIST")
    study = read_study("rotated-mnist")
    study = replace(study, steps=updates, record_every=max(1, (updates - 1) // RECORDS), keep="all")
    ready = prepare(data, study.network, device="cpu")
    asked = run_config(study, RunKey("RotatedMNIST", "ERM", ("0",), 0, 0), ready)
    own_loop(replace(asked, steps=3), ready)  # loads and compiles
    own = own_loop(asked, ready)
    every_split = own_loop(replace(asked, source_in=True), ready)
    torch.set_num_threads(threads)
    plain = {workers: loader_loop(data, updates, workers) for workers in workers_tried}
    best = min(plain.values())
    print(f"digits CNN, {updates} updates of 5 × 64, {RECORDS + 1} records")
    for workers, seconds in plain.items():
        print(f"  loader loop, {threads} thread(s), {workers} worker(s)  {seconds:7.1f} s")
    print(f"  checkwise, one thread              {own:7.1f} s   {best / own:5.1f}× less")
    print(f"  checkwise, source `in` as well     {every_split:7.1f} s   {best / every_split:5.1f}×")


def head(algorithm_name: str = "ERM") -> None:
    """Where the time of an update and of a record goes."""
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    sizes = {"art": 2048, "cartoon": 2344, "photo": 1670, "sketch": 3929}
    arrays = {
        name: (random.standard_normal((n, 1280), dtype=np.float32), random.integers(0, 7, n))
        for name, n in sizes.items()
    }
    data = from_arrays("made-up", arrays, kind="features", classes=[str(c) for c in range(7)])
    ready = prepare(data, NetworkConfig("mlp"), device="cpu")
    study = replace(read_study("officehome-frozen"), hparams={"lr": 1e-6})
    asked = run_config(study, RunKey("made-up", algorithm_name, ("sketch",), 0, 0), ready)
    algorithm, sampler = build_run(asked, ready)
    evaluator = Evaluator(ready.inputs, evaluated_parts(asked, data))
    batches = ready.inputs.minibatches([0, 1, 2], sampler.next(), random=(0, 0))
    outputs = evaluator(algorithm)
    pairs = [*outputs.of("source").values(), *outputs.of("heldout").values()]
    terms: dict[str, list[Tensor]] = {}

    def whole() -> None:
        drawn = ready.inputs.minibatches([0, 1, 2], sampler.next(), random=(0, 0))
        for name, term in algorithm.update(drawn).items():
            terms.setdefault(name, []).append(term)

    took = interleaved(
        {
            "whole": whole,
            "draw": lambda: ready.inputs.minibatches([0, 1, 2], sampler.next(), random=(0, 0)),
            "update": lambda: algorithm.update(batches),
            "products": needed_products(7, coral=algorithm_name == "CORAL"),
            "adam": algorithm.optimizer.step,
        }
    )
    rest = took["update"] - took["products"] - took["adam"]
    print(f"MLP head, {algorithm_name}, one update in the loop, one thread (µs)")
    print(f"  whole {took['whole']:.0f} = {took['whole'] / took['products']:.2f}× the products")
    print(f"  matrix products          {took['products']:7.0f}")
    print(f"  Adam                     {took['adam']:7.0f}")
    print(f"  drawing and gathering    {took['draw']:7.0f}")
    print(f"  elementwise, autograd, Python {rest:7.0f}")
    record = {
        "network over 4,353 rows": lambda: evaluator(algorithm),
        "all metrics": lambda: [
            metrics.evaluate(logits=z, labels=y, bins=15, bandwidth=0.1).values() for z, y in pairs
        ],
        "generator state": generator_states,
    }
    print("one record (ms)")
    for name, microseconds in _timed(record).items():
        print(f"  {name:24} {microseconds / 1e3:7.1f}")


def _timed(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    best = dict.fromkeys(works, float("inf"))
    for _ in range(15):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], (time.perf_counter() - start) * 1e6)
    return best


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=1001)
    parser.add_argument("--workers", type=int, nargs="+", default=[0], help="of each loader")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of that loop")
    parser.add_argument("--only", choices=("digits", "head"))
    asked = parser.parse_args()
    if asked.only != "digits":
        head()
        head("CORAL")
    if asked.only != "head":
        digits(asked.updates, asked.workers, asked.threads)


if __name__ == "__main__":
    main()
