"""Trackers send nothing anywhere unless asked: real ones, watched while they log."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.sent_nowhere import TRACKERS
from tests.requirements import available

ROOT = Path(__file__).parents[2]


def test_no_tracker_connects_to_another_machine(tmp_path: Path) -> None:
    """W&B's service is no Python: what it sent would go to the proxy, where nobody may knock."""
    available("tensorboard", "trackio", "wandb", "mlflow")
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        knocked_at = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        proxies = {form: knocked_at for name in names for form in (name, name.lower())}
        done = subprocess.run(
            [sys.executable, "-m", "tests.integrations.sent_nowhere", tmp_path, *TRACKERS],
            cwd=ROOT,
            env={
                **os.environ,
                **proxies,
                "PYTHONPATH": str(ROOT),
                "HOME": str(tmp_path),
                "DO_NOT_TRACK": "true",  # MLflow and W&B report on their own use otherwise,
                "WANDB_ERROR_REPORTING": "false",  # as our pages say
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert json.loads(done.stdout.splitlines()[-1]) == {name: [] for name in TRACKERS}
        with pytest.raises(BlockingIOError):  # nobody knocked
            proxy.accept()[0].close()


def test_the_watch_sees_a_connection() -> None:
    """Otherwise the test above could not fail."""
    code = (
        "import socket, sys; from tests.integrations import sent_nowhere as s;"
        "sys.addaudithook(s.watch); socket.socket().connect_ex(('127.0.0.1', 9));"
        "t = socket.socket(); t.settimeout(0.01); t.connect_ex(('192.0.2.1', 9));"
        "u = socket.socket(type=socket.SOCK_DGRAM); u.connect(('192.0.2.2', 9)); print(s.OUTSIDE)"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "192.0.2.1" in done.stdout, done.stderr
    assert "127.0.0.1" not in done.stdout
