"""The complete configuration of a run, in plain values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sized
from dataclasses import MISSING, asdict, dataclass, field, fields
from types import UnionType
from typing import (
    Any,
    Final,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from checkwise.errors import InputError
from checkwise.metrics import BANDWIDTH, BINS
from checkwise.records import RunKey
from checkwise.store import SplitBy
from checkwise.study.train.hparams import Value
from checkwise.words import shown

NetworkKind: TypeAlias = Literal["digits", "mlp", "linear", "backbone"]
NETWORK_KINDS: Final[tuple[NetworkKind, ...]] = get_args(NetworkKind)
Logits: TypeAlias = Literal["none", "outcomes", "source-half", "source", "all"]
LOGITS: Final[tuple[Logits, ...]] = get_args(Logits)
Tune: TypeAlias = Literal["head", "last-stage", "last-two-stages", "all"]
TUNES: Final[tuple[Tune, ...]] = get_args(Tune)
Keep: TypeAlias = Literal["all", "feasible", "none"]
KEEPS: Final[tuple[Keep, ...]] = get_args(Keep)
Average: TypeAlias = Literal["sma", "dense-swad"]
AVERAGES: Final[tuple[Average, ...]] = get_args(Average)
SMA_START: Final = 100


@dataclass(frozen=True)
class NetworkConfig:
    """Which network is trained.

    ``digits`` is the small CNN, ``mlp`` and ``linear`` are heads on features, ``backbone`` is a
    pretrained image network; ``tune`` is the part of it that learns. ``hidden`` is the width of an
    MLP head, also on a frozen backbone. Dropout is the hyperparameter ``resnet_dropout``.
    ``bn_momentum`` of None leaves that of the pretrained network; ``channels_last`` is how
    convolutions lie in memory.
    """

    kind: NetworkKind
    hidden: int = 256
    backbone: str = "lite0"
    tune: Tune = "head"
    freeze_bn: bool = False
    bn_momentum: float | None = None
    channels_last: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain values; the last two only where they are set, as in files older than they are."""
        facts = asdict(self)
        unused = [name for name in ("bn_momentum", "channels_last") if not facts[name]]
        return {name: value for name, value in facts.items() if name not in unused}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What a study sets for all of its runs alike.

    ``steps`` counts updates; a record is written at every ``record_every``-th step and the last.
    ``keep_delta_pp`` is a decimal in percentage points, as text so that it means what was written.
    ``split_by`` says whether validation holds out examples, whole groups, or both side by side.
    ``averages`` names averages of the weights that are taken during training. ``plugins`` maps the
    plugins in use to the SHA-256 of their files, ``metrics`` the metrics that they add to the
    journals to "lower" or "higher".
    """

    network: NetworkConfig
    steps: int
    record_every: int
    holdout: float = 0.2
    bins: int = BINS
    bandwidth: float = BANDWIDTH
    keep: Keep = "feasible"
    keep_delta_pp: str = "1.0"
    logits: Logits = "none"
    source_in: bool = False
    augment: bool = False
    split_by: SplitBy = "examples"
    averages: tuple[Average, ...] = ()
    plugins: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """These fields alone, as keyword arguments."""
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
        """Plain values for ``run.json``."""
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
        key = RunKey.from_dict(facts.get("key"))
        data = facts.pop("data", None)
        if not isinstance(data, Mapping) or data.get("dataset") != key.dataset:
            raise _unlike("data", data, where)
        network = facts.get("network")
        if not isinstance(network, Mapping):
            raise _unlike("network", network, where)
        facts["network"] = _built(NetworkConfig, network, where)
        facts["averages"] = tuple(facts.get("averages", ()))
        return _built(cls, {**facts, "key": key, "fingerprint": data.get("fingerprint")}, where)

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
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
    unused = [name for name in (*_OPTIONAL, *optional) if _is_unused(facts[name])]
    return {name: facts[name] for name in (*first, *between, *last) if name not in unused}


_OPTIONAL = ("averages", "plugins", "metrics", "split_by")


def _is_unused(value: object) -> bool:
    default = value is None or value is False or value == RunSettings.split_by
    return default or (isinstance(value, Sized) and not len(value))


def check_same(config: RunConfig, recorded: Mapping[str, Any], where: object) -> None:
    """Refuse to continue a run with another configuration; the message names what differs."""
    gone = "nothing"
    after = dict(_flat(json.loads(json.dumps(config.as_dict()))))
    before = dict(_flat(recorded))
    differing = sorted(
        name for name in {*after, *before} if after.get(name, gone) != before.get(name, gone)
    )
    if not differing:
        return
    shown = ", ".join(
        f"{name} (was {_short(before.get(name, gone))}, now {_short(after.get(name, gone))})"
        for name in differing
    )
    advice = "use another folder, or restore what changed"
    if differing == ["data.fingerprint"]:
        advice = "the data changed: restore them, or use another folder"
    raise InputError(
        f"Expected the configuration that the run started with, but got other values of {shown} "
        f"in {where}: {advice}.",
        code="differs",
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 16 else f"{text[:12]}…"


_Facts = TypeVar("_Facts")


def _built(kind: type[_Facts], values: Mapping[str, Any], where: object) -> _Facts:
    """A dataclass from plain values, each checked against its field's type."""
    types = get_type_hints(kind)
    for name, value in values.items():
        if name not in types or not _fits(value, types[name]):
            raise _unlike(name, value, where)
    for entry in fields(kind):  # type: ignore[arg-type]
        required = entry.default is MISSING and entry.default_factory is MISSING
        if required and entry.name not in values:
            raise _unlike(entry.name, None, where)
    return kind(**values)


def _fits(value: object, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(entry, inner[0]) for entry in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(name, inner[0]) and _fits(entry, inner[1]) for name, entry in value.items()
        )
    if origin is UnionType:
        return any(_fits(value, option) for option in inner)
    return type(value) is kind or (kind is float and type(value) is int)


def _unlike(name: str, value: object, where: object) -> InputError:
    entry = f"no `{name}`" if value is None else f"`{name}` = {shown(value)}"
    return InputError(
        f"Expected the complete configuration of a run, but got {entry} in {where}: restore the "
        "file from a copy, or train the run again.",
        code="damaged",
    )
