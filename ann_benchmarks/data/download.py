"""Download files: several at a time, resumed where they stopped, and checked before they get their names."""

import json
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tqdm import tqdm

from ann_benchmarks.common.errors import UserError, one_line
from ann_benchmarks.common.files import disk_errors, require_space, sync_folder, unfinished_file

CONNECTIONS = 4  # at the same time
ATTEMPTS = 5  # in a row that bring nothing new
FIRST_PAUSE = 1.0  # seconds before the second attempt; doubled for each one after
LONGEST_PAUSE = 60.0  # seconds that a server may make us wait
GRACE = 2.0  # seconds in which connections close their files when a run ends early
TIMEOUT = (10, 60)  # seconds to connect, and without a byte
LONGEST_REASON = 200
CHUNK = 2**18
# Some firewalls turn away what does not look like a browser; a compressed answer has no ranges.
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; ann-benchmarks)", "Accept-Encoding": "identity"}
_NUMBER = r"(\d{1,19})"  # of bytes: no disk has more, and Python refuses thousands of digits


@dataclass(frozen=True)
class DownloadRequest:
    """A file to be downloaded from a URL.

    `size` is that of the server's file, where it is known; `first_bytes` are as many as suffice, None: all.
    `finish` is called with the path of the complete file before it gets its name: raises UserError if it is
    not what it should be; may edit it in place, and accepts what it has edited before.
    """

    url: str
    path: Path
    size: int | None = None
    first_bytes: int | None = None
    finish: Callable[[Path], None] | None = None

    @property
    def partial(self) -> Path:
        """Where it grows until it is whole."""
        return self.path.with_name(f".{self.path.name}.partial")

    @property
    def journal(self) -> Path:
        """Of which version of the server's file the partial file is."""
        return self.path.with_name(f".{self.path.name}.partial.json")


def fetch(files: Sequence[DownloadRequest], hint: str = "") -> None:
    """Download every file that is not there yet; each has its name when it is whole, or not at all.

    Each connection takes the next file. What has arrived stays next to it, for the next call to go on from.
    Raises UserError when a server has no such file, keeps failing or sends something else, or when the disk
    is too small; `hint` says what may help besides running again, such as "name a mirror in VARIABLE".
    """
    missing = [file for file in {file.path: file for file in files}.values() if not file.path.exists()]
    if not missing:
        return
    others = f" and {len(missing) - 1:,} other files" if len(missing) > 1 else ""
    print(f"downloading {missing[0].url}{others}", file=sys.stderr)
    name = missing[0].path.name if len(missing) == 1 else f"{len(missing):,} files"
    with tqdm(desc=name, total=None, unit="B", unit_scale=True, delay=1, disable=None) as bar:
        _carry_out([FileTask(file, hint, bar) for file in missing])


def _carry_out(tasks: list["FileTask"]) -> None:
    """Have all tasks done; when one fails, an event ends the others."""
    outcomes: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    stop, waiting = threading.Event(), iter(tasks)  # the next task is for the thread that is free

    def work() -> None:
        try:
            for task in waiting:
                if stop.is_set():
                    break
                task.run(stop)
            outcomes.put(None)
        except BaseException as error:
            outcomes.put(error)

    # Nobody waits long for a thread that a server keeps waiting.
    threads = [threading.Thread(target=work, daemon=True) for _ in tasks[:CONNECTIONS]]
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            if (error := outcomes.get()) is not None:
                raise error
    finally:
        stop.set()
        for thread in threads:
            thread.join(GRACE / len(threads))


class Abandoned(Exception):
    """Another file has failed, or the user has interrupted the run."""


class Temporary(Exception):
    """A failure that another attempt may mend: the reason, and perhaps seconds to wait at least."""


class FileTask:
    """A file on its way: the hidden file .NAME.partial, which one run at a time owns, and its journal.

    Without a `validator`, the server's name of the version, nothing can be added later.
    """

    _file: BinaryIO
    _total: int | None = None

    def __init__(self, request: DownloadRequest, hint: str, bar: "tqdm[Any]") -> None:
        self._request, self._hint, self._bar = request, hint, bar
        self._position = self._expected = 0  # bytes that are there, and that the bar counts on
        self._validator = ""

    @property
    def _length(self) -> int | None:
        """Bytes that will be on disk, if known."""
        return self._total if self._request.first_bytes is None else self._request.first_bytes

    def run(self, stop: threading.Event) -> None:
        """Have the file, unless another run has it first."""
        request = self._request
        require_space(request.path.parent, 0)  # makes the folder
        with disk_errors(request.partial):
            while not request.path.exists():
                found = unfinished_file(request.partial, f"downloading {request.path}")
                if found is None:
                    continue
                with found as self._file:
                    try:
                        if not request.path.exists():
                            self._resume()
                            self._persist(stop)
                            self._name()
                    finally:
                        if request.path.exists() or not (self._position and self._validator):
                            request.journal.unlink(missing_ok=True)
                            request.partial.unlink(missing_ok=True)

    def _resume(self) -> None:
        """Keep what has arrived, if the journal says what it is of."""
        with suppress(OSError, ValueError, LookupError, TypeError):
            journal = json.loads(self._request.journal.read_text())
            validator, total = str(journal["validator"]), int(journal["total"])
            arrived = os.fstat(self._file.fileno()).st_size
            self._position = min(arrived, self._request.first_bytes or total) if validator else 0
            self._validator, self._total = validator, total
        self._file.truncate(self._position)
        self._bar.update(self._position)

    def _restart(self, validator: str, total: int | None) -> None:
        """Throw away what has arrived; this version comes now."""
        self._bar.update(-self._position)
        self._file.truncate(0)
        self._position, self._validator, self._total = 0, validator, total
        self._request.journal.write_text(json.dumps({"validator": validator, "total": total}))

    def _persist(self, stop: threading.Event) -> None:
        """Request what is missing until it is there, or ATTEMPTS in a row got no further than before."""
        best, failures = self._position, 0
        while not self._position or self._position != self._length:
            try:
                self._receive(stop)
                return
            except Temporary as error:
                reason, *pauses = error.args
            failures = 1 if self._position > best else failures + 1
            best = max(best, self._position)
            if failures == ATTEMPTS:
                raise self._failure(reason, "run again to go on from what has arrived")
            pause = max([FIRST_PAUSE * 2 ** (failures - 1), *pauses])
            text = f"{self._request.path.name}: {reason}; trying again in {pause:.0f} s"
            tqdm.write(one_line(text), file=sys.stderr)
            if stop.wait(pause):
                raise Abandoned

    def _receive(self, stop: threading.Event) -> None:
        """Request the bytes from `position` on, and write them; the server starts anew if it must."""
        first, headers = self._request.first_bytes, dict(HEADERS)
        if self._position and not self._validator:  # parts of two versions could get mixed up
            self._restart("", None)
        if self._position or first is not None:
            headers["Range"] = f"bytes={self._position}-{'' if first is None else first - 1}"
        headers |= {"If-Range": self._validator} if self._position else {}
        with self._answer(headers) as response:
            self._begin(response)
            self._check_sizes()
            most = self._request.size if self._length is None else self._length
            while self._position != self._length or not self._length:
                chunk = response.raw.read1(CHUNK, decode_content=True)
                if stop.is_set():
                    raise Abandoned
                if not chunk:
                    break
                chunk = chunk if first is None else chunk[: first - self._position]
                if most is not None and self._position + len(chunk) > most:
                    raise self._failure(f"the server's file has more than {most:,} bytes", "try again")
                self._file.seek(self._position)
                self._file.write(chunk)
                self._file.flush()
                self._position += len(chunk)
                self._bar.update(len(chunk))
        if self._total is None and self._position != first:  # the end alone tells how long the file is
            self._total = self._position
            self._check_sizes()
        if missing := (self._length or 0) - self._position:
            raise Temporary(f"the connection ended {missing:,} bytes early")

    def _begin(self, response: Any) -> None:
        """Read from an answer's headers where its bytes belong in the file, and their version."""
        headers = response.headers
        etag = headers.get("ETag", "")  # a weak one names what is alike, not what is the same
        sent = etag if etag.startswith('"') else headers.get("Last-Modified", "")
        is_plain = headers.get("Content-Encoding", "identity").lower() == "identity"
        if response.status_code == 206:
            pattern = f"bytes {self._position}-{_NUMBER}/{_NUMBER}"
            found = re.fullmatch(pattern, headers.get("Content-Range", ""), re.ASCII)
            is_next = found and is_plain and int(found[2]) == self._total and sent in ("", self._validator)
            if found and is_plain and not self._position:
                self._restart(sent, int(found[2]))
            elif not is_next:
                raise Temporary("the server sent another part than was requested")
            return
        sends_parts = headers.get("Accept-Ranges") == "bytes" and is_plain
        if self._position and not (sends_parts and sent):
            # A page of some proxy, more likely than not: no reason to lose what has arrived.
            again = f"delete {self._request.journal} to start again"
            raise Temporary(f"the server no longer sends parts of the file ({again})")
        length = re.fullmatch(_NUMBER, headers.get("Content-Length", ""), re.ASCII) if is_plain else None
        self._restart(sent if sends_parts and length else "", int(length[0]) if length else None)

    def _check_sizes(self) -> None:
        """Raise UserError where the server's file has another size than expected, or no room."""
        size, first, total = self._request.size, self._request.first_bytes, self._total
        if total is not None and (total < (first or 0) or size not in (None, total)):
            reason = f"the server's file has {total:,} bytes instead of {size or first:,}"
            raise self._failure(reason, "try again")
        before, self._expected = self._expected, self._length or 0
        require_space(self._request.path.parent, self._expected - self._position)
        self._bar.total = (self._bar.total or 0) + self._expected - before

    def _name(self) -> None:
        """Check the complete file, and give it its name; throw it away if it is bad."""
        request = self._request
        try:
            if request.finish is not None:
                request.finish(request.partial)
        except UserError as error:
            self._position = 0  # nothing to go on from
            raise self._failure(f"what arrived cannot be used: {error}", "try again") from None
        os.fsync(self._file.fileno())
        request.partial.replace(request.path)
        sync_folder(request.path.parent)

    def _failure(self, reason: str, advice: str) -> UserError:
        """Return the error that ends the download, with what the user can do."""
        hint = f", or {self._hint}" if self._hint else ""
        return UserError(f"cannot download {self._request.url}: {reason}; {advice}{hint}")

    @contextmanager
    def _answer(self, headers: dict[str, str]) -> Iterator[Any]:
        """Give an answer that has the file or a part of it; Temporary or UserError for anything else."""
        import requests  # plots and reports do not wait for it
        from urllib3.exceptions import HTTPError

        save = f"save the file as {self._request.path} yourself"
        try:
            with requests.get(self._request.url, headers=headers, stream=True, timeout=TIMEOUT) as response:
                status = response.status_code
                text = one_line(f"the server answers {status} {response.reason}", LONGEST_REASON)
                if status >= 500 or status in (408, 416, 425, 429):
                    after = re.fullmatch(_NUMBER, response.headers.get("Retry-After", ""), re.ASCII)
                    raise Temporary(text, min(float(after[0]), LONGEST_PAUSE) if after else 0.0)
                if status not in (200, 206):
                    raise self._failure(text, save)
                yield response
        except (requests.ConnectionError, requests.Timeout, HTTPError) as error:
            raise Temporary(_cause(error)) from None
        except (requests.RequestException, ValueError) as error:  # ValueError: the address is invalid
            raise self._failure(_cause(error), save) from None


def _cause(error: BaseException) -> str:
    """Return the innermost cause of a network error, without the wrapping of requests and urllib3."""
    inner = getattr(error, "reason", None) or next(iter(error.args), None)
    if isinstance(inner, BaseException):
        return _cause(inner)
    return one_line(str(inner or error), LONGEST_REASON) or type(error).__name__
