"""Rules and metrics of installed distributions: real entry points, each in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RULES = """
import checkwise as cw
print("imported")

@cw.rule("newest", needs=("top2-error",))
def newest(table):
    "The last checkpoint."
    return table["step"][-1]
"""
METRICS = """
import numpy as np
import checkwise as cw

@cw.metric("top2-error", direction="lower")
def top2_error(probs, labels):
    "Share of labels outside the two most probable classes."
    return 1 - np.mean((np.argsort(-probs, axis=1)[:, :2] == labels[:, None]).any(axis=1))
"""


def install(
    folder: Path, name: str, entry_points: str, version: str = "1.2", **modules: str
) -> None:
    """A distribution as pip leaves it: metadata, entry points, modules."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)
    for module, code in modules.items():
        (folder / f"{module}.py").write_text(code)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    points = "[checkwise.rules]\nnewest = late:newest\n[checkwise.metrics]\ntop2-error = top2\n"
    install(folder, "late-rules", points, late=RULES, top2=METRICS)
    return folder


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 30)
    for step in (100, 200):
        folder = tmp_path / "run" / f"step-{step:06d}"
        folder.mkdir(parents=True)
        logits = np.eye(4)[labels] + random.normal(size=(30, 4))
        np.savez(folder / "val.npz", logits=logits, labels=labels)
    return tmp_path / "run"


def fresh(site: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), *sys.path])
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def checkwise(site: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return fresh(site, "-m", "checkwise", *words)


def selection(printed: str) -> Any:
    (entry,) = json.loads(printed)["runs"]
    return entry["selection"]


def test_a_rule_and_its_metric_are_found_by_name_and_recorded(
    site: Path, predictions: Path
) -> None:
    done = checkwise(site, "select", predictions, "--rule", "newest", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    imported, _, answer = done.stdout.partition("\n")
    chosen = selection(answer)
    assert (imported, chosen["step"]) == ("imported", 200)
    assert chosen["offered_by"] == [
        {"kind": "rule", "name": "newest", "distribution": "late-rules", "version": "1.2"},
        {"kind": "metric", "name": "top2-error", "distribution": "late-rules", "version": "1.2"},
    ]


def test_rules_lists_what_is_offered_without_importing_it(site: Path) -> None:
    done = checkwise(site, "rules")
    assert "imported" not in done.stdout
    assert "loaded when named: newest (late-rules 1.2)." in done.stdout


def test_names_are_found_from_python_and_nothing_is_imported_before(site: Path) -> None:
    code = """
import checkwise as cw
from checkwise.selection import get_rule
from checkwise.study import method
cw.LiveSelector("ac-nc")
print("newest" in cw.rules())
live = cw.LiveSelector("ac", objectives=["top2-error"])
live.add(1, {"val": ([[2.0, 1.0, 0.0]], [2])})
print(live.trajectory.values["top2-error"].tolist())
print(live.selection.as_dict()["offered_by"][0]["distribution"])
print(method("newest").rule.origin, get_rule("newest").origin)
"""
    expected = "False [[1.0]] late-rules imported late-rules 1.2 late-rules 1.2"
    assert fresh(site, "-c", code).stdout.split() == expected.split()


def test_a_built_in_name_stays_what_it_is(tmp_path: Path, predictions: Path) -> None:
    points = "[checkwise.rules]\nac-nc = shadow\n"
    install(tmp_path / "site", "shadow", points, shadow="raise SystemExit(3)")
    done = checkwise(tmp_path / "site", "select", predictions, "--rule", "ac-nc", "--json")
    assert (done.returncode, selection(done.stdout)["rule"]) == (0, "ac-nc")
    assert "offered_by" not in selection(done.stdout)


BROKEN = {
    "raise RuntimeError('no\\nluck')": "cannot be loaded: RuntimeError: no luck.",
    "import absent_package": "cannot be loaded: ModuleNotFoundError: No module named",
    "raise SystemExit(3)": "cannot be loaded: SystemExit: 3.",
    "x = 1": "registers no rule of that name: decorate it with @cw.rule('odd3')",
    "import checkwise as cw\ncw.rule('ac-nc')(lambda table: 0)": "'ac-nc' exists already",
}


def test_what_cannot_be_used_is_refused_in_one_line_that_names_it(
    site: Path, predictions: Path
) -> None:
    install(site, "other", "[checkwise.rules]\nnewest = late:newest\n", "2")
    for i, content in enumerate(BROKEN):
        points = f"[checkwise.rules]\nodd{i} = bad{i}\n"
        install(site, f"odd-rules{i}", points, "0.3", **{f"bad{i}": content})
    names = ["newest", "newst", *(f"odd{i}" for i in range(len(BROKEN)))]
    code = f"""
from checkwise.errors import InputError
from checkwise.selection import get_rule
for name in {names}:
    try:
        get_rule(name)
    except InputError as error:
        print(error)
"""
    twice, unknown, *broken = fresh(site, "-c", code).stdout.splitlines()
    assert all(one in twice for one in ("late-rules 1.2", "other 2"))
    assert "Expected one of the rules source-acc, ac-nc" in unknown
    for i, (line, said) in enumerate(zip(broken, BROKEN.values(), strict=True)):
        assert f"Expected odd-rules{i} 0.3 to register the rule 'odd{i}', but " in line
        assert said in line
    done = checkwise(site, "select", predictions, "--rule", "odd0")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
