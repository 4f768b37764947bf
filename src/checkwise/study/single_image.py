"""One image of an unseen domain as two checkpoints of a run see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import has_file, layout
from checkwise.study.folder import CohortRecord, unseal
from checkwise.study.heldout import Predictions

if TYPE_CHECKING:
    from torch import Tensor

    from checkwise.study.baselines import OpenRun
    from checkwise.study.data import DomainDataset

FloatArray = NDArray[np.float64]
Predict = Callable[[FloatArray], Any]


@dataclass(frozen=True, eq=False)
class ImageCase:
    """An example of a held-out domain, and what a figure of it needs.

    Args:
        domain, row: where the example is: the ``row``-th that the run was evaluated on.
        label: its class; ``classes`` names all of them.
        pixels: [height, width, channels], 0–255.
        image: the same as the network takes it, [channels, height, width].
        exemplar: an image of the same class from ``exemplar_domain``, a source domain.
        predict: by name of a checkpoint, images like ``image`` [n, …] in, logits [n, C] out.
        predictions: by the same names, logits on every evaluated example of the domain.
    """

    domain: str
    row: int
    label: int
    classes: tuple[str, ...]
    pixels: NDArray[np.uint8]
    image: FloatArray
    exemplar: NDArray[np.uint8] | None
    exemplar_domain: str
    predict: Mapping[str, Predict]
    predictions: Mapping[str, Predictions]


def image_case(
    cohort: CohortRecord,
    key: RunKey,
    steps: Mapping[str, int],
    roots: Mapping[str, str],
    *,
    row: int | None = None,
) -> ImageCase:
    """Open a held-out image, which marks the cohort; by default the one they differ most about.

    ``steps`` names the checkpoints. The default image has the largest difference of the true
    label's NLL between the first and the last of them: it illustrates, it proves nothing.

    Raises:
        InputError: the run kept no weights at these steps, or was not trained on images.
    """
    from checkwise.deployed import read_checkpoint
    from checkwise.study.baselines import OpenRuns
    from checkwise.study.sweep import Study, open_spec

    folder = cohort.runs[key]
    for step in steps.values():
        if not has_file(folder, layout.checkpoint_file(step)):
            raise InputError(
                f"Expected the weights of step {step} of {key}, but there are none: occlusion "
                "needs checkpoints; train with `keep` under [records] of the study, and do not "
                "move weights away.",
                code="missing",
            )
    spec = next(spec for spec in Study.from_dict(cohort.study).data if spec.name == key.dataset)
    raw = open_spec(spec, roots)
    if raw.kind == "features":
        raise InputError(
            f"Expected images to cover in patches, but {key.dataset} holds features: occlusion "
            "needs a study whose data are images.",
            code="unsupported",
        )
    run = OpenRuns(roots)(cohort, key)
    domain = key.held_out[0]
    part = next(part for part in run.parts if part.role == "heldout" and part.domain == domain)
    if row is not None:
        _check_row(row, len(part.rows))
    weights = {name: read_checkpoint(folder, step) for name, step in steps.items()}
    unseal(folder)
    outputs = {name: run.outputs(of_step) for name, of_step in weights.items()}
    predictions = {
        name: Predictions(steps[name], domain, output.of("heldout")[domain][0], part.labels)
        for name, output in outputs.items()
    }
    at = _most_different(predictions) if row is None else row
    pixels = raw.x[part.index][part.rows[at]]
    label = int(part.labels[at])
    exemplar, source = _exemplar(raw, key, label)
    return ImageCase(
        domain=domain,
        row=at,
        label=label,
        classes=raw.classes,
        pixels=pixels,
        image=_as_input(run, pixels),
        exemplar=exemplar,
        exemplar_domain=source,
        predict={name: _predictor(run, of_step) for name, of_step in weights.items()},
        predictions=predictions,
    )


def _predictor(run: OpenRun, weights: Mapping[str, Tensor]) -> Predict:
    """From network inputs to logits: the frozen part of a backbone, if any, then what learned."""
    import torch

    from checkwise.study.train import backbone_named, frozen_part

    network = run.config.network
    frozen = None
    if network.kind == "backbone":
        frozen = frozen_part(backbone_named(network.backbone), network.tune).module

    def predict(images: FloatArray) -> Any:
        run.load(weights)
        with torch.inference_mode():
            x = torch.from_numpy(np.asarray(images, dtype=np.float32))
            x = x if frozen is None else frozen(x)
            return run.algorithm.predict(x.to(run.data.device)).float().cpu().numpy()

    return predict


def _as_input(run: OpenRun, pixels: NDArray[np.uint8]) -> FloatArray:
    import torch

    from checkwise.study.train import backbone_named

    network = run.config.network
    channels_first = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    if network.kind != "backbone":
        return channels_first.astype(np.float64) / 255
    batch = torch.from_numpy(channels_first)[None]
    normalised = backbone_named(network.backbone).normalise(batch)[0]
    return np.asarray(normalised.double().numpy())


def _most_different(predictions: Mapping[str, Predictions]) -> int:
    losses = [of_checkpoint.examples.nll for of_checkpoint in predictions.values()]
    return int(np.abs(losses[0] - losses[-1]).argmax())


def _check_row(row: int, n: int) -> None:
    if not 0 <= row < n:
        raise InputError(
            f"Expected --example between 0 and {n - 1}, the evaluated images of the held-out "
            f"domain, but got {row}."
        )


def _exemplar(raw: DomainDataset, key: RunKey, label: int) -> tuple[NDArray[np.uint8] | None, str]:
    for index, domain in enumerate(raw.domains):
        rows = np.flatnonzero(raw.y[index] == label)
        if domain not in key.held_out and len(rows):
            return raw.x[index][rows[0]], domain
    return None, ""
