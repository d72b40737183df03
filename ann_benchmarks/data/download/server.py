"""Request a file and parts of it from a server; separate failures that may pass from those that stay."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import requests
from requests.exceptions import ChunkedEncodingError

TIMEOUT = (10, 60)  # seconds to connect, and without a byte
LONGEST_PAUSE = 60.0  # seconds that a server may make us wait
CHUNK = 2**18  # smaller ones cost more processor than the digests do
# Some firewalls turn away what does not look like a browser; a compressed answer has no ranges.
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; ann-benchmarks)", "Accept-Encoding": "identity"}


class Temporary(Exception):
    """A failure that another attempt may mend, after `pause` seconds at least."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.pause = pause


class Refused(Exception):
    """A failure that another attempt does not mend."""


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
        for chunk in response.iter_content(CHUNK):
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
            raise Temporary(f"the server answers {response.status_code} {response.reason}")
        length = None if _encoded(response) else _content_length(response)
        if limit is not None and length is not None:
            length = min(limit, length)
        arrived = 0
        for chunk in response.iter_content(CHUNK):
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
        with session.get(url, headers=HEADERS | headers, stream=True, timeout=TIMEOUT) as response:
            status = response.status_code
            if status >= 500 or status in (408, 425, 429):
                raise Temporary(f"the server answers {status} {response.reason}", _retry_after(response))
            if status not in (200, 206, 416):
                raise Refused(f"the server answers {status} {response.reason}")
            yield response
    except (requests.ConnectionError, requests.Timeout, ChunkedEncodingError) as error:
        raise Temporary(_shortened(error)) from None
    except requests.RequestException as error:
        raise Refused(_shortened(error)) from None


def _content_range(response: requests.Response) -> tuple[int, int, int] | None:
    match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", response.headers.get("Content-Range", ""))
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _content_length(response: requests.Response) -> int | None:
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None


def _validator(response: requests.Response) -> str:
    etag = response.headers.get("ETag", "")  # a weak one names what is alike, not what is the same
    return etag if etag.startswith('"') else response.headers.get("Last-Modified", "")


def _encoded(response: requests.Response) -> bool:
    return response.headers.get("Content-Encoding", "identity").lower() != "identity"


def _retry_after(response: requests.Response) -> float:
    text = response.headers.get("Retry-After", "")
    if text.isdecimal():
        return min(float(text), LONGEST_PAUSE)
    try:
        return min(max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0), LONGEST_PAUSE)
    except (ValueError, TypeError):
        return 0.0


def _shortened(error: Exception) -> str:
    """Give the innermost cause of a network error, without the wrapping that requests and urllib3 give it."""
    cause: object = error
    while isinstance(cause, BaseException):
        inner = getattr(cause, "reason", None) or (cause.args[0] if cause.args else None)
        if not isinstance(inner, (str, BaseException)):
            break
        cause = inner
    return " ".join(str(cause).split())[:200] or type(error).__name__
