"""Occlusion maps: which patches of one image a prediction and its true-label loss rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import BINS
from checkwise.study import ImageCase, Predictions
from checkwise.study.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]
Predict = Callable[[FloatArray], Any]

PATCH = 16
TOP = 3


@dataclass(frozen=True, eq=False)
class Occlusion:
    """One checkpoint on one image.

    Args:
        confidence: decrease of the probability of the class predicted for the whole image, per
            masked patch; positive where the patch supports the prediction.
        nll: increase of the true label's NLL; positive where the patch supports the true class.
        predicted: that class, fixed from the unmasked image.
        top: the largest probabilities of the unmasked image, (class, probability).
        bin_gap: |confidence − accuracy| of the confidence bin the example falls in; nan if unknown.
    """

    confidence: FloatArray
    nll: FloatArray
    predicted: int
    top: tuple[tuple[int, float], ...]
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
    """Mask one patch after the other.

    Args:
        predict: normalised images [n, channels, height, width] in, logits [n, C] out.
        image: one normalised image [channels, height, width].
        label: its class.
        patch: side and stride of the patches; the image's sides are multiples of it.
        fill: what masked pixels are set to; 0 is the mean of a normalised image.
        bin_gap: passed through to the figure.
    """
    _, height, width = image.shape
    if height % patch or width % patch:
        raise InputError(
            f"Expected an image whose sides are multiples of {patch}, but got {height} × {width}: "
            "resize it, or choose another patch.",
            code="unsupported",
        )
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
    """Every checkpoint of a case on its image."""
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
    """The figure of a case; images are shown in colour, digits in grey."""
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
    """A row per checkpoint: exemplar, image, both maps (one scale per metric), top-3 bars.

    ``image`` and ``exemplar`` (of the true class, from a source domain) are [height, width, 3] in
    0–1 for display.
    """
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
