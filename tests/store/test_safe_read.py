"""Names from files stay inside their folder; only regular files are opened, and nothing waits."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import checkwise as cw
from checkwise.errors import CheckwiseError, InputError
from checkwise.records import RunKey
from checkwise.store import CHECKPOINTS_FOLDER, COHORT_FILE, DONE_FILE, RUNS_FOLDER, name_as_file
from checkwise.store import reading as safe_read
from checkwise.study import Cohort
from checkwise.study.folder import open_cohort, take, verify, write_cohort
from tests.refusals import refused
from tests.study import cohorts

OUTSIDE = [
    "../../x",
    "/dev/zero",
    "..",
    ".",
    "",
    "a/b",
    "a\\b",
    "a\0b",
    "x" * 256,
    "\ud800",
    3,
    None,
]


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    return cohorts.write_cohort(tmp_path / "tiny", cohorts.tiny_runs()[:2])


def first_run(cohort: Path) -> Path:
    return cohort / RUNS_FOLDER / str(cohorts.key("ERM", 0))


def test_a_name_that_leads_elsewhere_is_no_plain_name_and_no_planned_folder(cohort: Path) -> None:
    assert [name for name in OUTSIDE if safe_read.is_plain_name(name)] == []
    for slug in OUTSIDE:
        plan = json.loads((cohort / COHORT_FILE).read_text())
        plan["runs"][0]["slug"] = slug
        (cohort / COHORT_FILE).write_text(json.dumps(plan))
        with pytest.raises(InputError, match=r"cohort\.json"):
            open_cohort(cohort)


@pytest.mark.parametrize("name", ["/dev/zero", "../../../etc/hostname", "heldout/../run.json"])
def test_a_mark_that_names_other_files_is_refused_unopened(cohort: Path, name: str) -> None:
    folder = first_run(cohort)
    mark = json.loads((folder / DONE_FILE).read_text())
    mark["files"][name] = {"bytes": 1, "sha256": "0" * 64}
    (folder / DONE_FILE).write_text(json.dumps(mark))
    (fault,) = [fault for fault in verify(folder) if fault.kind == "damaged"]
    assert repr(name) in fault.what
    with refused("damaged"):
        cw.load(folder)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    elsewhere = path.with_name(f"{path.name}.elsewhere")
    elsewhere.write_text("{}")
    path.symlink_to(elsewhere)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def said(cohort: Path) -> str:
    """All that the readers of a cohort say about it."""
    texts = []
    for read in (cw.load_runs, lambda path: Cohort.open(path).evaluate("ac-nc"), verify):
        try:
            texts.append(str(read(cohort)))
        except CheckwiseError as error:
            texts.append(str(error))
    return " ".join(texts)


@pytest.mark.parametrize(
    ("name", "make", "kind"),
    [
        ("cohort.json", pipe, "a pipe"),
        ("cohort.json", link, "a link"),
        ("run.json", device, "a link"),
        ("run.json", pipe, "a pipe"),
        ("done", listening, "a socket"),
        ("done", link, "a link"),
        ("source.jsonl", link, "a link"),
        ("source.jsonl", pipe, "a pipe"),
        ("heldout/sketch.jsonl", listening, "a socket"),
        ("heldout/sketch.jsonl", device, "a link"),
    ],
)
def test_what_is_no_regular_file_is_refused_and_nothing_waits(
    cohort: Path, name: str, make: Callable[[Path], None], kind: str
) -> None:
    path = (cohort if name == COHORT_FILE else first_run(cohort)) / name
    path.unlink(missing_ok=True)
    make(path)
    assert f"{path.name} is {kind}" in said(cohort)


@pytest.mark.parametrize("place", ["runs", "run", "checkpoints"])
def test_a_linked_folder_is_neither_read_nor_written(
    cohort: Path, tmp_path: Path, place: str
) -> None:
    folder = {"runs": cohort / RUNS_FOLDER, "run": first_run(cohort)}.get(
        place, first_run(cohort) / CHECKPOINTS_FOLDER
    )
    elsewhere = tmp_path / "elsewhere"
    if folder.exists():
        shutil.move(folder, elsewhere)
    else:
        elsewhere.mkdir()
    folder.symlink_to(elsewhere)
    if place == "checkpoints":
        with refused("outside: a link"):
            take(first_run(cohort))
    else:
        with refused("outside: a link"):
            open_cohort(cohort)


def test_domains_that_cannot_have_files_of_their_own_are_refused(tmp_path: Path) -> None:
    def plan(*held_out: tuple[str, ...]) -> None:
        keys = [RunKey("d", "ERM", names, 0, 0) for names in held_out]
        write_cohort(tmp_path, name="x", roles={}, study={}, metrics={}, keys=keys)

    for one, other in (("art", "Art"), ("a b", "a_b")):
        with refused("ambiguous"):
            plan((one,), (other,))
    with refused("ambiguous"):
        plan(("art", "Art"))
    with refused("value"):
        plan(("x" * 300,))


def test_every_domain_has_a_file_name_of_its_own_that_fits() -> None:
    domains = ["..", ".", "a/b", "a%2Fb", "a\\b", "é" * 200, "é" * 201, "x" * 500, "nul\0"]
    names = [name_as_file(domain) for domain in domains]
    assert len(set(names)) == len(names)
    assert all(safe_read.is_plain_name(f"{name}.jsonl") for name in names)
