"""The part of a file that has arrived, and how it becomes the file."""

import fcntl
import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import disk_errors, sync_folder

from .journal import BLOCK, DownloadRequest, Journal, byte_bar, digest_range, new_digest, save_record
from .server import Remote

SEGMENT = 64 * 2**20  # bytes of one part and one digest

_sync = getattr(os, "fdatasync", os.fsync)


class Closed(Exception):
    """The download was given up while a thread was still at work on it."""


class Partial:
    """The hidden file .NAME.partial and its journal, which several threads fill and one run at a time owns.

    The journal never lists what is not on disk: a segment is synced, then listed.
    """

    def __init__(self, request: DownloadRequest) -> None:
        self.request = request
        self._lock = threading.RLock()
        self._file = -1
        self._journal: Journal | None = None  # None where the file comes in one piece
        self._growing: dict[int, int] = {}  # segments that are being received: bytes so far

    def acquire(self, wait: bool = False) -> bool:
        """Lock it against other runs; False if another run has it, or the file has its name already."""
        path, name = self.request.path, self.request.partial
        with disk_errors(name):
            while self._file < 0 and not path.exists():
                file = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
                try:
                    owned = _locked(file, wait, f"waiting for another run that is downloading {path}")
                    # The other run may have given the file its name, or thrown it away.
                    if owned and _is_at(name, file):
                        self._file, file = file, -1
                finally:
                    if file >= 0:
                        os.close(file)
                if not owned:
                    return False
            if self._file >= 0 and path.exists():
                self.discard()
        return self._file >= 0

    def arrived_before(self, remote: Remote) -> int:
        """The number of bytes that earlier runs have left of this version; -1 where they are of another."""
        kept = Journal.load(self.request.journal)
        if kept is None or not kept.arrived:
            return 0
        return kept.arrived if kept.same_file(self._empty_journal(remote)) else -1

    def begin(self, remote: Remote) -> list[int]:
        """Keep what earlier runs have left of this version; return the segments still to be fetched."""
        if not remote.validator:
            self.restart()
            return []
        kept, journal = Journal.load(self.request.journal), self._empty_journal(remote)
        # A journal that outlived its partial file is recognised by the size of the new one.
        there = kept is not None and os.fstat(self._file).st_size == kept.length
        if kept is not None and there and kept.same_file(journal):
            journal = kept
        else:
            if kept is not None and there and kept.arrived:
                name = self.request.path.name
                print(f"the server has another version of {name} now; starting again", file=sys.stderr)
            self.restart()
            with disk_errors(self.request.partial):
                os.ftruncate(self._file, journal.length)
        self._journal = journal
        numbers = range(-(-journal.length // SEGMENT))
        return [number for number in numbers if self._has(number) < len(self.span(number))]

    def restart(self) -> None:
        """Throw away what has arrived; from here on it comes in one piece."""
        with self._opened():
            self._journal = None
            self._growing = {}
            self._forget()
            os.ftruncate(self._file, 0)

    def span(self, number: int) -> range:
        """Where in the file the bytes of a segment are."""
        assert self._journal is not None
        return range(number * SEGMENT, min((number + 1) * SEGMENT, self._journal.length))

    def resume(self, number: int) -> tuple[int, Any]:
        """Start on a segment: return the number of bytes that are there, and their digest so far."""
        with self._opened():
            assert self._journal is not None
            have, expected = self._journal.segments.pop(number, (0, ""))
        start = self.span(number).start
        with self._duplicate() as file:
            digest = digest_range(file, start, start + have)
        if digest.hexdigest() != expected:
            have, digest = 0, new_digest()
        with self._lock:
            self._growing[number] = have
        return have, digest

    def write(self, data: bytes, offset: int, number: int | None = None) -> None:
        """Put bytes, of this segment if the file has segments, where they belong."""
        with self._opened():
            end = offset + len(data)
            view = memoryview(data)
            while view:
                view = view[os.pwrite(self._file, view, end - len(view)) :]
            if number is not None:
                self._growing[number] = end - self.span(number).start

    def finished(self, number: int, digest: str) -> None:
        """List a segment that is complete in the journal."""
        with self._duplicate() as file, disk_errors(self.request.partial):
            _sync(file)  # not under the lock: the other segments go on
        with self._opened():
            assert self._journal is not None
            del self._growing[number]
            self._journal.segments[number] = (len(self.span(number)), digest)
            self._journal.save(self.request.journal)

    @property
    def arrived(self) -> int:
        """The number of bytes that the journal lists."""
        with self._lock:
            return self._journal.arrived if self._journal is not None else 0

    def digest(self, kind: str) -> str:
        """Hash all of it, for a checksum that was published."""
        digest = hashlib.new(kind)
        with self._duplicate() as file:
            size, offset = os.fstat(file).st_size, 0
            name = f"checking {self.request.path.name}"
            with byte_bar(size, name, leave=False) as bar:
                while data := os.pread(file, BLOCK, offset):
                    if self._file < 0:
                        raise Closed
                    digest.update(data)
                    offset += len(data)
                    bar.update(len(data))
        return digest.hexdigest()

    def name(self) -> None:
        """Give the complete file its name; throw it away, and raise UserError, if `finish` is not content."""
        with disk_errors(self.request.partial):
            segments = dict(self._journal.segments) if self._journal is not None else {}
            segments.pop(0, None)  # `finish` may edit it
            if self._journal is not None:
                # If it is killed doing so, the segment is fetched again.
                with self._opened():
                    self._journal.segments.pop(0, None)
                    self._journal.save(self.request.journal)
            if self.request.finish is not None:
                try:
                    self.request.finish(self.request.partial)
                except UserError:
                    self.discard()
                    raise
            with self._duplicate() as file:
                os.fsync(file)
                size = os.fstat(file).st_size
                digests = [
                    segments[number][1]
                    if number in segments
                    else digest_range(file, number * SEGMENT, (number + 1) * SEGMENT).hexdigest()
                    for number in range(-(-size // SEGMENT))
                ]
            with self._opened():
                save_record(self.request.path, self.request.url, size, SEGMENT, digests)
                self.request.partial.replace(self.request.path)
                self._forget()
                sync_folder(self.request.path.parent)
                self._release()

    def discard(self) -> None:
        """Throw the partial file away, and give up the lock."""
        with self._lock:
            if self._file >= 0:
                self._forget()
                self.request.partial.unlink(missing_ok=True)
                self._release()

    def close(self) -> None:
        """Give up the lock; what has arrived stays, if another run can go on from it."""
        with self._lock, suppress(OSError):
            if self._file < 0:
                return
            if self._journal is not None and any(self._growing.values()):
                _sync(self._file)
                for number, have in self._growing.items():
                    if not have:
                        continue
                    start = self.span(number).start
                    digest = digest_range(self._file, start, start + have)
                    self._journal.segments[number] = (have, digest.hexdigest())
                self._journal.save(self.request.journal)
            if self.arrived or Journal.load(self.request.journal) is not None:
                self._release()
            else:
                self.discard()

    def _empty_journal(self, remote: Remote) -> Journal:
        total = remote.total or 0
        length = total if self.request.first_bytes is None else self.request.first_bytes
        return Journal(self.request.url, remote.validator, total, length, SEGMENT)

    def _has(self, number: int) -> int:
        assert self._journal is not None
        return self._journal.segments.get(number, (0, ""))[0]

    def _forget(self) -> None:
        if self.request.journal.exists():
            self.request.journal.unlink()
            sync_folder(self.request.journal.parent)  # before anything that it does not describe

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Hold the lock while the file is open; Closed where it no longer is."""
        with self._lock, disk_errors(self.request.partial):
            if self._file < 0:
                raise Closed
            yield

    @contextmanager
    def _duplicate(self) -> Iterator[int]:
        """Give a handle that stays valid when another thread closes the file."""
        with self._opened():
            file = os.dup(self._file)
        try:
            yield file
        finally:
            os.close(file)

    def _release(self) -> None:
        file, self._file = self._file, -1
        fcntl.flock(file, fcntl.LOCK_UN)  # at once, whatever duplicates there are
        os.close(file)


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _locked(file: int, wait: bool, message: str) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not wait:
            return False
        print(message, file=sys.stderr)
        fcntl.flock(file, fcntl.LOCK_EX)
    return True
