"""A page in real Chromium, driven over its DevTools pipe with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.requirements import requires

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
needs_chromium = requires("chromium", CHROMIUM is not None, "chromium is not installed")

KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40, "ArrowUp": 38, "Tab": 9, "Enter": 13}


class Browser:
    """One tab. What it says on the console and asks of the network is noted."""

    def __init__(self, write: int, read: int):
        self._write, self._read = write, read
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.console: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """One command of the protocol; events that arrive meanwhile are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._number:
                assert "error" not in found, f"{method}: {found['error']}"
                return found["result"]

    def open(
        self, page: Path, *, width: int = 1100, height: int = 1400, dark: bool = False
    ) -> None:
        """Load a page and wait until it is drawn."""
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait("document.readyState === 'complete'")
        drawn = "document.getElementById('figure').childElementCount"
        self.wait(f"!document.getElementById('data') || {drawn}")

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until the page is so; ten seconds at most."""
        polled = (
            "new Promise((done, fail) => { const end = Date.now() + 10000; const look = () => "
            f"({condition}) ? done(true) : Date.now() > end ? fail(new Error('waited too long')) "
            ": setTimeout(look, 20); look(); })"
        )
        assert self.run(polled), condition

    def set(self, name: str, value: str) -> None:
        """Put a value into a control of the form, as a user would, and let the page follow."""
        self.run(f"""(() => {{
          const field = document.getElementById('controls').elements.namedItem({json.dumps(name)});
          field.value = {json.dumps(value)};
          field.dispatchEvent(new Event('input', {{ bubbles: true }}));
        }})()""")

    def press(self, key: str) -> None:
        """A key on the keyboard."""
        for kind in ("rawKeyDown", "keyUp"):
            extra = {"text": "\r"} if key == "Enter" and kind == "rawKeyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type="keyDown" if extra else kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=KEYS[key],
                **extra,
            )

    def text(self, selector: str) -> str:
        """The text that is seen at a place."""
        found = self.run(f"document.querySelector({json.dumps(selector)}).innerText")
        assert isinstance(found, str)
        return found

    def picture(self, path: Path, *, whole: bool = False) -> bytes:
        """A screenshot, of the window or of the whole page."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))
        return path.read_bytes()

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has gone"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.consoleAPICalled":
            self.console.append(str(params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.console.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.console.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "about:", "blob:")):
                self.requests.append(url)


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Chromium with an empty profile; it ends with the block."""
    assert CHROMIUM is not None
    (theirs_read, write), (read, theirs_write) = os.pipe(), os.pipe()

    def place() -> None:  # Chromium reads commands from 3 and writes to 4
        first, second = os.dup(theirs_read), os.dup(theirs_write)
        os.dup2(first, 3)
        os.dup2(second, 4)

    process = subprocess.Popen(
        [CHROMIUM, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"],
        preexec_fn=place,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_read)
    os.close(theirs_write)
    try:
        yield Browser(write, read)
    finally:
        os.close(write)
        process.terminate()
        process.wait(timeout=30)
        os.close(read)
