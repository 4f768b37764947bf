"""``[network]`` of a study file: what is trained, and which part of it learns."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from checkwise.sweep.toml_table import TomlTable
from checkwise.train.config import NETWORK_KINDS, TUNES, NetworkConfig, NetworkKind, Tune


def parse_network(table: TomlTable) -> NetworkConfig:
    """The network of a study."""
    kind = cast(
        NetworkKind,
        table.text(
            "kind",
            among=NETWORK_KINDS,
            means="a small CNN for digits, a head on features, or a pretrained image network",
        ),
    )
    network = NetworkConfig(kind)
    if kind in ("mlp", "backbone"):
        hidden = table.whole(
            "hidden",
            network.hidden,
            least=1,
            means="hidden units of the head, for `mlp` and `backbone`",
        )
        network = replace(network, hidden=hidden)
    if kind == "backbone":
        network = replace(
            network,
            backbone=table.text(
                "backbone",
                network.backbone,
                means="`lite0`, `resnet50`, or `timm:<model>` for any model of timm",
            ),
            tune=cast(
                Tune,
                table.text(
                    "tune", network.tune, among=TUNES, means="the part of the backbone that learns"
                ),
            ),
            freeze_bn=table.flag(
                "freeze_bn", False, means="BatchNorm keeps its pretrained statistics"
            ),
            bn_momentum=table.optional_number(
                "bn_momentum",
                above=0,
                below=1,
                shown="that of the pretrained network",
                means="weight of a new minibatch in the statistics of live BatchNorm",
            ),
            channels_last=table.flag(
                "channels_last",
                False,
                means="convolutions with the channels last in memory: faster, other last bits",
            ),
        )
        if network.freeze_bn and network.bn_momentum:
            wanted = "absent beside `freeze_bn`, which fixes the statistics"
            raise table.refuse("bn_momentum", wanted, network.bn_momentum, "remove one of the two")
    table.finish()
    return network
