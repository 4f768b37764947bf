"""The processor a run trains on.

Other instructions round differently, so the last bits of a run depend on its processor.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

import torch

_CPU_INFO = Path("/proc/cpuinfo")


def machine(device: str) -> dict[str, str]:
    """Kind and name of the processor and the instructions that torch uses; no host name.

    Example:
        >>> sorted(machine("cpu"))
        ['architecture', 'instructions', 'processor']
    """
    facts = {
        "architecture": platform.machine(),
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
    if device.startswith("cuda"):
        facts["accelerator"] = torch.cuda.get_device_name(device)
    return facts


@cache
def _processor() -> str:
    try:
        lines = _CPU_INFO.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or "unknown"
