"""DomainBed: outputs of its checkpoints on source validation, and a method of model selection.

Your checkout of DomainBed does the work: it has to be importable, as with ``PYTHONPATH``. Its
checkpoints, ``model_step100.pkl``, are pickles, and opened without running what is inside: only
tensors, plain values and NumPy scalars, which its random hyperparameters are, are let through.
"""

from __future__ import annotations

import json
import os
import random
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from checkwise.errors import InputError, naming_extras
from checkwise.readers import load
from checkwise.selection import DEFAULT_RULE, Choice, Selection, select
from checkwise.words import listed, shown

__all__ = ["Checkpoint", "outputs", "read_checkpoint", "selection_method", "source_domains"]

DATA: Final = "CHECKWISE_DOMAINBED_DATA"  # where the data are, if not where the run had them
_BATCH: Final = 64
_ENV: Final = re.compile(r"env(0|[1-9][0-9]{0,3})")
_FIELD: Final = re.compile(r"(?:fd_)?env(\d+)_")
# The module in which NumPy keeps its scalars had another name before version 2.
_SCALAR: Final = np.float64(0).__reduce__()[0]
_SCALAR_NAMES: Final = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar")
_NUMPY: Final[list[Any]] = [
    *((_SCALAR, name) for name in _SCALAR_NAMES),
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "U1")),
    type(np.dtype("?")),
]
# What a checkpoint holds, and the arguments of its training.
_KEYS: Final = {
    "args": Mapping,
    "model_input_shape": tuple,
    "model_num_classes": int,
    "model_num_domains": int,
    "model_hparams": Mapping,
    "model_dict": Mapping,
}
_ARGS: Final[Mapping[str, tuple[type, ...]]] = {
    "dataset": (str,),
    "algorithm": (str,),
    "test_envs": (list, tuple),
    "trial_seed": (int,),
    "holdout_fraction": (int, float),
    "seed": (int,),
}

Predictions = Callable[[Mapping[str, Any]], str | os.PathLike[str]]


@dataclass(frozen=True)
class Checkpoint:
    """What DomainBed saved of a training.

    Attributes:
        args: the arguments of ``domainbed.scripts.train``.
        hparams: the hyperparameters.
        input_shape, classes, domains: what the algorithm is built for.
        state: its ``state_dict``.
    """

    args: dict[str, Any]
    hparams: dict[str, Any]
    input_shape: tuple[int, ...]
    classes: int
    domains: int
    state: dict[str, Any]

    @property
    def targets(self) -> tuple[int, ...]:
        """The environments that are held out."""
        return tuple(self.args["test_envs"])


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Open a checkpoint of DomainBed, unless it holds more than tensors and plain values."""
    with naming_extras():
        import torch
    path = Path(path)
    if not path.is_file():
        raise InputError(
            f"Expected a checkpoint of DomainBed, but there is no file at {path}.", code="missing"
        )
    try:
        with torch.serialization.safe_globals(_NUMPY):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what a damaged file leads to inside torch has no common kind
        raise _refused(path, error) from None
    return _checked(content, path)


def _refused(path: Path, error: Exception) -> InputError:
    import torch

    try:
        with torch.serialization.safe_globals(_NUMPY):
            unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:
        unsafe = []
    if unsafe:
        return InputError(
            f"Expected tensors, plain values and NumPy scalars, but {path} holds "
            f"{listed(sorted(unsafe))}: loading that could run code of a stranger, so the "
            "file was not opened.",
            code="unsupported",
        )
    reason = " ".join(str(error).split())
    return InputError(
        f"Expected a checkpoint of DomainBed, but {path} is none: {reason:.120}", code="format"
    )


def _checked(content: Any, path: Path) -> Checkpoint:
    for key, kind in _KEYS.items():
        value = content.get(key) if isinstance(content, Mapping) else None
        if not isinstance(value, kind):
            raise InputError(
                f"Expected {key} in a checkpoint of DomainBed, but {path} has {shown(value)}: name "
                "a file that `domainbed.scripts.train --save_model_every_checkpoint` wrote.",
                code="format",
            )
    args = dict(content["args"])
    wrong = [name for name, kinds in _ARGS.items() if type(args.get(name)) not in kinds]
    if "test_envs" not in wrong and not all(type(i) is int and i >= 0 for i in args["test_envs"]):
        wrong.append("test_envs")
    if "holdout_fraction" not in wrong and not 0 <= args["holdout_fraction"] < 1:
        wrong.append("holdout_fraction")
    if wrong:
        raise InputError(
            f"Expected args.{wrong[0]} as DomainBed writes it, but {path} has "
            f"{shown(args.get(wrong[0]))}: it was changed after the training, or another version "
            "wrote it.",
            code="format",
        )
    return Checkpoint(
        args=args,
        hparams=dict(content["model_hparams"]),
        input_shape=tuple(content["model_input_shape"]),
        classes=content["model_num_classes"],
        domains=content["model_num_domains"],
        state=dict(content["model_dict"]),
    )


def source_domains(path: str | Path) -> tuple[str, ...]:
    """The validation sets of a checkpoint's run, ``env0`` … without what is held out."""
    checkpoint = read_checkpoint(path)
    number = checkpoint.domains + len(checkpoint.targets)
    return tuple(f"env{i}" for i in range(number) if i not in checkpoint.targets)


def outputs(path: str, domain: str) -> tuple[Any, Any]:
    """Logits and labels of a checkpoint on one source domain: for ``checkwise predict``.

    The examples are the out-split of that environment, by the run's own seeds, in a fixed order and
    without augmentation. A target is refused: selection must not read it.

    Args:
        path: a ``model_step<n>.pkl``.
        domain: ``env<i>``.
    """
    checkpoint = read_checkpoint(path)
    match = _ENV.fullmatch(domain)
    sources = source_domains(path)
    if match is None or domain not in sources:
        held_out = ", ".join(f"env{i}" for i in checkpoint.targets)
        raise InputError(
            f"Expected one of the source domains {', '.join(sources)}, but got {domain!r}. Held "
            f"out in this run: {held_out}.",
            code="held-out",
        )
    images, labels = _validation(_facts(checkpoint), int(match[1]))
    return _logits(checkpoint, images), labels


def _facts(checkpoint: Checkpoint) -> str:
    """What decides the data of a run, as a key."""
    names = ("dataset", "test_envs", "trial_seed", "holdout_fraction", "seed", "data_dir")
    args = {name: checkpoint.args.get(name) for name in names}
    args["data_dir"] = os.environ.get(DATA, args["data_dir"])
    hparams = {**checkpoint.hparams, "data_augmentation": False}
    return json.dumps([args, hparams], default=lambda scalar: scalar.item(), sort_keys=True)


@lru_cache(maxsize=8)
def _validation(facts: str, index: int) -> tuple[Any, Any]:
    """The images and labels of one out-split; the same for every checkpoint of a run."""
    import torch

    args, hparams = json.loads(facts)
    datasets, misc = _module("datasets"), _module("lib.misc")
    if not hasattr(datasets, args["dataset"]):
        raise InputError(
            f"Expected a data set of DomainBed, but it has no {args['dataset']!r}.", code="missing"
        )
    _seed(args["seed"])  # as the training did: some data sets are drawn when they are opened
    data = getattr(datasets, args["dataset"])(args["data_dir"], args["test_envs"], hparams)
    size = int(len(data[index]) * args["holdout_fraction"])
    out, _ = misc.split_dataset(data[index], size, misc.seed_hash(args["trial_seed"], index))
    if size == 0:
        raise InputError(
            f"Expected validation examples of env{index}, but its out-split is empty.", code="empty"
        )
    examples = [out[i] for i in range(len(out))]
    images = torch.stack([torch.as_tensor(image) for image, _ in examples])
    return images, torch.as_tensor([int(label) for _, label in examples])


def _logits(checkpoint: Checkpoint, images: Any) -> Any:
    import torch

    name = checkpoint.args["algorithm"]
    algorithms = _module("algorithms")
    if not hasattr(algorithms, name):
        raise InputError(
            f"Expected an algorithm of DomainBed, but it has no {name!r}.", code="missing"
        )
    algorithm = getattr(algorithms, name)(
        checkpoint.input_shape, checkpoint.classes, checkpoint.domains, checkpoint.hparams
    )
    algorithm.load_state_dict(checkpoint.state)
    algorithm.eval()
    with torch.no_grad():
        return torch.cat([algorithm.predict(batch) for batch in images.split(_BATCH)])


def _seed(seed: int) -> None:
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _module(name: str) -> Any:
    try:
        with naming_extras():
            return import_module(f"domainbed.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "domainbed":
            raise
        raise InputError(
            "Expected DomainBed, but it cannot be imported: set PYTHONPATH to the folder of your "
            "checkout, the one that holds domainbed/.",
            code="missing",
        ) from None


def selection_method(
    rule: str | Choice = DEFAULT_RULE,
    *,
    predictions: str | Predictions | None = None,
    **options: Any,
) -> type[Any]:
    """A class for DomainBed's ``SELECTION_METHODS``, which chooses steps by a rule of checkwise.

    Within a run the rule chooses the step; among runs DomainBed compares the source accuracies of
    the chosen steps, as its own methods do. The target is read after the choice.

    Args:
        rule: a name from ``cw.rules()``, or a ``cw.Choice``. DomainBed logs accuracies alone; all
            but ``source-acc`` and ``ac-early`` need the predictions, or a log with calibration.
        predictions: where ``checkwise predict`` wrote, as a folder below each run's output_dir, or
            ``predictions(args)`` → folder; without it the records themselves are read.
        options: as for ``cw.select``: ``delta_pp``, ``q`` …
    """
    choice = Choice.of(rule, **options)  # a wrong one is refused before any record is read
    if predictions is not None and not isinstance(predictions, str) and not callable(predictions):
        raise InputError(
            f"Expected a folder or a function as predictions, but got {predictions!r:.60}."
        )
    base = _module("model_selection").SelectionMethod

    def run_acc(cls: type[Any], run_records: Any) -> dict[str, float] | None:
        records = [r for r in run_records if len(r["args"]["test_envs"]) == 1]
        if not records:
            return None
        chosen = _choose(records, choice, predictions)
        target = f"env{records[0]['args']['test_envs'][0]}_in_acc"
        (tested,) = [record[target] for record in records if record["step"] == chosen.step][-1:]
        if chosen.accuracy is None:
            raise InputError(
                "Expected source accuracies, but these predictions have none.", code="missing"
            )
        return {"val_acc": chosen.accuracy, "test_acc": tested}

    body = {"name": f"checkwise {choice.as_dict()['rule']}", "run_acc": classmethod(run_acc)}
    return type("CheckwiseSelectionMethod", (base,), body)


def _choose(
    records: list[dict[str, Any]],
    choice: Choice,
    predictions: str | Predictions | None,
) -> Selection:
    """The step of one run; nothing of its target is handed on."""
    args = records[0]["args"]
    if predictions is not None:
        below = Path(args["output_dir"])
        folder = predictions(args) if callable(predictions) else below / predictions
        return select(load(Path(folder)), choice)
    targets = {str(index) for index in args["test_envs"]}
    lines = [
        json.dumps({k: v for k, v in record.items() if not _is_of(k, targets)})
        for record in sorted(records, key=lambda record: record["step"])
    ]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "results.jsonl")
        log.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return select(load(log), choice)


def _is_of(field: str, targets: set[str]) -> bool:
    match = _FIELD.match(field)
    return match is not None and match[1] in targets
