"""Lets a torchvision that was built for another torch be imported: its two operators are declared.

No training here calls them. A matching build declares them itself and is left alone.
"""

from __future__ import annotations

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


def declare() -> None:
    """Declare the operators if importing torchvision fails for want of them."""
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        _LIBRARY.extend([torch.library.Library("torchvision", "FRAGMENT")])
        for schema in _SCHEMAS:
            _LIBRARY[0].define(schema)
    except ImportError:
        pass


# A declaration lives as long as its library object.
_LIBRARY: list[torch.library.Library] = []
