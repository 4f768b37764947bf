"""The ``[executor]`` table of a study file."""

from __future__ import annotations

from checkwise.sweep.executors import EXECUTORS
from checkwise.sweep.executors.settings import ExecutorSettings, bytes_of, minutes_of
from checkwise.sweep.toml_table import TomlTable


def parse_executor(table: TomlTable) -> ExecutorSettings:
    """Check the values of the table; options of a command replace them."""
    settings = ExecutorSettings(
        kind=table.text(
            "kind",
            ExecutorSettings.kind,
            among=tuple(EXECUTORS),
            means="where workers run; this table is no part of the study and may change",
        ),
        workers=table.whole(
            "workers",
            0,
            shown="one for every core; required for `slurm`",
            means="how many workers are started",
        )
        or None,
        partition=table.optional_text("partition", means="the partition, for `slurm`"),
        time=table.optional_text(
            "time",
            shown='"1:00:00"',
            means="time limit of a job, for `slurm`; a worker goes on in its next job",
        ),
        memory=table.optional_text("memory", means="memory of a worker, such as `4G`"),
        cpus=table.whole("cpus", 0, shown="1", means="CPUs of a worker") or None,
        gpus=table.whole("gpus", 0, shown="0", means="GPUs of a worker") or None,
        address=table.optional_text(
            "address", shown="a cluster on this machine", means="of a running cluster, for `ray`"
        ),
    )
    table.finish()
    if settings.time is not None:
        minutes_of(settings.time)
    if settings.memory is not None:
        bytes_of(settings.memory)
    return settings
