"""Everything that determines a run, complete and plain, so that two runs can be told apart."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store.retention import Keep
from checkwise.train.hparams import Value

NetworkKind: TypeAlias = Literal["digits", "mlp", "linear", "backbone"]
NETWORK_KINDS: Final[tuple[NetworkKind, ...]] = get_args(NetworkKind)
Logits: TypeAlias = Literal["none", "source", "all"]
LOGITS: Final[tuple[Logits, ...]] = get_args(Logits)
Tune: TypeAlias = Literal["head", "last-stage", "all"]
TUNES: Final[tuple[Tune, ...]] = get_args(Tune)
Average: TypeAlias = Literal["sma", "dense-swad"]
AVERAGES: Final[tuple[Average, ...]] = get_args(Average)
SMA_START: Final = 100


@dataclass(frozen=True)
class NetworkConfig:
    """Which network is trained.

    ``digits`` is the small CNN, ``mlp`` and ``linear`` are heads on features, ``backbone`` is a
    pretrained image network of which ``tune`` says what learns. ``hidden`` is the width of an MLP
    head, also of the one on a frozen backbone. Dropout is the hyperparameter ``resnet_dropout``.
    """

    kind: NetworkKind
    hidden: int = 256
    backbone: str = "lite0"
    tune: Tune = "head"
    freeze_bn: bool = False


@dataclass(frozen=True)
class RunConfig:
    """One run, completely: whoever has this and the data can repeat it bit for bit.

    ``steps`` counts updates; a record is written at every ``record_every``-th step and the last.
    ``fingerprint`` is that of the examples the network sees, frozen part applied.
    ``keep_delta_pp`` is a decimal in percentage points, as text so that it means what was written.
    ``averages`` names averages of the weights that are kept during training. ``init_seed`` is the
    seed of the first weights where several runs share them; None where they follow from
    ``training_seed``, like everything else. ``plugins`` maps every plugin that the run was given to
    the SHA-256 of its file, ``metrics`` what they add to the journals to "lower" or "higher".
    """

    key: RunKey
    fingerprint: str
    network: NetworkConfig
    hparams: Mapping[str, Value]
    training_seed: int
    steps: int
    record_every: int
    holdout: float = 0.2
    bins: int = 15
    bandwidth: float = 0.1
    keep: Keep = "feasible"
    keep_delta_pp: str = "1.0"
    logits: Logits = "none"
    source_in: bool = False
    augment: bool = False
    device: str = "cpu"
    threads: int = 1
    averages: tuple[Average, ...] = ()
    init_seed: int | None = None
    plugins: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        facts = {**asdict(self), "key": self.key.as_dict(), "hparams": dict(self.hparams)}
        facts["averages"] = list(self.averages)
        # Left out where unused, so that runs begun before these existed can be continued.
        for name in ("averages", "init_seed", "plugins", "metrics"):
            if facts[name] in ([], {}, None):
                del facts[name]
        data = {"dataset": self.key.dataset, "fingerprint": facts.pop("fingerprint")}
        return {"data": data, **facts}

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()


def check_same(config: RunConfig, recorded: Mapping[str, Any], where: object) -> None:
    """Refuse to continue a run as another one; the message names what differs."""
    found = dict(_flat(json.loads(json.dumps(config.as_dict()))))
    before = dict(_flat(recorded))
    differing = sorted(
        name for name in {*found, *before} if found.get(name, _GONE) != before.get(name, _GONE)
    )
    if not differing:
        return
    shown = ", ".join(
        f"{name} (was {_short(before.get(name, _GONE))}, now {_short(found.get(name, _GONE))})"
        for name in differing
    )
    advice = "use another folder, or restore what changed"
    if differing == ["data.fingerprint"]:
        advice = "the data changed: restore them, or use another folder"
    raise InputError(
        f"Expected the configuration this run began with, but got other values of {shown} in "
        f"{where}: {advice}."
    )


_GONE = "nothing"


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 16 else f"{text[:12]}…"
