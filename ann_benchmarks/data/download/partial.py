"""The part of a file that has arrived, and how it becomes the file."""

import fcntl
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import sync_folder

from .record import SEGMENT, digest_range, file_digests, load_json, save_json, save_record

if TYPE_CHECKING:
    from .server import Remote


@dataclass(frozen=True)
class DownloadRequest:
    """A file to be downloaded from a URL.

    url         where it is
    path        the name it gets when it is whole
    size        bytes that the server's file must have, where that is known beforehand
    first_bytes the number of bytes from the start that suffice; None: all
    checksum    "sha256:HEX" or "md5:HEX" of the whole file; unused where the first bytes suffice
    finish      called with the path of the complete file before it gets its name: raises UserError, which
                need not name the file, if it is not what it should be; may edit its first 64 MiB, in place,
                and accepts what it has edited before
    """

    url: str
    path: Path
    size: int | None = None
    first_bytes: int | None = None
    checksum: str = ""
    finish: Callable[[Path], None] | None = None

    @property
    def partial(self) -> Path:
        """Where it grows until it is whole."""
        return self.path.with_name(f".{self.path.name}.partial")

    @property
    def journal(self) -> Path:
        """How much of the partial file is good, and of which version of the server's file it is."""
        return self.path.with_name(f".{self.path.name}.partial.json")


class Partial:
    """The hidden file .NAME.partial, which grows from its start, and its journal; one run at a time owns it.

    The journal lists what has been synced. `position`: the bytes that are there.
    """

    def __init__(self, request: DownloadRequest) -> None:
        self.request = request
        self.position = 0
        self._file = -1
        self._synced = 0
        self._version: dict[str, Any] = {}  # empty where the file comes in one piece

    def acquire(self) -> bool:
        """Lock it, after any other run that has it; False if the file has its name by then."""
        path, name = self.request.path, self.request.partial
        while not path.exists():
            self._file = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"waiting for another run that is downloading {path}", file=sys.stderr)
                fcntl.flock(self._file, fcntl.LOCK_EX)
            # The other run may have given the file its name, or thrown it away.
            if _is_at(name, self._file):
                if not path.exists():
                    return True
                name.unlink()
            self._release()
        return False

    def kept(self) -> int:
        """Return how many bytes earlier runs have left to go on from."""
        arrived = load_json(self.request.journal).get("arrived")
        if not isinstance(arrived, int) or not self.request.partial.exists():
            return 0
        return arrived if self.request.partial.stat().st_size >= arrived else 0

    def begin(self, remote: "Remote") -> None:
        """Keep what earlier runs have left of this version."""
        if not remote.validator:
            self.restart()
            return
        first, journal, arrived = self.request.first_bytes, load_json(self.request.journal), self.kept()
        length = remote.total if first is None else first
        version = {"validator": remote.validator, "total": remote.total, "length": length}
        if arrived and {name: journal.get(name) for name in version} != version:
            name = self.request.path.name
            print(f"the server has another version of {name} now; starting again", file=sys.stderr)
            arrived = 0
        self._version = version
        self.position = self._synced = arrived
        os.ftruncate(self._file, arrived)

    def restart(self) -> None:
        """Throw away what has arrived; from here on it comes in one piece."""
        self._version = {}
        self.position = self._synced = 0
        self._forget()
        os.ftruncate(self._file, 0)

    def write(self, data: bytes) -> None:
        """Put bytes at the end."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._file, view, self.position)
            self.position += written
            view = view[written:]
        if self.position - self._synced >= SEGMENT:
            self._save()

    def name(self) -> None:
        """Check the complete file, and give it its name; throw it away, and raise UserError, if it is bad.

        It is read once more, as it is on the disk.
        """
        request = self.request
        self._save()
        is_whole = request.first_bytes is None or request.first_bytes == self._version.get("total")
        kind, _, expected = request.checksum.partition(":") if is_whole else ("", "", "")
        digests, found = file_digests(self._file, request.path.name, kind)
        if found != expected.lower():
            self.discard()
            raise UserError(f"is damaged (its {kind} is {found} instead of {expected.lower()})")
        if request.finish is not None:
            try:
                request.finish(request.partial)
            except UserError as error:
                self.discard()
                reason = str(error).replace(str(request.partial), str(request.path))
                raise UserError(f"cannot be used: {reason}") from None
            digests[:1] = [digest_range(self._file, 0, SEGMENT).hexdigest()] * bool(digests)
        os.fsync(self._file)
        save_record(request.path, request.url, os.fstat(self._file).st_size, digests)
        request.partial.replace(request.path)
        self._forget()
        sync_folder(request.path.parent)
        self._release()

    def discard(self) -> None:
        """Throw the partial file away, and give up the lock."""
        self._forget()
        self.request.partial.unlink(missing_ok=True)
        self._release()

    def close(self) -> None:
        """Give up the lock; what has arrived stays, if another run can go on from it."""
        with suppress(OSError):
            if self._file >= 0 and self.position and self._version:
                self._save()
                self._release()
            elif self._file >= 0 and self.kept():
                self._release()
            elif self._file >= 0:
                self.discard()

    def _save(self) -> None:
        """List what has arrived in the journal."""
        if self._version:
            os.fsync(self._file)
            self._synced = self.position
            save_json(self.request.journal, self._version | {"arrived": self.position})

    def _forget(self) -> None:
        if self.request.journal.exists():
            self.request.journal.unlink()
            sync_folder(self.request.journal.parent)  # before anything that it does not describe

    def _release(self) -> None:
        os.close(self._file)
        self._file = -1


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
