"""Where workers run and what each of them gets. None of it changes what is trained."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from checkwise.errors import InputError

# Slurm's own formats: minutes, hours:minutes:seconds, days-hours, days-hours:minutes and so on.
_TIME: Final = re.compile(
    r"(?:(?P<days>\d+)-(?P<hours>\d+)(?::(?P<minutes>\d+)(?::(?P<seconds>\d+))?)?"
    r"|(?P<h>\d+):(?P<m>\d+):(?P<s>\d+)|(?P<only>\d+)(?::(?P<rest>\d+))?)"
)
_MEMORY: Final = re.compile(r"(\d+)\s*([KMGT])(?:i?B)?", re.IGNORECASE)
_BYTES: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class ExecutorSettings:
    """The ``[executor]`` table of a study file, or the options of a command.

    Args:
        kind: ``local``, ``slurm`` or ``ray``.
        workers: how many workers are started; None leaves it to the executor.
        partition: the partition of Slurm that jobs go to.
        time: the time limit of a Slurm job, in one of Slurm's formats.
        memory: memory of a worker, such as ``4G``.
        cpus: CPUs of a worker. A run is trained on one thread whatever this says.
        gpus: GPUs of a worker.
        address: the address of a running Ray cluster.
    """

    kind: str = "local"
    workers: int | None = None
    partition: str | None = None
    time: str | None = None
    memory: str | None = None
    cpus: int | None = None
    gpus: int | None = None
    address: str | None = None


def minutes_of(time: str) -> int:
    """A time limit in whole minutes, rounded up.

    Example:
        >>> minutes_of("90"), minutes_of("1:30:00"), minutes_of("1-12"), minutes_of("0:30")
        (90, 90, 2160, 1)
    """
    match = _TIME.fullmatch(time.strip())
    if match is None:
        raise _refused_time(time)
    part = {name: int(value or 0) for name, value in match.groupdict().items()}
    hours = 24 * part["days"] + part["hours"] + part["h"]
    minutes = 60 * hours + part["minutes"] + part["m"] + part["only"]
    seconds = 60 * minutes + part["seconds"] + part["s"] + part["rest"]
    if seconds == 0:
        raise _refused_time(time)
    return -(-seconds // 60)


def bytes_of(memory: str) -> int:
    """An amount of memory in bytes.

    Example:
        >>> bytes_of("4G"), bytes_of("500 MB")
        (4294967296, 524288000)
    """
    match = _MEMORY.fullmatch(memory.strip())
    if match is None or int(match[1]) == 0:
        raise InputError(
            f"Expected `memory` (--memory) as a number with K, M, G or T, but got {memory!r}: "
            "for example 4G."
        )
    return int(match[1]) * _BYTES[match[2].upper()]


def _refused_time(time: str) -> InputError:
    return InputError(
        "Expected `time` (--time) in minutes, as hours:minutes:seconds or as days-hours, but got "
        f"{time!r}: for example 4:00:00 for four hours."
    )
