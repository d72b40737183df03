"""Download a dataset: resumed where it stopped, checked before it gets its name."""

import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import requests
from requests.exceptions import ChunkedEncodingError
from tqdm import tqdm

from ..errors import UserError
from .file import Dataset
from .write import disk_errors, require_space

URL_VARIABLE = "ANN_BENCHMARKS_DATASET_URL"
DEFAULT_URL = "https://ann-benchmarks.com"
ATTEMPTS = 5  # in a row that bring nothing new
FIRST_PAUSE = 1.0  # seconds before the second attempt; doubled for each one after
TIMEOUT = (10, 60)  # seconds to connect, and without a byte
CHUNK = 2**16


def download(name: str, path: Path) -> None:
    """Fetch NAME.hdf5 into `path`; the file is there when it is whole and a dataset, or not at all.

    What has arrived is kept beside it as .NAME.hdf5.partial and the next call goes on from there. Raises
    UserError when the server has no such file, keeps failing, or sends something else.
    """
    url = f"{os.environ.get(URL_VARIABLE, DEFAULT_URL).rstrip('/')}/{name}.hdf5"
    partial = path.parent / f".{path.name}.partial"
    require_space(path.parent, 0)
    with disk_errors(partial), _locked(partial) as file:
        if not partial.exists() or not os.path.samestat(partial.stat(), os.fstat(file.fileno())):
            return  # while this run waited for the lock, another gave the file its name
        print(f"downloading {url}", file=sys.stderr)
        transfer = _Transfer(url, partial, file)
        try:
            transfer.run()
            os.fsync(file.fileno())
            _check(partial, transfer)
            partial.replace(path)
            transfer.validator_path.unlink(missing_ok=True)
        finally:
            if not os.fstat(file.fileno()).st_size:
                partial.unlink(missing_ok=True)
                transfer.validator_path.unlink(missing_ok=True)


def _check(partial: Path, transfer: "_Transfer") -> None:
    try:
        Dataset(partial).close()
    except UserError as error:
        transfer.forget()
        reason = re.sub(r".*\((.*)\);.*", r"\1", str(error))
        raise UserError(
            f"what {transfer.url} sent is not a usable dataset: {reason}; "
            f"try again, or name a mirror in {URL_VARIABLE}"
        ) from None


@contextmanager
def _locked(partial: Path) -> Iterator[BinaryIO]:
    with partial.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another run that is downloading {partial}", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


class _Temporary(Exception):
    """A failure that another attempt may mend."""


class _Transfer:
    """One file on its way, in as many requests as it takes.

    A resumed request carries the validator (ETag or date) of the answer that the part came from, so that a
    server whose file has changed sends all of it. Without a validator the download starts again.
    """

    def __init__(self, url: str, partial: Path, file: BinaryIO) -> None:
        self.url, self.partial, self.file = url, partial, file
        self.validator_path = partial.with_name(f"{partial.name}.json")

    def run(self) -> None:
        best, failures = self._size(), 0
        while True:
            try:
                return self._attempt()
            except (_Temporary, requests.ConnectionError, requests.Timeout, ChunkedEncodingError) as error:
                reason = _shortened(error)
            except requests.RequestException as error:
                raise UserError(
                    f"cannot download {self.url}: {_shortened(error)}; check {URL_VARIABLE}"
                ) from None
            failures = 1 if self._size() > best else failures + 1
            best = max(best, self._size())
            if failures == ATTEMPTS:
                raise UserError(
                    f"cannot download {self.url}: {reason}; run again to go on from what has arrived, "
                    f"or name a mirror in {URL_VARIABLE}"
                )
            pause = FIRST_PAUSE * 2 ** (failures - 1)
            print(f"{reason}; trying again in {pause:.0f} s", file=sys.stderr)
            time.sleep(pause)

    def forget(self) -> None:
        """Throw away what has arrived."""
        self.file.truncate(0)
        self.validator_path.unlink(missing_ok=True)

    def _attempt(self) -> None:
        validator = self._validator()
        if not validator:
            self.forget()
        # Some firewalls turn away what does not look like a browser; a compressed answer has no ranges.
        headers = {"User-Agent": "Mozilla/5.0 (compatible; ann-benchmarks)", "Accept-Encoding": "identity"}
        have = self._size()
        if have:
            headers |= {"Range": f"bytes={have}-", "If-Range": validator}
        with requests.get(self.url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            total = self._accept(response, have)
            have = self._size()
            if total is not None:
                require_space(self.partial.parent, total - have)
            self._receive(response, have, total)

    def _accept(self, response: requests.Response, have: int) -> int | None:
        """Prepare the partial file for this answer; the length of the whole file, if the server says it."""
        status = response.status_code
        if status == 206:
            match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
            if match is None or int(match[1]) != have:
                self.forget()
                raise _Temporary("the server sent another part than was asked for")
            return int(match[2])
        if status == 416:
            self.forget()
            raise _Temporary("the server's file is shorter than what had arrived")
        if status >= 500 or status in (408, 429):
            raise _Temporary(f"the server answers {status} {response.reason}")
        if status != 200:
            raise UserError(
                f"cannot download {self.url}: the server answers {status} {response.reason}; "
                f"name a mirror that has it in {URL_VARIABLE}, or put it in {self.partial.parent}/ yourself"
            )
        self.forget()
        etag = response.headers.get("ETag", "")
        validator = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified", "")
        self.validator_path.write_text(json.dumps(validator))
        length = response.headers.get("Content-Length", "")
        return int(length) if length.isdecimal() else None

    def _receive(self, response: requests.Response, have: int, total: int | None) -> None:
        bar = tqdm(
            total=total, initial=have, unit="B", unit_scale=True, desc=self.partial.name[1:], disable=None
        )
        with bar:
            for chunk in response.iter_content(CHUNK):
                self.file.write(chunk)
                bar.update(len(chunk))
        self.file.flush()
        if total is not None and self._size() != total:
            raise _Temporary(f"{self._size():,} of {total:,} bytes have arrived")

    def _size(self) -> int:
        self.file.flush()
        return os.fstat(self.file.fileno()).st_size

    def _validator(self) -> str:
        try:
            return str(json.loads(self.validator_path.read_text()))
        except (OSError, ValueError):
            return ""


def _shortened(error: Exception) -> str:
    """The innermost cause of a network error, without the wrapping that requests and urllib3 give it."""
    cause: object = error
    while isinstance(cause, BaseException):
        inner = getattr(cause, "reason", None) or (cause.args[0] if cause.args else None)
        if not isinstance(inner, (str, BaseException)):
            break
        cause = inner
    return " ".join(str(cause).split())[:200] or type(error).__name__
