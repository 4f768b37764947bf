"""The wheel in an empty environment does what the README promises of each extra."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEEL = next((ROOT / "dist").glob("*.whl"), Path("dist/absent.whl"))
LOG = """step,val_accuracy,val_loss
100,0.900,0.70
200,0.895,0.40
300,0.850,0.35
"""


class Environment:
    """A new virtual environment, and a folder to work in that is not the repository."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "env" / "bin"
        self.home = folder / "work"
        self.home.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)

    def install(self, *packages: str) -> None:
        command = [str(self.bin / "pip"), "install", "--quiet", *packages]
        subprocess.run(command, check=True, cwd=self.home)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        # No path leads back to the repository.
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [str(self.bin / words[0]), *words[1:]]
        return subprocess.run(command, cwd=self.home, env=clean, capture_output=True, text=True)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("core"))
    environment.install(str(WHEEL))
    return environment


def test_the_core_chooses_from_a_log_without_torch_or_scipy(core: Environment) -> None:
    (core.home / "log.csv").write_text(LOG)
    done = core.run("checkwise", "select", "log.csv", "--json")
    (run,) = json.loads(done.stdout)["runs"]
    assert run["selection"]["step"] == 200, done.stderr
    absent = "from importlib.util import find_spec as f; print(f('torch'), f('scipy'))"
    assert core.run("python", "-c", absent).stdout == "None None\n"
    done = core.run(
        "python", "-c", "import checkwise as cw; print(cw.select(cw.load('log.csv')).step)"
    )
    assert done.stdout == "200\n", done.stderr
    page = core.run("checkwise", "select", "log.csv", "--page", "report.html")
    assert page.returncode == 0, page.stderr
    assert (core.home / "report.html").stat().st_size > 10_000


def test_the_core_says_what_else_to_install(core: Environment) -> None:
    done = core.run("checkwise", "demo", "--quick")
    assert done.returncode == 2
    assert done.stderr.endswith("is not installed: pip install 'checkwise[train]'.\n")
    assert core.run("checkwise", "doctor").returncode == 0


def test_with_the_extra_train_the_quick_demo_ends_with_its_page(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    index = os.environ.get("TORCH_INDEX")
    environment.install("torch==2.13.0", *(["--index-url", index] if index else []))
    environment.install(f"{WHEEL}[train]")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = environment.run("checkwise", "demo", "--quick")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    page = environment.home / "out" / "demo-quick" / "report.html"
    assert f"The page is {page.resolve()}\n" in done.stdout
    assert "3 of 3 runs finished" in done.stdout
    assert "<svg" in page.read_text()
    # A busy machine takes longer, but not more of its processors.
    assert after.ru_utime - before.ru_utime < 120
    shutil.rmtree(environment.bin.parent)  # a gigabyte
