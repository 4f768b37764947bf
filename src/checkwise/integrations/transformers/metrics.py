"""The ``compute_metrics`` function of a Trainer: reliability of classifications, also streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.integrations.callbacks import SINGLE, check_function
from checkwise.integrations.validation import ValidationSums
from checkwise.metrics import BANDWIDTH, BINS, NAMES, Report, binary, to_numpy

IGNORED: Final = -100  # the label of what the loss leaves out: padding, parts of words
_BLOCK: Final = 1 << 20  # values of which the ignored ones are left out at a time

Outputs = Callable[[Any], tuple[Any, Any]]
ComputeMetrics = Callable[..., Mapping[str, Any]]


def reliability_metrics(
    compute_metrics: ComputeMetrics | None = None,
    *,
    outputs: Outputs | None = None,
    bins: int = BINS,
    bandwidth: float = BANDWIDTH,
) -> ReliabilityMetrics:
    """A ``compute_metrics`` function for a Trainer, without selection.

    Args:
        compute_metrics: your own function; its metrics are returned too.
        outputs: ``EvalPrediction`` → (logits, labels), where the first output or the labels of
            your model are something else.
        bins, bandwidth: settings of the calibration errors.

    Example:
        >>> from types import SimpleNamespace
        >>> prediction = SimpleNamespace(predictions=[[2.0, 0.0], [0.0, 1.0]], label_ids=[0, 1])
        >>> values = reliability_metrics()(prediction)
        >>> values["n"], values["accuracy"], round(values["nll"], 4)
        (2, 1.0, 0.2201)
    """
    return ReliabilityMetrics(compute_metrics, outputs=outputs, bins=bins, bandwidth=bandwidth)


class ReliabilityMetrics:
    """Called once with everything, or batch by batch with ``batch_eval_metrics=True``.

    Memory of the second way depends on the number of classes, not of examples. Classes are the
    last axis of the logits; labels of −100 are left out. Non-finite logits make every metric NaN.

    Args:
        compute_metrics, outputs, bins, bandwidth: as for :func:`reliability_metrics`.
        examples, logits: keep which examples were predicted correctly; their logits.
        names: the metrics of ours that are returned.

    Attributes:
        report: of the evaluation that ended last; None where its logits were not finite.
        values: all metrics of ours.
        returned: all that was returned for it.
    """

    def __init__(
        self,
        compute_metrics: ComputeMetrics | None = None,
        *,
        outputs: Outputs | None = None,
        bins: int = BINS,
        bandwidth: float = BANDWIDTH,
        examples: bool = False,
        logits: bool = False,
        names: Sequence[str] = NAMES,
    ) -> None:
        check_function(compute_metrics, "compute_metrics", "Trainer takes it")
        check_function(outputs, "outputs", "outputs=lambda prediction: (logits, labels)")
        self._own, self._names = compute_metrics, names
        self._outputs: Outputs = first_outputs
        if outputs is not None:  # what the Trainer has with one column by itself is a regression
            self._outputs = lambda prediction: _binary(*outputs(prediction))
        self._settings: dict[str, Any] = {"bins": bins, "bandwidth": bandwidth, "logits": logits}
        self._examples = examples
        self.report: Report | None = None
        self.values: dict[str, float] = {}
        self.returned: dict[str, Any] = {}
        self.reset()

    def reset(self) -> None:
        """Forget the batches of an evaluation that was interrupted between two of them."""
        self._sums = ValidationSums(SINGLE, **self._settings)

    def __call__(self, prediction: Any, compute_result: bool | None = None) -> dict[str, Any]:
        """The metrics; nothing until the last batch, which comes with ``compute_result=True``.

        An evaluation that fails is forgotten, so that its examples are not counted in the next.
        """
        if compute_result is None:
            self.reset()
        # Streamed examples are not kept: there may be more than fit.
        self._sums.examples = self._examples or compute_result is None
        try:
            for logits, labels in labelled(*self._outputs(prediction)):
                self._sums.update(logits, labels)
            keywords = {} if compute_result is None else {"compute_result": compute_result}
            own = self._own(prediction, **keywords) if self._own else {}
            return {} if compute_result is False else self._result(own or {})
        except BaseException:
            self.reset()
            raise

    def _result(self, own: Mapping[str, Any]) -> dict[str, Any]:
        sums = self._sums
        if sums.counted == 0:
            raise InputError(
                f"Expected at least one label, but every label of the evaluation set is {IGNORED}: "
                "check the labels.",
                code="empty",
            )
        result = sums.entry()
        self.report = result if isinstance(result, Report) else None
        self.values = self.report.values() if self.report else dict.fromkeys(NAMES, float("nan"))
        shown = {name: value for name, value in self.values.items() if name in self._names}
        self.returned = {**own, **shown, "n": sums.counted}
        self.reset()
        return self.returned


def first_outputs(prediction: Any) -> tuple[Any, Any]:
    """Logits and labels of an ``EvalPrediction``: the first output counts."""
    logits, labels = prediction.predictions, prediction.label_ids
    if isinstance(logits, tuple | list) and logits and hasattr(logits[0], "shape"):
        logits = logits[0]
    if isinstance(labels, tuple | list) and labels and hasattr(labels[0], "shape"):
        raise InputError(
            f"Expected one array of labels, but the model has {len(labels)}: say which logits and "
            "labels to use, with outputs=lambda prediction: (logits, labels).",
            code="ambiguous",
        )
    return logits, labels


def _binary(logits: Any, labels: Any) -> tuple[Any, Any]:
    shaped = logits if hasattr(logits, "shape") else to_numpy(logits, "logits")
    return binary(shaped, labels, "logits")


def labelled(logits: Any, labels: Any) -> Iterator[tuple[Any, Any]]:
    """Logits [n, C] and labels [n] without what is ignored; of tokens, every token is one row."""
    if not hasattr(logits, "reshape"):
        logits = to_numpy(logits, "logits")
    truth = to_numpy(labels, "labels")
    shape = tuple(logits.shape)
    if truth.shape != shape[:-1] or len(shape) not in (2, 3) or shape[-1] < 2:
        raise InputError(
            "Expected logits [n, C] with labels [n], or [n, tokens, C] with [n, tokens], and C of "
            f"at least 2, but got {list(shape)} with {list(truth.shape)}: classification with one "
            "label each is measured; for other models say what to use, with outputs=."
        )
    rows, truth = logits.reshape(-1, shape[-1]), truth.reshape(-1)
    counted = truth != IGNORED
    if counted.all():
        yield rows, truth
        return
    size = max(1, _BLOCK // shape[-1])
    for start in range(0, len(truth), size):
        part = slice(start, start + size)
        if counted[part].any():
            yield to_numpy(rows[part], "logits")[counted[part]], truth[part][counted[part]]
