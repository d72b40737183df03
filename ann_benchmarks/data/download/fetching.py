"""Fetch files over HTTP, several at a time, and go on after failures."""

import queue
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import requests
from tqdm import tqdm
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from ann_benchmarks.common.errors import UserError, one_line
from ann_benchmarks.common.files import disk_errors, require_space

from .partial import DownloadRequest, Partial
from .record import byte_bar

ATTEMPTS = 5  # in a row that bring nothing new
LEAST_PROGRESS = 1000  # bytes that count as something new
FIRST_PAUSE = 1.0  # seconds before the second attempt; doubled for each one after
LONGEST_PAUSE = 60.0  # seconds that a server may make us wait
LEAST_EXPLAINED = 4.0  # seconds of a pause that the user should know about
GRACE = 2.0  # seconds in which connections close their files when a run ends early
TIMEOUT = (10, 60)  # seconds to connect, and without a byte
LONGEST_REASON = 200
CHUNK = 2**18  # smaller ones cost more processor than the digests do
# Some firewalls turn away what does not look like a browser; a compressed answer has no ranges.
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; ann-benchmarks)", "Accept-Encoding": "identity"}
_NUMBER = r"(\d{1,19})"  # of bytes: no disk has more, and Python refuses thousands of digits


def fetch_files(files: Sequence[DownloadRequest], connections: int, hint: str) -> None:
    """Carry out fetch()."""
    missing = [file for file in {file.path: file for file in files}.values() if not file.path.exists()]
    if not missing:
        return
    for folder in {file.path.parent for file in missing}:
        require_space(folder, 0)  # makes it
    others = f" and {len(missing) - 1:,} other files" if len(missing) > 1 else ""
    print(f"downloading {missing[0].url}{others}", file=sys.stderr)
    name = missing[0].path.name if len(missing) == 1 else f"{len(missing):,} files"
    with byte_bar(None, name) as bar:
        _work_off([FileTask(file, hint, bar) for file in missing], connections)


def _work_off(tasks: Sequence["FileTask"], connections: int) -> None:
    """Carry out tasks on all connections until all are done; when one fails, an event ends the others."""
    waiting: queue.SimpleQueue[FileTask] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    outcomes: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    stop = threading.Event()

    def work() -> None:
        try:
            while not stop.is_set():
                waiting.get_nowait().run(stop)
        except queue.Empty:
            outcomes.put(None)
        except BaseException as error:
            outcomes.put(error)

    # Nobody waits long for a thread that a server keeps waiting.
    count = max(1, min(connections, len(tasks)))
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            if (error := outcomes.get()) is not None:
                raise error
    finally:
        stop.set()
        until = time.monotonic() + GRACE
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))


class Abandoned(Exception):
    """Another file has failed, or the user has interrupted the run."""


class Temporary(Exception):
    """A failure that another attempt may mend, after `pause` seconds at least."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.pause = pause


class Refused(Exception):
    """A failure that another attempt does not mend."""


class FileTask:
    """A file on its way; `hint` says what else the user can do without it."""

    def __init__(self, request: DownloadRequest, hint: str, bar: "tqdm[Any]") -> None:
        self._request, self._hint, self._bar = request, hint, bar
        self._partial = Partial(request)
        self._expected = 0  # bytes that the bar counts on

    def run(self, stop: threading.Event) -> None:
        """Have the file, unless another run has it first."""
        with disk_errors(self._request.partial):
            if not self._partial.acquire():
                return
            try:
                self._bar.update(self._partial.position)
                self._persist(stop)
                self._name()
            finally:
                self._partial.close()

    def _persist(self, stop: threading.Event) -> None:
        """Request what is missing until it is there, or ATTEMPTS in a row got no further than before."""
        best, failures = self._partial.position, 0
        while not self._partial.position or self._partial.position != self._partial.length:
            try:
                self._receive(stop)
                return
            except Refused as refused:
                save = f"save the file as {self._request.path} yourself"
                raise self._failure(str(refused), save) from None
            except Temporary as error:
                reason, pause = str(error), error.pause
            position = self._partial.position
            failures = 1 if position - best >= LEAST_PROGRESS else failures + 1
            best = max(best, position)
            if failures == ATTEMPTS:
                raise self._failure(reason, "run again to go on from what has arrived")
            pause = max(FIRST_PAUSE * 2 ** (failures - 1), pause)
            if pause >= LEAST_EXPLAINED:
                line = f"{self._request.path.name}: {reason}; trying again in {pause:.0f} s"
                tqdm.write(one_line(line), file=sys.stderr)
            if stop.wait(pause):
                raise Abandoned

    def _receive(self, stop: threading.Event) -> None:
        """Request the bytes from `position` on, and write them; the server starts anew if it must."""
        partial, first, headers = self._partial, self._request.first_bytes, dict(HEADERS)
        if not partial.validator:  # parts of two versions could get mixed up
            self._bar.update(-partial.position)
            partial.restart("", None)
        if partial.position or first is not None:
            headers["Range"] = f"bytes={partial.position}-{'' if first is None else first - 1}"
        if partial.position:
            headers["If-Range"] = partial.validator
        with _answer(self._request.url, headers) as response:
            self._begin(response)
            self._check_sizes()
            while partial.position != partial.length or not partial.length:
                chunk = response.raw.read1(CHUNK, decode_content=True)
                if stop.is_set():
                    raise Abandoned
                if not chunk:
                    break
                self._take(chunk if first is None else chunk[: first - partial.position])
        if partial.total is None and partial.position != first:  # the end alone tells how long the file is
            partial.total = partial.position
            self._check_sizes()
        if missing := (partial.length or 0) - partial.position:
            raise Temporary(f"the connection ended {missing:,} bytes early")

    def _take(self, chunk: bytes) -> None:
        """Write bytes, no more than are expected; half of the disk's room where nobody knows."""
        known = [most for most in (self._partial.length, self._request.size) if most is not None]
        most = known[0] if known else shutil.disk_usage(self._request.path.parent).free // 2
        if self._partial.position + len(chunk) > most:
            raise self._failure(f"the server's file has more than {most:,} bytes", "try again")
        self._partial.write(chunk)
        self._bar.update(len(chunk))

    def _begin(self, response: requests.Response) -> None:
        """Read from an answer's headers where its bytes belong in the file, and their version."""
        partial, sent = self._partial, _validator(response)
        if response.status_code == 206:
            found = re.fullmatch(
                f"bytes {_NUMBER}-{_NUMBER}/{_NUMBER}", response.headers.get("Content-Range", ""), re.ASCII
            )
            if found is None or int(found[1]) != partial.position or _is_encoded(response):
                raise Temporary("the server sent another part than was requested")
            if not partial.position:
                partial.restart(sent, int(found[3]))
            elif int(found[3]) != partial.total or sent not in ("", partial.validator):
                raise Temporary("the server sent a part of another version than was requested")
            return
        sends_parts = response.headers.get("Accept-Ranges") == "bytes" and not _is_encoded(response)
        if partial.position and not (sends_parts and sent):
            # A page of some proxy, more likely than not: no reason to lose what has arrived.
            raise Temporary(
                "the server no longer sends parts of the file"
                f" (delete {self._request.journal} to start again)"
            )
        if partial.position and sent != partial.validator:
            name = self._request.path.name
            tqdm.write(f"the server has another version of {name} now; starting again", file=sys.stderr)
        self._bar.update(-partial.position)
        length = re.fullmatch(_NUMBER, response.headers.get("Content-Length", ""), re.ASCII)
        total = int(length[0]) if length and not _is_encoded(response) else None
        partial.restart(sent if sends_parts and length else "", total)

    def _check_sizes(self) -> None:
        """Raise UserError where the server's file has another size than expected, or no room."""
        partial, size, first = self._partial, self._request.size, self._request.first_bytes
        total = partial.total
        if total is not None and size not in (None, total):
            raise self._failure(f"the server's file has {total:,} bytes instead of {size:,}", "try again")
        if total is not None and first is not None and total < first:
            reason = f"the server's file has {total:,} bytes, fewer than the {first:,} requested"
            raise self._failure(reason, "try again")
        length = partial.length or 0
        require_space(self._request.path.parent, length - partial.position)
        self._bar.total = (self._bar.total or 0) + length - self._expected
        self._expected = length

    def _name(self) -> None:
        try:
            self._partial.name()
        except UserError as error:
            if self._request.partial.exists():
                raise
            raise self._failure(f"what arrived {error}", "try again") from None

    def _failure(self, reason: str, advice: str) -> UserError:
        """Return the error that ends the download, with what the user can do."""
        advice += f", or {self._hint}" if self._hint else ""
        return UserError(f"cannot download {self._request.url}: {reason}; {advice}")


@contextmanager
def _answer(url: str, headers: dict[str, str]) -> Iterator[requests.Response]:
    """Give an answer that has the file or a part of it; Temporary or Refused for anything else."""
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            status = response.status_code
            text = one_line(f"the server answers {status} {response.reason}", LONGEST_REASON)
            if status >= 500 or status in (408, 416, 425, 429):
                raise Temporary(text, _retry_after(response))
            if status not in (200, 206):
                raise Refused(text)
            yield response
    except (requests.ConnectionError, requests.Timeout, HTTPError) as error:
        raise Temporary(_shortened(error)) from None
    except (requests.RequestException, ValueError) as error:  # ValueError: the address is invalid
        raise Refused(_shortened(error)) from None


def _validator(response: requests.Response) -> str:
    etag = response.headers.get("ETag", "")  # a weak one names what is alike, not what is the same
    return etag if etag.startswith('"') else response.headers.get("Last-Modified", "")


def _is_encoded(response: requests.Response) -> bool:
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
