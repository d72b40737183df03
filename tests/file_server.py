"""A web server that understands ranges, with the faults that a test requests."""

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Request(NamedTuple):
    path: str
    range: str
    headers: dict[str, str]


class FileServer(ThreadingHTTPServer):
    """Serves bodies by path, with the faults that a test requests; keeps requests and counts bytes."""

    daemon_threads = True

    def __init__(self, **bodies: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies = bodies
        self.requests: list[Request] = []
        self.sent = 0  # bytes of bodies
        self.sent_of: Counter[str] = Counter()  # by path
        self.statuses: list[tuple[int, str]] = []  # answered first, one a request, with their Retry-After
        self.cut: Callable[[], int | None] = lambda: None  # bytes before the connection is cut
        self.before: Callable[[Request], None] = lambda request: None
        self.ranges = self.if_range = self.etags = True
        self.dates = False
        self.chunked = self.until_close = False
        self.wrong: dict[str, int] = {}  # what is added to "length", "start", "total" of an answer
        self.pause = 0.0  # seconds between blocks
        self.connections = 0
        self.raw: Iterable[bytes] = ()  # sent instead of any answer, with pauses
        self.guard = threading.Lock()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def url(self, path: str = "file") -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Connections that are cut are no news."""


class _Handler(BaseHTTPRequestHandler):
    server: FileServer
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        with self.server.guard:
            self.server.connections += 1
        try:
            super().handle()
        finally:
            with self.server.guard:
                self.server.connections -= 1

    def do_GET(self) -> None:
        server = self.server
        request = Request(self.path[1:], self.headers.get("Range", ""), dict(self.headers))
        with server.guard:
            server.requests.append(request)
            status, retry_after = server.statuses.pop(0) if server.statuses else (0, "")
        server.before(request)
        if server.raw:
            self.close_connection = True
            for block in server.raw:
                self.wfile.write(block)
                time.sleep(server.pause)
            return
        if self.path.startswith("/moved/"):
            self.answer(302, b"", Location=self.path.removeprefix("/moved"))
        elif status or request.path not in server.bodies:
            self.answer(status or 404, b"no", **({"Retry-After": retry_after} if retry_after else {}))
        else:
            self.send_body(request, server.bodies[request.path])

    def send_body(self, request: Request, body: bytes) -> None:
        server, wrong = self.server, self.server.wrong
        validators = {"Accept-Ranges": "bytes"} if server.ranges else {}
        if server.etags:
            validators["ETag"] = f'"{hashlib.md5(body).hexdigest()}"'
        if server.dates:
            validators["Last-Modified"] = "Sat, 01 Nov 2025 00:00:00 GMT"
        condition = request.headers.get("If-Range")
        honoured = condition is None or (server.if_range and condition in validators.values())
        if not (request.range and server.ranges and honoured):
            self.answer(200, body, **validators)
            return
        first, last = (int(number or len(body)) for number in request.range.removeprefix("bytes=").split("-"))
        if first >= len(body):
            self.answer(416, b"")
            return
        last = min(last, len(body) - 1)
        shift, total = wrong.get("start", 0), len(body) + wrong.get("total", 0)
        validators["Content-Range"] = f"bytes {first + shift}-{last + shift}/{total}"
        self.answer(206, body[first : last + 1], **validators)

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        server = self.server
        cut = server.cut() if len(body) > 2 else None
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if server.chunked and status == 200:
            self.send_header("Transfer-Encoding", "chunked")
        elif server.until_close:
            self.send_header("Connection", "close")
        else:
            error = server.wrong.get("length", 0) if len(body) > 2 else 0
            self.send_header("Content-Length", str(len(body) + error))
            self.close_connection = self.close_connection or bool(error)
        self.end_headers()
        kept = body if cut is None else body[:cut]
        for start in range(0, len(kept), 2**14):
            block = kept[start : start + 2**14]
            if server.chunked and status == 200:
                block = b"%x\r\n%b\r\n" % (len(block), block)
            with server.guard:  # A client that has everything may read the sums at once.
                server.sent += len(block)
                server.sent_of[self.path[1:]] += len(block)
            self.wfile.write(block)
            time.sleep(server.pause)
        if cut is not None:
            self.close_connection = True
        elif server.chunked and status == 200:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *arguments: object) -> None:
        pass
