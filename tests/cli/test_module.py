"""``python -m checkwise`` is the same program as ``checkwise``."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from checkwise.cli import main


def module(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "checkwise", *words], capture_output=True, text=True
    )


def test_help_is_that_of_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    done = module("--help")
    assert (done.returncode, done.stderr) == (0, "")
    usage, _, rest = done.stdout.partition("\n")
    assert usage == "Usage: python -m checkwise [OPTIONS] COMMAND [ARGS]..."
    with pytest.raises(SystemExit):
        main(["--help"])
    assert rest == capsys.readouterr().out.partition("\n")[2]


def test_bad_input_ends_with_code_2_and_one_line() -> None:
    done = module("select", "nowhere")
    assert done.returncode == 2
    assert done.stderr.startswith("checkwise: ")
    assert "nowhere" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("signals", "code"), [((), 130), ((signal.SIGTERM,), 143)])
def test_a_signal_inside_a_command_is_its_exit_code(
    signals: tuple[int, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt(*signals)

    monkeypatch.setattr("checkwise.cli.rules.rules", stopped)
    with pytest.raises(SystemExit) as ended:
        main(["rules"])
    assert ended.value.code == code
