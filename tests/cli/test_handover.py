"""``choice.json``: the same choice again, or a refusal; a file alone never deletes or runs code."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import checkwise as cw
from checkwise.cli.handover import take
from tests.cli.calls import ran
from tests.cli.choices import choose
from tests.cli.inputs import ACCURACIES, NLL
from tests.cli.test_prune import there, transformers_run
from tests.refusals import names, refused
from tests.weights.deployments import network, train


def files(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def save(place: Path) -> None:
    import torch

    place.parent.mkdir(parents=True, exist_ok=True)
    torch.save(network().state_dict(), place)


def trainers_log(folder: Path) -> tuple[Path, dict[str, Any]]:
    return transformers_run(folder / "out"), {}


def lightning(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Its log counts one step less than its names."""
    rows = ["epoch,step,val_acc,val_loss"]
    for epoch, (accuracy, nll) in enumerate(zip(ACCURACIES, NLL, strict=True)):
        step = 10 * (epoch + 1)
        rows.append(f"{epoch},{step - 1},{accuracy},{nll}")
        save(folder / "version_0" / "checkpoints" / f"epoch={epoch}-step={step}.ckpt")
    (folder / "version_0" / "metrics.csv").write_text("\n".join(rows) + "\n")
    return folder / "version_0", {}


def keras(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Epochs from 0 in the log, from 1 in names that only a pattern tells."""
    rows = ["epoch,accuracy,loss,val_accuracy,val_loss"]
    for epoch, (accuracy, nll) in enumerate(zip(ACCURACIES, NLL, strict=True)):
        rows.append(f"{epoch},0.99,0.1,{accuracy},{nll}")
        save(folder / f"kept_{epoch + 1:02d}.h5")
    (folder / "training.log").write_text("\n".join(rows) + "\n")
    return folder / "training.log", {"checkpoints": "kept_{epoch+1}.h5"}


def predictions(folder: Path) -> tuple[Path, dict[str, Any]]:
    return train(folder), {}


def journal(folder: Path) -> tuple[Path, dict[str, Any]]:
    with cw.LiveSelector(journal=folder / "live" / "checkwise.jsonl") as live:
        for step, (accuracy, nll) in enumerate(zip(ACCURACIES, NLL, strict=True), 1):
            entry = {"accuracy": accuracy, "nll": nll, "cwece": 0.01, "n": 1000}
            live.add(step, {"validation": entry})
            save(folder / "live" / f"step-{step}.pt")
            live.saved(step, folder / "live" / f"step-{step}.pt")
    return folder / "live", {}


def table(folder: Path) -> tuple[Path, dict[str, Any]]:
    rows = ["step,accuracy,nll,path"]
    for step, (accuracy, nll) in enumerate(zip(ACCURACIES, NLL, strict=True), 1):
        save(folder / f"model_{step}.pt")
        rows.append(f"{step},{accuracy},{nll},{folder / f'model_{step}.pt'}")
    (folder / "run.csv").write_text("\n".join(rows) + "\n")
    return folder / "run.csv", {}


KINDS: dict[str, Callable[[Path], tuple[Path, dict[str, Any]]]] = {
    made.__name__: made for made in (trainers_log, lightning, keras, predictions, journal, table)
}
LOGS = {
    "trainers_log": "out/*/trainer_state.json",
    "lightning": "version_0/metrics.csv",
    "keras": "training.log",
    "table": "run.csv",
}


def change(folder: Path, kind: str) -> None:
    """The best accuracy is another one; a journal goes on."""
    if kind == "journal":
        with cw.LiveSelector(journal=folder / "live" / "checkwise.jsonl") as live:
            entry = {"accuracy": 0.97, "nll": 0.1, "cwece": 0.01, "n": 1000}
            live.add(7, {"validation": entry})
        return
    for log in folder.glob(LOGS[kind]):
        log.write_text(log.read_text().replace("0.9,", "0.91,"))


@pytest.mark.parametrize("kind", KINDS)
def test_after_pruning_the_same_step_is_deployed_without_a_word(kind: str, tmp_path: Path) -> None:
    path, reading = KINDS[kind](tmp_path)
    choice = tmp_path / "choice.json"
    step = choose(path, choice, reading)
    named = ["--checkpoints", reading["checkpoints"]] if reading else []
    code, out, err = ran("prune", choice, "--apply", "--json", *named)
    assert code == 0, err
    answer = json.loads(out)
    assert answer["step"] == step
    assert answer["freed_bytes"] > 0
    for entry in answer["checkpoints"]:
        assert os.path.exists(entry["path"]) == entry["stays"]
    assert take(choice).selection.step == step
    if kind not in ("trainers_log", "keras"):  # whose weights are none
        code, out, err = ran("deploy", choice, "-o", tmp_path / "model", "--json")
        assert code == 0, err
        assert json.loads(out)["steps"] == [step]
    assert "nothing to delete" in ran("prune", choice, "--apply", *named)[1]


@pytest.mark.parametrize("kind", [*LOGS, "journal"])
def test_a_log_that_changed_is_refused_and_taken_with_again(kind: str, tmp_path: Path) -> None:
    path, reading = KINDS[kind](tmp_path)
    choice = tmp_path / "choice.json"
    choose(path, choice, reading)
    earlier = take(choice).selection.digest
    change(tmp_path, kind)
    before = files(tmp_path)
    code, _, err = ran("prune", choice, "--apply")
    assert (code, "--again" in err) == (2, True)
    assert files(tmp_path) == before
    assert ran("deploy", choice, "-o", tmp_path / "model")[0] == 2
    assert not (tmp_path / "model").exists()
    with refused("differs: choice.json"):
        take(choice)
    taken = take(choice, again=True)
    assert kind == "journal" or taken.selection.digest != earlier


def test_changed_predictions_are_refused(tmp_path: Path) -> None:
    path, _ = predictions(tmp_path)
    choose(path, tmp_path / "choice.json")
    take(tmp_path / "choice.json")
    shutil.copy(path / "step-000010" / "art.npz", path / "step-000020" / "art.npz")
    with refused("differs: choice.json"):
        take(tmp_path / "choice.json")


def test_what_was_asked_is_asked_again(tmp_path: Path) -> None:
    run_folder = transformers_run(tmp_path / "out")
    choice = tmp_path / "choice.json"
    assert choose(run_folder, choice, {"n": "1000"}, delta_pp="10", no_guard=True) == 2000
    content = json.loads(choice.read_text())
    assert list(content) == ["schema", "runs", "asked", "digest"]
    assert content["schema"] == 2
    assert content["asked"] == {
        "path": str(run_folder),
        "reading": {"n": "1000"},
        "choice": {"rule": None, "guard": False, "delta_pp": "10"},
        "plugins": [],
    }
    answer = json.loads(ran("prune", choice, "--json")[1])
    assert (answer["step"], answer["freed_bytes"]) == (2000, 0)
    infinite = choose(run_folder, choice, param=("q=inf",), objectives="nll,accuracy", rule="ac")
    taken = take(choice)
    assert taken.choice.params["q"] == float("inf")
    assert taken.selection.step == infinite


@pytest.mark.parametrize("kind", KINDS)
def test_a_choice_in_the_folder_of_its_run_is_no_part_of_it(kind: str, tmp_path: Path) -> None:
    path, reading = KINDS[kind](tmp_path)
    folder = path if path.is_dir() else path.parent
    step = choose(path, folder / "choice.json", reading)
    assert choose(path, folder / "choice.json", reading) == step
    assert take(folder / "choice.json").selection.step == step
    assert cw.select(cw.load(path if kind == "table" else folder, **reading)).step == step


def test_a_step_that_is_gone_is_not_replaced_by_another(tmp_path: Path) -> None:
    folder = transformers_run(tmp_path / "out")
    assert choose(folder, tmp_path / "choice.json") == 1500
    shutil.rmtree(folder / "checkpoint-1500")
    code, _, err = ran("prune", tmp_path / "choice.json", "--apply")
    assert (code, "--again" in err) == (2, True)
    assert there(folder) == ["checkpoint-1000", "checkpoint-2000", "checkpoint-500"]
    assert ran("prune", tmp_path / "choice.json", "--apply", "--again")[0] == 0
    assert there(folder) == ["checkpoint-1000", "checkpoint-2000"]


def test_select_writes_it_for_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lightning(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ("--delta-pp", "0.8", "--n", "1000", "--rule", "ac-nll", "--param", "q=inf")
    assert ran("select", "version_0", "-o", "choice.json", *words)[0] == 0
    written = json.loads(Path("choice.json").read_text())
    (entry,) = written["runs"]
    printed = json.loads(ran("select", "version_0", "--json", *words)[1])
    assert printed["runs"] == written["runs"]
    assert written["asked"]["path"] == "version_0"
    assert ran("prune", "choice.json", "--apply")[0] == 0
    code, out, err = ran("deploy", "choice.json", "-o", "model", "--json")
    assert code == 0, err
    info = json.loads(out)
    assert (info["steps"], info["rule"]) == ([entry["selection"]["step"]], "ac-nll")
    assert ran("select", "version_0", "--copy-to", "best.ckpt", *words)[0] == 0
    assert Path("best.ckpt").read_bytes() == Path(entry["selection"]["path"]).read_bytes()


def test_again_is_for_a_choice(tmp_path: Path) -> None:
    code, _, err = ran("prune", transformers_run(tmp_path / "out"), "--again")
    assert (code, "--again" in err) == (2, True)


def test_several_runs_are_no_choice_to_go_by(tmp_path: Path) -> None:
    for name in ("a", "b"):
        transformers_run(tmp_path / "runs" / name)
    choice = tmp_path / "choice.json"
    code, _, err = ran("prune", tmp_path / "runs", "--apply")
    assert (code, "--run" in err) == (2, True)
    choose(tmp_path / "runs", choice, {"only_run": "b"})
    assert ran("prune", choice, "--apply")[0] == 0
    assert len(there(tmp_path / "runs" / "a")) == 4
    assert len(there(tmp_path / "runs" / "b")) == 3


PLUGIN = """
from pathlib import Path
import checkwise as cw
Path(__file__).with_name("ran").touch()
"""


def test_a_plugin_runs_only_where_the_user_names_it(tmp_path: Path) -> None:
    folder, plugin = transformers_run(tmp_path / "out"), tmp_path / "own_rules.py"
    plugin.write_text(PLUGIN)
    choice = tmp_path / "choice.json"
    choose(folder, choice, plugin=(str(plugin),))
    (tmp_path / "ran").unlink()
    for words in (["prune", choice, "--apply"], ["deploy", choice, "-o", tmp_path / "model"]):
        code, _, err = ran(*words)
        assert (code, f"--plugin {plugin}" in err) == (2, True)
        assert not (tmp_path / "ran").exists()
    assert len(there(folder)) == 4
    assert ran("prune", choice, "--plugin", plugin)[0] == 0


def test_a_run_elsewhere_is_not_deleted_from_because_a_file_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, here = transformers_run(tmp_path / "precious"), tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    Path("link").symlink_to(folder)
    for place in (folder, Path("../precious"), Path("link")):
        choose(place, Path("choice.json"))
        for words in ((), ("--apply",), ("--apply", "--again")):
            code, _, err = ran("prune", "choice.json", *words)
            assert (code, "--checkpoints" in err) == (2, True)
    assert len(there(folder)) == 4
    choose(folder, Path("choice.json"))
    pattern = str(folder / "checkpoint-{step}")
    assert ran("prune", "choice.json", "--checkpoints", pattern)[0] == 0
    monkeypatch.chdir(folder)
    assert ran("prune", here / "choice.json", "--apply")[0] == 0
    assert len(there(folder)) == 3


def test_a_journal_elsewhere_is_not_deleted_from_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, here = journal(tmp_path)[0], tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    choose(folder, Path("choice.json"))
    before = files(folder)
    code, _, err = ran("prune", "choice.json", "--apply")
    assert (code, "--checkpoints" in err) == (2, True)
    assert files(folder) == before
    assert ran("prune", "choice.json", "--apply", "--checkpoints", folder)[0] == 0
    assert files(folder) != before


def test_a_pattern_in_a_file_does_not_say_what_may_be_deleted(tmp_path: Path) -> None:
    """Neither other folders, nor data beside the log."""
    log, _ = keras(tmp_path / "run")
    for epoch in range(1, 7):
        (tmp_path / "run" / f"kept_{epoch:02d}.h5").rename(tmp_path / f"kept_{epoch:02d}.h5")
        (tmp_path / "run" / f"data_{epoch}.h5").write_text("data")
    before = files(tmp_path)
    for pattern in ("../kept_{epoch+1}.h5", "data_{epoch+1}.h5"):
        choose(log, tmp_path / "run" / "choice.json", {"checkpoints": pattern})
        code, _, err = ran("prune", tmp_path / "run" / "choice.json", "--apply")
        assert (code, "--checkpoints" in err) == (2, True)
        other = ("--checkpoints", tmp_path / "nothing_{epoch}.pt")
        assert ran("prune", tmp_path / "run" / "choice.json", "--apply", *other)[0] == 2
    (tmp_path / "run" / "choice.json").unlink()
    assert files(tmp_path) == before


# Paths of fields in a choice, and what a hostile hand might put there.
PLACES = [
    ("schema",), ("runs",), ("runs", 0), ("runs", 0, "run"), ("runs", 0, "run", "dataset"),
    ("runs", 0, "run", "held_out"), ("runs", 0, "run", "trial_seed"), ("runs", 0, "selection"),
    ("runs", 0, "selection", "step"), ("runs", 0, "selection", "path"), ("asked",),
    ("asked", "path"), ("asked", "reading"), ("asked", "reading", "held_out"),
    ("asked", "reading", "column"), ("asked", "reading", "n"), ("asked", "reading", "only_run"),
    ("asked", "reading", "bins"), ("asked", "reading", "bandwidth"),
    ("asked", "reading", "validation"), ("asked", "reading", "checkpoints"),
    ("asked", "reading", "include_unsaved"), ("asked", "reading", "more"), ("asked", "choice"),
    ("asked", "choice", "rule"), ("asked", "choice", "delta_pp"), ("asked", "choice", "q"),
    ("asked", "choice", "objectives"), ("asked", "choice", "weights"),
    ("asked", "choice", "worst_domain"), ("asked", "choice", "directions"),
    ("asked", "choice", "guard"), ("asked", "choice", "tolerance"), ("asked", "choice", "alpha"),
    ("asked", "choice", "trajectory"), ("asked", "choice", "self"), ("asked", "choice", "params"),
    ("asked", "plugins"), ("digest",), ("more",),
]  # fmt: skip
TEXTS = [
    "", ".", "..", "/", "~", "other", "out/checkpoint-1500", "choice.json", "\0", "a" * 5000,
    "../other", "*", "{step}", "other/checkpoint-{step}", "ac-nc", "pure-nll", "inf", "nan", "-1",
    "paired", "groups", "worst", "os.py", "hostile.py", "eval_accuracy", "accuracy=eval_loss",
]  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(TEXTS)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TEXTS), inner),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sandbox")
    transformers_run(folder / "out")
    transformers_run(folder / "other")
    (folder / "hostile.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    here = os.getcwd()
    os.chdir(folder)
    choose(Path("out"), Path("choice.json"), {"n": "1000"}, rule="ac-nll", delta_pp="0.5")
    os.chdir(here)
    return folder


def put(content: Any, place: tuple[Any, ...], value: Any) -> None:
    *above, last = place
    for part in above:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(content, dict if isinstance(last, str) else list) and (content or last != 0):
        content[last] = value


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3))
@example(changes=[(("asked", "path"), "other")])
@example(changes=[(("asked", "plugins"), ["hostile.py"])])
@example(changes=[(("asked", "choice", "delta_pp"), "0")])
def test_a_mutated_choice_deletes_nothing(
    changes: list[tuple[tuple[Any, ...], Any]], sandbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sandbox)
    content = json.loads(Path("choice.json").read_text())
    whole = json.dumps(content)
    for place, value in changes:
        put(content, place, value)
    if json.dumps(content) == whole:
        return
    before = files(sandbox)
    Path("hostile.json").write_text(json.dumps(content))
    code, _, err = ran("prune", "hostile.json", "--apply")
    assert (code, err.count("\n")) == (2, 1), err
    Path("hostile.json").unlink()
    assert files(sandbox) == before


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=2))
def test_again_lets_no_mutated_choice_past_its_schema(
    changes: list[tuple[tuple[Any, ...], Any]], sandbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``--again`` there is no digest: fields are checked all the same, and nothing is run."""
    monkeypatch.chdir(sandbox)
    content = json.loads(Path("choice.json").read_text())
    for place, value in changes:
        put(content, place, value)
    Path("hostile.json").write_text(json.dumps(content))
    code, _, err = ran("prune", "hostile.json", "--again")
    assert code in (0, 2), err
    assert not Path("ran").exists()
    Path("hostile.json").unlink()


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(at=st.integers(0, 5000), put_in=st.binary(max_size=4))
def test_broken_bytes_are_no_choice(
    at: int, put_in: bytes, sandbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sandbox)
    raw = Path("choice.json").read_bytes()
    at %= len(raw)
    broken = raw[:at] + put_in
    before = files(sandbox)
    Path("hostile.json").write_bytes(broken)
    code, _, err = ran("prune", "hostile.json", "--apply")
    assert code == 2, err
    Path("hostile.json").unlink()
    assert files(sandbox) == before


def test_a_choice_taken_elsewhere_says_from_where_its_path_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers_run(tmp_path / "one" / "out")
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    choose(Path("out"), tmp_path / "choice.json")
    assert ran("prune", tmp_path / "choice.json")[0] == 0
    monkeypatch.chdir(tmp_path / "two")
    for command in (("prune",), ("deploy", "-o", "model")):
        code, _, err = ran(*command, tmp_path / "choice.json")
        assert code == 2
        assert names("choice.json … out … `checkwise select` … folder", err)


@pytest.mark.parametrize(
    ("given", "sets"),
    [(["--source", "test"], "test"), (["--column", "accuracy=test_acc"], "validation")],
)
def test_a_set_that_was_called_validation_is_named_by_who_takes_the_choice(
    tmp_path: Path, given: list[str], sets: str
) -> None:
    log, _ = table(tmp_path)
    text = log.read_text()
    if sets == "test":
        log.write_text(text.replace("\n", ",test\n").replace(",test", ",domain", 1))
    else:
        log.write_text(text.replace("accuracy", "test_acc", 1))
    choice = tmp_path / "choice.json"
    assert ran("select", log, *given, "-o", choice)[0] == 0
    code, out, err = ran("prune", choice, "--json")
    assert code == 0, err
    assert json.loads(out)
    assert f"validated on {sets} ({choice} says {' '.join(given)})" in err
