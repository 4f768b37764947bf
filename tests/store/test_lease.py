"""One process holds a run; a dead one loses it, a robbed one notices."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checkwise.study.folder import Holder, clock_of, last_holder, take
from checkwise.study.folder import lease as leases

HOLD = "import sys, time; from pathlib import Path; from checkwise.study.folder import take; "
HOLD += "lease = take(Path(sys.argv[1])); print('held', flush=True); time.sleep(600)"


def holder(folder: Path) -> Holder | None:
    """Who seems to hold a folder."""
    found = last_holder(folder)
    return found if found is not None and found.seems_alive(clock_of(folder)) else None


def test_a_second_taker_gets_nothing_until_the_first_lets_go(tmp_path: Path) -> None:
    first = take(tmp_path)
    assert first is not None
    assert take(tmp_path) is None
    assert first.held()
    first.release()
    assert not (tmp_path / "lease").exists()
    second = take(tmp_path)
    assert second is not None
    second.release()


def test_the_lease_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"held\n"
        assert take(tmp_path) is None
        found = holder(tmp_path)
        assert found is not None
        assert found.pid == process.pid
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, unheard
        assert holder(tmp_path) is None
        process.wait()
    assert holder(tmp_path) is None
    mine = take(tmp_path)
    assert mine is not None
    with mine:
        assert mine.held()


def write_foreign(folder: Path, age: float) -> None:
    path = folder / "lease"
    path.write_text(json.dumps({"token": "theirs", "host": "elsewhere", "pid": 1}))
    then = time.time() - age
    os.utime(path, (then, then))


def test_another_machine_keeps_its_lease_while_its_heart_beats(tmp_path: Path) -> None:
    write_foreign(tmp_path, age=60)
    assert take(tmp_path) is None
    found = holder(tmp_path)
    assert found is not None
    assert found.host == "elsewhere"
    assert json.loads((tmp_path / "lease").read_text())["token"] == "theirs"


def test_a_stale_lease_of_another_machine_is_taken_over(tmp_path: Path) -> None:
    write_foreign(tmp_path, age=400)
    assert holder(tmp_path) is None
    mine = take(tmp_path)
    assert mine is not None
    with mine:
        assert mine.held()


def test_a_lease_taken_over_by_another_machine_is_noticed(tmp_path: Path) -> None:
    mine = take(tmp_path)
    assert mine is not None
    with mine:
        write_foreign(tmp_path, age=0)
        assert not mine.held()
    assert json.loads((tmp_path / "lease").read_text())["token"] == "theirs"


def test_the_heart_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.02)
    mine = take(tmp_path)
    assert mine is not None
    with mine:
        os.utime(tmp_path / "lease", (0, 0))
        end = time.monotonic() + 500
        while (tmp_path / "lease").stat().st_mtime == 0:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_lease_from_before_the_clock_was_set_back_is_taken_over(tmp_path: Path) -> None:
    write_foreign(tmp_path, age=-9)
    assert take(tmp_path, takeover=10) is None
    write_foreign(tmp_path, age=-86_400)
    mine = take(tmp_path, takeover=10)
    assert mine is not None
    with mine:
        assert mine.held()


def test_on_a_disk_without_locks_silence_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(file: int, how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("checkwise.study.folder.lease.fcntl.flock", no_locks)
    first = take(tmp_path)
    assert first is not None
    with first:
        assert take(tmp_path) is None
        assert take(tmp_path, takeover=100) is None
        assert first.held()
        os.utime(first.path, (0, 0))
        second = take(tmp_path)
        assert second is not None
        with second:
            assert not first.held()
    write_foreign(tmp_path, age=60)
    assert take(tmp_path, takeover=100) is None
    third = take(tmp_path, takeover=50)
    assert third is not None
    third.release()


def test_a_stopped_process_loses_its_lease_and_notices(tmp_path: Path) -> None:
    first = take(tmp_path)
    assert first is not None
    with first:
        os.utime(first.path, (0, 0))
        second = take(tmp_path)
        assert second is not None
        with second:
            assert second.before is not None
            assert second.before.token == first.token
            assert take(tmp_path) is None
            assert not first.held()
            first.release()
            assert second.held()
