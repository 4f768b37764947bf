"""What the pages write works in a fresh interpreter, and importing the package stays light."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

import checkwise

PARTS = ("integrations", "metrics", "study", "testing")
OF_STUDIES = (
    "baselines",
    "data",
    "figures",
    "folder",
    "inference",
    "report",
    "sweep",
    "tables",
    "train",
)
HEAVY = {"torch", "pandas", "pyarrow", "scipy", "matplotlib", "numba", "PIL", "rich"}


def fresh(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def each_alone(codes: Sequence[str]) -> list[str]:
    """What each code prints or raises in an interpreter of its own, forked from an empty one."""
    alone = (
        "import contextlib, io, json, os, sys\n"
        "for code in json.load(sys.stdin):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        said = io.StringIO()\n"
        "        try:\n"
        "            with contextlib.redirect_stdout(said):\n"
        "                exec(code)\n"
        "        except BaseException as error:\n"
        "            print(repr(error), file=said)\n"
        "        os.write(1, (json.dumps(said.getvalue().strip()) + '\\n').encode())\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", alone], input=json.dumps(codes), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_there_are_few_names_to_learn() -> None:
    assert len(checkwise.__all__) <= 25
    assert not {"Cohort", "store", "readers", "selection", *OF_STUDIES} & set(checkwise.__all__)


def test_every_name_is_there_in_a_fresh_interpreter() -> None:
    pages = ("study.train.build_algorithm", "testing.check_rule", "study.Cohort.open")
    names = [*checkwise.__all__, *pages]
    said = each_alone([f"import checkwise as cw; cw.{name}" for name in names])
    assert dict(zip(names, said, strict=True)) == dict.fromkeys(names, "")


def test_every_part_is_an_attribute_of_the_package() -> None:
    parts = [*PARTS, *(f"study.{part}" for part in OF_STUDIES)]
    said = each_alone([f"import checkwise as cw; print(cw.{part}.__name__)" for part in parts])
    assert said == [f"checkwise.{part}" for part in parts]


def test_what_only_studies_use_is_no_name_of_the_package() -> None:
    others = [*OF_STUDIES, "store", "readers", "Cohort"]
    said = each_alone([f"import checkwise as cw; print(hasattr(cw, {part!r}))" for part in others])
    assert dict(zip(others, said, strict=True)) == dict.fromkeys(others, "False")


def test_the_package_lists_its_names_without_loading_them() -> None:
    code = (
        "import sys; import checkwise as cw; names = dir(cw); "
        "print(sorted(set(cw.__all__) - set(names)), "
        "sorted(set(cw.study.__all__) - set(dir(cw.study))), "
        "'build_algorithm' in dir(cw.study.train), "
        f"sorted({HEAVY!r} & {{name.partition('.')[0] for name in sys.modules}}))"
    )
    assert fresh(code) == "[] [] True []"


def test_another_name_is_refused_as_in_any_module() -> None:
    code = "import checkwise as cw; print(hasattr(cw, 'absent'), hasattr(cw.study.train, 'absent'))"
    assert fresh(code) == "False False"


def test_no_name_of_training_becomes_a_module_once_something_is_loaded() -> None:
    code = (
        "import checkwise as cw; from types import ModuleType as M; "
        "twice = [getattr(cw.study.train, name) for name in cw.study.train.__all__ * 2]; "
        "print([thing for thing in twice if isinstance(thing, M)])"
    )
    assert fresh(code) == "[]"


def test_help_imports_no_library_of_arrays_and_no_command() -> None:
    code = (
        "import contextlib, io, sys; from checkwise.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    main(['--help'])\n"
        f"unused = {HEAVY | {'numpy'}!r}\n"
        "print(sorted(name for name in sys.modules if name in unused or name == "
        "'checkwise.cli.select'))"
    )
    assert fresh(code) == "[]"
