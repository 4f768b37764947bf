"""``python -m tests.integrations.sent_nowhere FOLDER TRACKER…``: logs a selection to each tracker.

Prints where this process connected to meanwhile, and which names it looked up, beyond this
machine: Python tells of every connection before it is made.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

OUTSIDE: list[str] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook; nothing can be sent past it from Python."""
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        if isinstance(address, tuple) and not _is_here(str(address[0])):
            OUTSIDE.append(f"{event} {address}")
    elif event == "socket.getaddrinfo" and arguments[0] and not _is_here(_text(arguments[0])):
        OUTSIDE.append(f"{event} {arguments[0]!r}")


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def _is_here(host: str) -> bool:
    if host in ("localhost", "", os.uname().nodename):
        return True
    try:
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    except ValueError:
        return False


def tensorboard(folder: Path) -> None:
    from checkwise.integrations.tensorboard import TensorBoardLog
    from tests.integrations.selections import selection

    TensorBoardLog(folder / "events").log(selection())


def trackio(folder: Path) -> None:
    os.environ["TRACKIO_DIR"] = str(folder / "trackio")
    import trackio as framework

    from checkwise.integrations.trackio import TrackioLog
    from tests.integrations.selections import selection

    run = framework.init(project="digits", name="one", auto_log_cpu=False, embed=False)
    TrackioLog(run, upload=True).log(selection(folder))
    framework.finish()


def wandb(folder: Path) -> None:
    import wandb as framework

    from checkwise.integrations.wandb import WandbLog
    from tests.integrations.selections import selection

    run = framework.init(project="digits", mode="offline", dir=str(folder))
    WandbLog(run, upload=True).log(selection(folder))
    run.finish()


def mlflow(folder: Path) -> None:
    from mlflow import MlflowClient

    from checkwise.integrations.mlflow import MlflowLog
    from tests.integrations.selections import selection

    uri = f"sqlite:///{folder}/mlflow.db"
    client = MlflowClient(uri)
    run = client.create_run(client.create_experiment("digits", str(folder / "artifacts")))
    MlflowLog(run.info.run_id, uri, upload=True).log(selection(folder))


TRACKERS: dict[str, Callable[[Path], None]] = {
    each.__name__: each for each in (tensorboard, trackio, wandb, mlflow)
}


def main(folder: Path, names: list[str]) -> None:
    sys.addaudithook(watch)
    sent = {}
    for name in names:
        (folder / name).mkdir()
        TRACKERS[name](folder / name)
        sent[name], OUTSIDE[:] = [*OUTSIDE], []
    print(json.dumps(sent), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
