"""The complete configuration of a run, in plain values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from checkwise.errors import InputError
from checkwise.metrics import BANDWIDTH, BINS
from checkwise.records import RunKey
from checkwise.store import SplitBy
from checkwise.study.train.hparams import Value
from checkwise.study.train.schema import UnfitError, from_plain, key, names, number, whole
from checkwise.words import shortened, shown

NetworkKind: TypeAlias = Literal["digits", "mlp", "linear", "backbone"]
Logits: TypeAlias = Literal["none", "outcomes", "source-half", "source", "all"]
Tune: TypeAlias = Literal["head", "last-stage", "last-two-stages", "all"]
TUNES: Final[tuple[Tune, ...]] = get_args(Tune)
Keep: TypeAlias = Literal["all", "feasible", "none"]
Average: TypeAlias = Literal["sma", "dense-swad"]
AVERAGES: Final[tuple[Average, ...]] = get_args(Average)
SMA_START: Final = 100


@dataclass(frozen=True)
class NetworkConfig:
    """Which network is trained; dropout is the hyperparameter ``resnet_dropout``."""

    kind: NetworkKind = key(
        "a small CNN for digits, a head on features, or a pretrained image network"
    )
    hidden: int = key("hidden units of the head, for `mlp` and `backbone`", 256)
    backbone: str = key("`lite0`, `resnet50`, or `timm:<model>` for any model of timm", "lite0")
    tune: Tune = key("the part of the backbone that learns", "head")
    freeze_bn: bool = key("BatchNorm keeps its pretrained statistics", False)
    bn_momentum: float | None = key(
        "weight of a new minibatch in the statistics of live BatchNorm",
        None,
        kind=number(0, 1),
        shown="that of the pretrained network",
    )
    channels_last: bool = key(
        "convolutions with the channels last in memory: faster, other last bits", False
    )

    def as_dict(self) -> dict[str, Any]:
        """Plain values; the last two only where they are set, as in files older than they are."""
        facts = asdict(self)
        unused = [name for name in ("bn_momentum", "channels_last") if not facts[name]]
        return {name: value for name, value in facts.items() if name not in unused}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What a study sets for all of its runs alike.

    ``keep_delta_pp`` is a decimal in percentage points, as text so that it means what was written.
    ``plugins`` maps the plugins in use to the SHA-256 of their files, ``metrics`` the metrics that
    they add to the journals to "lower" or "higher".
    """

    network: NetworkConfig
    steps: int = key("updates per run", table="training")
    record_every: int = key(
        "updates between checkpoints; the first and the last update have one too", table="training"
    )
    holdout: float = key(
        "share of every domain used for validation", 0.2, kind=number(0, 1), table="training"
    )
    bins: int = key("bins of the calibration errors", BINS, kind=whole(2), table="records")
    bandwidth: float = key("width of the soft bins", BANDWIDTH, kind=number(0, 10), table="records")
    keep: Keep = key("checkpoints whose weights stay on disk", "feasible", table="records")
    keep_delta_pp: str = key(
        "`feasible` keeps weights within this many points of the best accuracy",
        "1.0",
        kind=number(0, 100, ends=True),
        unset=1.0,
        table="records",
    )
    logits: Logits = key(
        "save the logits of the validation sets, or also of the held-out domains; `outcomes`: "
        "only which examples were correct, and their NLL; `source-half`: both, with logits in "
        "half precision",
        "none",
        table="records",
    )
    source_in: bool = key(
        "also evaluate the training part of the source domains", False, table="records"
    )
    augment: bool = key(
        "crop, flip and recolour training images at random",
        False,
        unset=None,
        shown='true with `tune = "all"`, else false',
        table="training",
    )
    split_by: SplitBy = key(
        "what validation holds out: examples, whole `groups` of [data], or both, as two "
        "validation sets along one training",
        "examples",
        table="training",
    )
    averages: tuple[Average, ...] = key(
        "averages of the weights, taken during training",
        (),
        kind=names(lambda: AVERAGES, empty=True),
        table="training",
    )
    plugins: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(RunSettings)}


@dataclass(frozen=True)
class RunConfig(RunSettings):
    """One run, completely: whoever has this and the data can repeat it bit for bit.

    ``fingerprint`` is that of the examples the network sees, frozen part applied. ``init_seed`` is
    the seed of the first weights where several runs share them; None where they follow from
    ``training_seed``, like everything else.
    """

    key: RunKey
    fingerprint: str
    hparams: Mapping[str, Value]
    training_seed: int
    device: str = "cpu"
    threads: int = 1
    init_seed: int | None = None

    def as_dict(self) -> dict[str, Any]:
        facts = {**asdict(self), "key": self.key.as_dict(), "hparams": dict(self.hparams)}
        facts["network"] = self.network.as_dict()
        facts["averages"] = list(self.averages)
        facts["data"] = {"dataset": self.key.dataset, "fingerprint": facts.pop("fingerprint")}
        return plain_facts(
            facts,
            first=("data", "key", "network", "hparams", "training_seed"),
            last=("device", "threads", "averages", "init_seed", "plugins", "metrics"),
            optional=("init_seed",),
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: object) -> Self:
        """A configuration from its ``as_dict``; ``where`` is for messages."""
        facts = dict(values)
        facts["key"] = RunKey.from_dict(facts.get("key"))
        data = facts.pop("data", None)
        if isinstance(data, Mapping) and data.get("dataset") == facts["key"].dataset:
            facts["fingerprint"] = data.get("fingerprint")
        try:
            return from_plain(cls, facts)
        except UnfitError as unfit:
            name = "data" if unfit.advice == "fingerprint" else unfit.advice
            got = f"no `{name}`" if unfit.value is None else f"`{name}` = {shown(unfit.value)}"
            raise InputError(
                f"Expected the complete configuration of a run, but got {got} in {where}: restore "
                "the file from a copy, or train the run again.",
                code="damaged",
            ) from None

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()


def plain_facts(
    facts: Mapping[str, Any],
    *,
    first: tuple[str, ...],
    last: tuple[str, ...],
    optional: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Facts in the order of a file's keys, without optional ones that are not in use.

    Leaving these out keeps files alike that were written before the option existed.
    """
    between = [name for name in facts if name not in (*first, *last)]
    unused = [
        name
        for name in ("averages", "plugins", "metrics", "split_by", *optional)
        if facts[name] is None or facts[name] is False or facts[name] in ("examples", (), [], {})
    ]
    return {name: facts[name] for name in (*first, *between, *last) if name not in unused}


def check_same(config: RunConfig, recorded: Mapping[str, Any], where: object) -> None:
    """Refuse to continue a run with another configuration; the message names what differs."""
    after = dict(_flat(json.loads(json.dumps(config.as_dict()))))
    before = dict(_flat(recorded))
    gone = "nothing"
    differing = {
        name: (str(before.get(name, gone)), str(after.get(name, gone)))
        for name in sorted({*after, *before})
        if after.get(name, gone) != before.get(name, gone)
    }
    if not differing:
        return
    values = ", ".join(
        f"{name} (was {shortened([was], letters=16)}, now {shortened([now], letters=16)})"
        for name, (was, now) in differing.items()
    )
    advice = "use another folder, or restore what changed"
    if list(differing) == ["data.fingerprint"]:
        advice = "the data changed: restore them, or use another folder"
    raise InputError(
        f"Expected the configuration that the run started with, but got other values of {values} "
        f"in {where}: {advice}.",
        code="differs",
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
