"""The scripts of the page, run by Node outside any page."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from checkwise.page.assets import assets
from tests.requirements import requires

NODE = shutil.which("node")
needs_node = requires("node", NODE is not None, "node is not installed")


def run_script(names: tuple[str, ...], body: str, given: Any, folder: Path) -> Any:
    """Run ``body`` after the scripts ``names``, with ``given`` as its input; what it returns."""
    assert NODE is not None
    source, data, answer = (folder / name for name in ("script.js", "given.json", "answer.json"))
    data.write_text(json.dumps(given))
    source.write_text(
        "'use strict';\n"
        + assets(*names)
        + "const given = JSON.parse(require('fs').readFileSync(process.argv[2], 'utf8'));\n"
        + f"(async () => {{ {body} }})().then((answer) => "
        + "require('fs').writeFileSync(process.argv[3], JSON.stringify(answer)));\n"
    )
    done = subprocess.run(
        [NODE, str(source), str(data), str(answer)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(answer.read_text())
