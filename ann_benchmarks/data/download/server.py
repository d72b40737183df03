"""Request a file and parts of it from a server; separate failures that may pass from those that stay."""

import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urljoin

import requests
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from ann_benchmarks.common.errors import one_line

TIMEOUT = (10, 60)  # seconds to connect, and without a byte
HEADER_SECONDS = 90.0  # until an answer begins
SPEED_WINDOW = 60.0  # seconds of waiting over which a speed is judged
LEAST_SPEED = 1000  # bytes a second
MOST_MOVES = 10  # from one address to another
MOST_DIGITS = 19  # of a size: no disk has as many bytes, and Python refuses thousands
LONGEST_REASON = 200
LONGEST_PAUSE = 60.0  # seconds that a server may make us wait
CHUNK = 2**18  # smaller ones cost more processor than the digests do
# Some firewalls turn away what does not look like a browser; a compressed answer has no ranges.
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; ann-benchmarks)", "Accept-Encoding": "identity"}


class Temporary(Exception):
    """A failure that another attempt may mend, after `pause` seconds at least."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.pause = pause


class TooSlow(Temporary):
    """What arrives at such a speed counts as nothing."""


class Refused(Exception):
    """A failure that another attempt does not mend."""


class Session(requests.Session):
    """Connections that are used again; `_sent` follows files that have moved, without reading bodies."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None: redirects are followed elsewhere."""


class IgnoresRanges(Exception):
    """The server sends the whole file where a part of it was requested."""


@dataclass(frozen=True)
class Remote:
    """A server's file: its bytes, if the server says them, and the name of its version.

    Without such a name, parts of two versions could get mixed up: it is empty where the server sends no
    parts, or does not name the version, and the file has to come in one piece.
    """

    total: int | None
    validator: str


def inquire(session: requests.Session, url: str) -> Remote:
    """Request the first byte only, to learn how long the file is and whether parts of it can be had."""
    with _answer(session, url, {"Range": "bytes=0-0"}) as response:
        if response.status_code == 416 or _encoded(response):
            return Remote(None, "")
        if response.status_code == 206:
            found = _content_range(response)
            return Remote(found[2], _validator(response)) if found else Remote(None, "")
        return Remote(_content_length(response), "")


def read_part(session: requests.Session, url: str, remote: Remote, start: int, stop: int) -> Iterator[bytes]:
    """Give the bytes `start` to `stop` of this version, or fewer if the server likes shorter parts."""
    headers = {"Range": f"bytes={start}-{stop - 1}", "If-Range": remote.validator}
    with _answer(session, url, headers) as response:
        sent = _validator(response)
        same_kind = sent.startswith('"') == remote.validator.startswith('"')
        changed = Temporary("the server's file has changed since the download began")
        if response.status_code == 416 or (sent and same_kind and sent != remote.validator):
            raise changed
        if response.status_code == 200:
            raise IgnoresRanges if sent == remote.validator else changed
        found = _content_range(response)
        if found is None or _encoded(response) or found[0] != start or not start <= found[1] < stop:
            raise Temporary("the server sent another part than was requested")
        if found[2] != remote.total:
            raise changed
        expected = found[1] + 1 - start
        if _content_length(response) not in (None, expected):
            raise Temporary("the server announces another part than was requested")
        for chunk in _pieces(response):
            expected -= len(chunk)
            if expected < 0:
                raise Temporary("the server sent more than was requested")
            yield chunk
        if expected:
            raise Temporary(f"the connection ended {expected:,} bytes early")


def read_all(session: requests.Session, url: str, limit: int | None) -> Iterator[bytes]:
    """Give the file from its start; hang up after `limit` bytes."""
    with _answer(session, url, {}) as response:
        if response.status_code != 200:
            raise Temporary(_status(response))
        length = None if _encoded(response) else _content_length(response)
        if limit is not None and length is not None:
            length = min(limit, length)
        arrived = 0
        for chunk in _pieces(response):
            if limit is not None:
                chunk = chunk[: limit - arrived]
            arrived += len(chunk)
            yield chunk
            if arrived == limit:
                return
        if length is not None and arrived != length:
            raise Temporary(f"{arrived:,} of {length:,} bytes have arrived")


@contextmanager
def _answer(session: requests.Session, url: str, headers: dict[str, str]) -> Iterator[requests.Response]:
    try:
        with _sent(session, url, HEADERS | headers) as response:
            status = response.status_code
            if status >= 500 or status in (408, 425, 429):
                raise Temporary(_status(response), _retry_after(response))
            if status not in (200, 206, 416):
                raise Refused(_status(response))
            yield response
    except (requests.ConnectionError, requests.Timeout, HTTPError) as error:
        raise Temporary(_shortened(error)) from None
    except (requests.RequestException, ValueError) as error:  # ValueError: the address is invalid
        raise Refused(_shortened(error)) from None


def _sent(session: requests.Session, url: str, headers: Mapping[str, str]) -> Any:
    """Return the answer of the address that a file has moved to, if it has; no body is read."""
    for _ in range(MOST_MOVES + 1):
        outcome: queue.SimpleQueue[Any] = queue.SimpleQueue()
        request = partial(session.get, url, headers=headers, stream=True, timeout=TIMEOUT)
        start_aside(request, outcome)
        try:
            response = outcome.get(timeout=HEADER_SECONDS)
        except queue.Empty:  # whatever comes between timeouts
            raise Temporary(f"no answer has begun within {HEADER_SECONDS:.0f} s") from None
        if isinstance(response, BaseException):
            raise response
        target = requests.Session.get_redirect_target(session, response)
        if target is None:
            return response
        response.close()
        url = urljoin(url, target)
    raise Refused(f"the file has moved more than {MOST_MOVES} times")


def start_aside(work: Callable[[], Any], outcomes: "queue.SimpleQueue[Any]") -> threading.Thread:
    """Start work in a thread that nobody has to wait for; put what it returns or raises into `outcomes`."""

    def run() -> None:
        try:
            outcomes.put(work())
        except BaseException as error:
            outcomes.put(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _pieces(response: requests.Response) -> Iterator[bytes]:
    """Give the body as it arrives; Temporary where it would take for ever."""
    arrived, waited = 0, 0.0
    while True:
        began = time.monotonic()
        piece = response.raw.read1(CHUNK, decode_content=True)
        waited += time.monotonic() - began
        if not piece:
            return
        yield piece
        arrived += len(piece)
        if waited > SPEED_WINDOW:
            if arrived < LEAST_SPEED * waited:
                raise TooSlow(f"the server sends {arrived / waited:,.0f} of at least {LEAST_SPEED:,} bytes/s")
            arrived, waited = 0, 0.0


def _status(response: requests.Response) -> str:
    return one_line(f"the server answers {response.status_code} {response.reason}", LONGEST_REASON)


def _content_range(response: requests.Response) -> tuple[int, int, int] | None:
    number = rf"(\d{{1,{MOST_DIGITS}}})"
    text = response.headers.get("Content-Range", "")
    match = re.fullmatch(f"bytes {number}-{number}/{number}", text, re.ASCII)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _content_length(response: requests.Response) -> int | None:
    length = response.headers.get("Content-Length", "")
    return int(length) if re.fullmatch(rf"\d{{1,{MOST_DIGITS}}}", length, re.ASCII) else None


def _validator(response: requests.Response) -> str:
    etag = response.headers.get("ETag", "")  # a weak one names what is alike, not what is the same
    return etag if etag.startswith('"') else response.headers.get("Last-Modified", "")


def _encoded(response: requests.Response) -> bool:
    return response.headers.get("Content-Encoding", "identity").lower() != "identity"


def _retry_after(response: requests.Response) -> float:
    try:
        return min(Retry().get_retry_after(response.raw) or 0.0, LONGEST_PAUSE)
    except (HTTPError, OverflowError, ValueError):  # of a header that says no time
        return 0.0


def _shortened(error: Exception) -> str:
    """Give the innermost cause of a network error, without the wrapping that requests and urllib3 give it."""
    cause: object = error
    while isinstance(cause, BaseException):
        inner = getattr(cause, "reason", None) or (cause.args[0] if cause.args else None)
        if not isinstance(inner, (str, BaseException)):
            break
        cause = inner
    return one_line(str(cause), LONGEST_REASON) or type(error).__name__
