"""Occlusion maps: which patches of one image of an unseen domain two checkpoints rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import BINS
from checkwise.records import RunKey
from checkwise.store import checkpoint_file, has_file
from checkwise.study import FloatArray, Predictions
from checkwise.study.figures import style
from checkwise.study.folder import CohortRecord, unseal

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from checkwise.study.baselines import OpenRun
    from checkwise.study.data import DomainDataset

Predict = Callable[[FloatArray], Any]

PATCH = 16
TOP = 3


@dataclass(frozen=True, eq=False)
class ImageCase:
    """An example of a held-out domain, and what a figure of it needs."""

    domain: str  # where the example is: the ``row``-th that the run was evaluated on
    row: int
    label: int  # its class; ``classes`` names all of them
    classes: tuple[str, ...]
    pixels: NDArray[np.uint8]  # [height, width, channels], 0–255
    image: FloatArray  # the same as the network takes it, [channels, height, width]
    # an image of the same class from ``exemplar_domain``, a source domain
    exemplar: NDArray[np.uint8] | None
    exemplar_domain: str
    # by name of a checkpoint, images like ``image`` [n, …] in, logits [n, C] out
    predict: Mapping[str, Predict]
    # by the same names, logits on every evaluated example of the domain
    predictions: Mapping[str, Predictions]


def image_case(
    cohort: CohortRecord,
    key: RunKey,
    steps: Mapping[str, int],
    roots: Mapping[str, str],
    *,
    row: int | None = None,
) -> ImageCase:
    """Open a held-out image, which marks the cohort; by default the one they differ most about."""
    from checkwise.deployed import read_checkpoint
    from checkwise.study.baselines import OpenRuns
    from checkwise.study.sweep import Study, open_spec

    folder = cohort.runs[key]
    for step in steps.values():
        if not has_file(folder, checkpoint_file(step)):
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
    if row is not None and not 0 <= row < len(part.rows):
        raise InputError(
            f"Expected an example between 0 and {len(part.rows) - 1}, the evaluated images of the "
            f"held-out domain, but got {row}."
        )
    weights = {name: read_checkpoint(folder, step) for name, step in steps.items()}
    unseal(folder)
    outputs = {name: run.outputs(of_step) for name, of_step in weights.items()}
    predictions = {
        name: Predictions(steps[name], domain, output.of("heldout")[domain][0], part.labels)
        for name, output in outputs.items()
    }
    losses = [of_checkpoint.examples.nll for of_checkpoint in predictions.values()]
    at = int(np.abs(losses[0] - losses[-1]).argmax()) if row is None else row
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


def _exemplar(raw: DomainDataset, key: RunKey, label: int) -> tuple[NDArray[np.uint8] | None, str]:
    for index, domain in enumerate(raw.domains):
        rows = np.flatnonzero(raw.y[index] == label)
        if domain not in key.held_out and len(rows):
            return raw.x[index][rows[0]], domain
    return None, ""


@dataclass(frozen=True, eq=False)
class Occlusion:
    """One checkpoint on one image."""

    # decrease of the probability of the class predicted for the whole image, per masked patch;
    # positive where the patch supports the prediction
    confidence: FloatArray
    # increase of the true label's NLL; positive where the patch supports the true class
    nll: FloatArray
    predicted: int  # that class, fixed from the unmasked image
    # the largest probabilities of the unmasked image, (class, probability)
    top: tuple[tuple[int, float], ...]
    # |confidence − accuracy| of the confidence bin the example falls in; nan if unknown
    bin_gap: float = float("nan")


def facts(
    predict: Predict,
    image: FloatArray,
    label: int,
    *,
    patch: int = PATCH,
    fill: float = 0.0,
    bin_gap: float = float("nan"),
) -> Occlusion:
    """Mask one patch after the other of one normalised ``image`` [channels, height, width]."""
    _, height, width = image.shape
    rows, columns = height // patch, width // patch
    masked = np.repeat(image[None], rows * columns + 1, axis=0)
    for i in range(rows * columns):
        y, x = divmod(i, columns)
        masked[i + 1, :, y * patch : (y + 1) * patch, x * patch : (x + 1) * patch] = fill
    z = np.asarray(predict(masked), dtype=np.float64)
    z = z - z.max(axis=1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    predicted = int(log_p[0].argmax())
    p = np.exp(log_p)
    order = np.argsort(-p[0], kind="stable")[:TOP]
    return Occlusion(
        (p[0, predicted] - p[1:, predicted]).reshape(rows, columns),
        (log_p[0, label] - log_p[1:, label]).reshape(rows, columns),
        predicted,
        tuple((int(c), float(p[0, c])) for c in order),
        bin_gap,
    )


def case_facts(case: ImageCase) -> dict[str, Occlusion]:
    patch = patch_for(*case.image.shape[1:])
    return {
        name: facts(
            predict,
            case.image,
            case.label,
            patch=patch,
            bin_gap=bin_gap(case.predictions[name], case.row),
        )
        for name, predict in case.predict.items()
    }


def draw_case(case: ImageCase, occlusions: Mapping[str, Occlusion]) -> Figure:
    exemplar = None if case.exemplar is None else _shown(case.exemplar)
    classes = dict(enumerate(case.classes))
    return draw(occlusions, _shown(case.pixels), classes=classes, exemplar=exemplar)


def patch_for(height: int, width: int) -> int:
    """16, or for a small image the largest side that leaves at least four patches each way.

    Example:
        >>> patch_for(224, 224), patch_for(28, 28)
        (16, 7)
    """
    largest = max(min(PATCH, height // 4, width // 4), 1)
    return next(side for side in range(largest, 0, -1) if height % side == width % side == 0)


def bin_gap(predictions: Predictions, row: int) -> float:
    """|mean confidence − accuracy| among the examples in the same confidence bin ((b−1)/B, b/B]."""
    examples = predictions.examples
    bins = np.maximum(np.ceil(examples.confidence * BINS), 1)
    same = bins == bins[row]
    return float(abs(examples.confidence[same].mean() - examples.correct[same].mean()))


def _shown(pixels: NDArray[np.uint8]) -> FloatArray:
    """[height, width, 3] in 0–1."""
    colours = pixels if pixels.shape[-1] == 3 else pixels.max(axis=-1, keepdims=True).repeat(3, -1)
    return np.asarray(colours, dtype=np.float64) / 255


def draw(
    by_checkpoint: Mapping[str, Occlusion],
    image: FloatArray,
    *,
    classes: Mapping[int, str],
    exemplar: FloatArray | None = None,
) -> Figure:
    """A row per checkpoint: exemplar, image, both maps (one scale per metric), top-3 bars."""
    figure = style.new_figure(2.2, 1.6 * len(by_checkpoint))
    scales = {
        name: max(float(np.abs(getattr(o, name)).max()) for o in by_checkpoint.values()) or 1.0
        for name in ("confidence", "nll")
    }
    maps = {"confidence": "PuOr_r", "nll": "PiYG"}
    for row, (name, shown) in enumerate(by_checkpoint.items()):
        pictures = [("source exemplar", exemplar), (f"target, {name}", image)]
        for column, (title, picture) in enumerate(pictures):
            axes = figure.add_subplot(len(by_checkpoint), 5, 5 * row + column + 1)
            axes.set_axis_off()
            axes.set_title(title, fontsize=6)
            if picture is not None:
                axes.imshow(picture)
        for column, metric in enumerate(("confidence", "nll")):
            axes = figure.add_subplot(len(by_checkpoint), 5, 5 * row + column + 3)
            axes.set_axis_off()
            axes.set_title(
                "Δ top-1 probability" if metric == "confidence" else "Δ true-label NLL", fontsize=6
            )
            limit = scales[metric]
            drawn = axes.imshow(getattr(shown, metric), cmap=maps[metric], vmin=-limit, vmax=limit)
            figure.colorbar(drawn, ax=axes, shrink=0.7).ax.tick_params(labelsize=5)
        axes = style.plain_axes(figure.add_subplot(len(by_checkpoint), 5, 5 * row + 5))
        axes.barh(
            range(len(shown.top)),
            [p for _, p in shown.top],
            color=style.rule_colour(name, fallback=0),
        )
        axes.set_yticks(range(len(shown.top)), [classes[c] for c, _ in shown.top], fontsize=6)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        gap = "" if np.isnan(shown.bin_gap) else f"bin gap {shown.bin_gap:.3f}"
        axes.set_title(gap, fontsize=6)
    return figure
