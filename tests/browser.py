"""A real browser without a window, driven through the DevTools protocol over a pair of pipes."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe"),
]
PATIENCE = 60  # s


class Browser:
    """A browser with one page; what the page logs as an error or throws is in `errors`."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self._number = 0
        self._profile = tempfile.TemporaryDirectory(prefix="ann-browser-", ignore_cleanup_errors=True)
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        # The browser reads commands from descriptor 3 and writes answers to 4.
        wrapper = f'exec 3<&{commands} 4>&{answers}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", wrapper, "-", str(CHROMIUM), *FLAGS, f"--user-data-dir={self._profile.name}"],
            pass_fds=(commands, answers),
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._received = b""
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, page: Path, fragment: str = "", width: int = 1280, height: int = 900, dark=False) -> None:
        """Show a file in a window of that size, as a new page, and wait until it is drawn."""
        self.errors.clear()
        self._call("Page.navigate", url="about:blank")
        mobile = width < 600
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", features=scheme)
        there = page.as_uri() + fragment
        self._call("Page.navigate", url=there)
        # A page that is left may answer once more, and its promises end with it.
        until = time.monotonic() + PATIENCE
        is_there = "location.pathname.length > 5 && document.readyState === 'complete'"
        while self.run(is_there) is not True:
            assert time.monotonic() < until, f"{there} is not loaded"
            time.sleep(0.01)
        self.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")

    def run(self, script: str):
        """Return the value of an expression, or of what a function's body, in braces, returns."""
        expression = f"(async () => {script})()" if script.lstrip().startswith("{") else script
        answer = self._call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, timeout=30000
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def picture(self, path: Path, whole: bool = False) -> None:
        """Write a picture of the window, or of the whole page."""
        answer = self._call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """End the browser."""
        self._session = None
        try:
            self._call("Browser.close")
        finally:
            os.close(self._commands)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            os.close(self._answers)
            self._profile.cleanup()

    def _call(self, method: str, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._note(answer)

    def _next(self):
        while b"\0" not in self._received:
            assert select.select([self._answers], [], [], PATIENCE)[0], "the browser does not answer"
            part = os.read(self._answers, 1 << 20)
            assert part, "the browser has ended"
            self._received += part
        one, _, self._received = self._received.partition(b"\0")
        return json.loads(one)

    def _note(self, event) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"]))
        if event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(json.dumps(parameters["entry"]))
        if event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.errors.append(json.dumps(parameters["args"]))


class Page(HTMLParser):
    """The tags, links, identifiers, scripts' data and texts of a page."""

    def __init__(self, source: Path | str) -> None:
        super().__init__()
        self.tags, self.references, self.ids, self.data, self.text = [], [], [], "", ""
        self.inside = (None, None)
        self.feed(source.read_text(encoding="utf-8") if isinstance(source, Path) else source)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = (tag, dict(attrs).get("id"))
        for name, value in attrs:
            if name in ("href", "src", "srcset", "action", "data", "poster"):
                self.references.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_data(self, data):
        if self.inside == ("script", "data"):
            self.data += data
        else:
            self.text += data

    def handle_endtag(self, tag):
        self.inside = (None, None)
