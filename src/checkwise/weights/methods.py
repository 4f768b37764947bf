"""Every way to get a deployable model from a cohort: rules that pick a step, and what makes more.

A new method is a file that makes it, a line in ``_BUILT_IN`` and a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from checkwise.errors import InputError
from checkwise.selection import rules

Need: TypeAlias = Literal["logs", "logits", "weights", "data", "training"]
NEEDS: Final[tuple[Need, ...]] = get_args(Need)
Scope: TypeAlias = Literal["run", "cohort"]


@dataclass(frozen=True)
class Method:
    """One row of a comparison.

    Args:
        name: what users type.
        summary: one line.
        needs: what has to be there: the journals of source validation (``logs``), saved outputs
            (``logits``), saved checkpoints (``weights``), the examples (``data``), or runs that
            were trained for it (``training``).
        scope: whether it looks at one run or at several at a time.
        is_rule: whether it picks a saved step, so that nothing has to be derived.
    """

    name: str
    summary: str
    needs: frozenset[Need]
    scope: Scope = "run"
    is_rule: bool = False

    def __post_init__(self) -> None:
        unknown = sorted(set(self.needs) - set(NEEDS))
        if unknown:
            raise InputError(
                f"Expected needs among {', '.join(NEEDS)}, but got {unknown[0]!r} for the method "
                f"{self.name!r}."
            )


_LOGS: Final = frozenset[Need]({"logs"})
_WEIGHTS: Final = frozenset[Need]({"logs", "weights", "data"})
_TRAINED: Final = frozenset[Need]({"weights", "data", "training"})
_LOGITS: Final = frozenset[Need]({"logs", "logits"})
_INNER: Final = frozenset[Need]({"logs", "training"})

_BUILT_IN: Final = (
    Method("swad", "mean of the checkpoints in the loss valley, BatchNorm re-estimated", _WEIGHTS),
    Method("swad-as-described", "the same with each checkpoint of the valley once", _WEIGHTS),
    Method("swad-nobn", "swad with the BatchNorm buffers of its first checkpoint", _WEIGHTS),
    Method("swad-as-described-nobn", "swad-as-described, buffers of its first", _WEIGHTS),
    Method("source-acc-bn", "source-acc with BatchNorm re-estimated: swad's control", _WEIGHTS),
    Method("ac-nc-mean-weights", "mean of the parameters of every feasible checkpoint", _WEIGHTS),
    Method("ac-nc-top3-weights", "mean of the parameters of the three ac-nc ranks best", _WEIGHTS),
    Method("ac-nc-mean-probs", "mean of the predictions of every feasible checkpoint", _WEIGHTS),
    Method("ac-nc-top3-probs", "mean of the predictions of the three ac-nc ranks best", _WEIGHTS),
    Method("sma", "mean of the weights of every update from step 100 on", _TRAINED),
    Method("dense-swad", "mean of the weights of every update in the loss valley", _TRAINED),
    Method("eoa", "mean of the logits of the sma of independent runs", _TRAINED, "cohort"),
    Method(
        "diwa-uniform", "mean of the source-acc weights of runs with one start", _TRAINED, "cohort"
    ),
    Method(
        "diwa-greedy",
        "the same, each run added where source accuracy does not fall",
        _TRAINED,
        "cohort",
    ),
    Method("source-acc+ts", "source-acc, then one temperature on pooled source logits", _LOGITS),
    Method("source-acc+ts-multi", "the same with the mean of a temperature per domain", _LOGITS),
    Method("source-acc+ts-weighted", "the same, domains weighted for every example", _LOGITS),
    Method("ac-nc+ts", "ac-nc, then one temperature on pooled source logits", _LOGITS),
    Method("ac-nc+ts-multi", "the same with the mean of a temperature per domain", _LOGITS),
    Method("ac-nc+ts-weighted", "the same, domains weighted for every example", _LOGITS),
    Method("wald-recalibrated", "smallest ece after scaling each accurate checkpoint", _LOGITS),
    Method("pair-last10", "low penalty among the last ten, highest accuracy (VREx, IRM)", _LOGS),
    Method("pair-valfilter", "near the best accuracy, lowest penalty (VREx, IRM)", _LOGS),
    Method("lyu-mmd", "low validation loss, then risk plus MMD between domains", _WEIGHTS),
    Method("lyu-coral", "low validation loss, then risk plus CORAL distance", _WEIGHTS),
    Method("mixup-acc", "highest accuracy on validation pairs mixed across domains", _WEIGHTS),
    Method("mixup-loss", "lowest loss on validation pairs mixed across domains", _WEIGHTS),
    Method("lodo-acc", "highest accuracy of inner runs on domains left out", _INNER, "cohort"),
    Method("ac-lodo", "near that, smallest nll + hard_cwece on them", _INNER, "cohort"),
    Method("hparams-acc", "source-acc over all hyperparameter seeds", _LOGS, "cohort"),
    Method("hparams-ac", "ac-nc over all hyperparameter seeds", _LOGS, "cohort"),
)

_METHODS: dict[str, Method] = {method.name: method for method in _BUILT_IN}


def methods() -> Mapping[str, Method]:
    """Every rule and every other method by name.

    Example:
        >>> methods()["ac-nc"].is_rule, sorted(methods()["swad"].needs)
        (True, ['data', 'logs', 'weights'])
    """
    as_methods = {
        rule.name: Method(rule.name, rule.summary, _LOGS, is_rule=True) for rule in rules().values()
    }
    return MappingProxyType({**as_methods, **_METHODS})


def get_method(name: str) -> Method:
    """A method by name; an unknown name lists the known ones."""
    known = methods()
    if name not in known:
        raise InputError(f"Expected one of the methods {', '.join(known)}, but got {name!r}.")
    return known[name]


def register_method(method: Method) -> Method:
    """Add a method; names are taken once."""
    if method.name in methods():
        raise InputError(f"A method named {method.name!r} exists already: choose another name.")
    _METHODS[method.name] = method
    return method
