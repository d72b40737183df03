"""The part of a file that has arrived, and how it becomes the file."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import sync_folder, unfinished_file

from . import record


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

    The journal lists what has been synced. `position`: the bytes that are there. `validator`: the server's
    name of the version; where it is empty, nothing can be added later. `total`: the bytes of the server's
    file, if it says them.
    """

    validator = ""
    total: int | None = None

    def __init__(self, request: DownloadRequest) -> None:
        self.request = request
        self.position = self._synced = 0
        self._file: BinaryIO | None = None

    @property
    def _number(self) -> int:
        assert self._file is not None
        return self._file.fileno()

    @property
    def length(self) -> int | None:
        """Bytes that will be on disk, if known."""
        return self.total if self.request.first_bytes is None else self.request.first_bytes

    def acquire(self) -> bool:
        """Lock it, after any other run that has it; False if the file has its name by then."""
        path, name = self.request.path, self.request.partial
        while not path.exists():
            self._file = unfinished_file(name, f"downloading {path}")
            if self._file is not None and not path.exists():
                self._resume()
                return True
            if self._file is not None:
                name.unlink()
                self._release()
        return False

    def _resume(self) -> None:
        """Keep what the journal lists, if it fits the file."""
        journal = record.load_json(self.request.journal)
        arrived, validator, total = (journal.get(name) for name in ("arrived", "validator", "total"))
        if isinstance(arrived, int) and isinstance(validator, str) and isinstance(total, int):
            fits = 0 < arrived <= min(os.fstat(self._number).st_size, self.request.first_bytes or total)
            if fits:
                self.position = self._synced = arrived
                self.validator, self.total = validator, total
        os.ftruncate(self._number, self.position)

    def restart(self, validator: str, total: int | None) -> None:
        """Throw away what has arrived; this version comes now."""
        if self.request.journal.exists():
            self.request.journal.unlink()
            sync_folder(self.request.journal.parent)  # before anything that it does not describe
        os.ftruncate(self._number, 0)
        self.position = self._synced = 0
        self.validator, self.total = validator, total

    def write(self, data: bytes) -> None:
        """Put bytes at the end."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._number, view, self.position)
            self.position += written
            view = view[written:]
        if self.position - self._synced >= record.SEGMENT:
            self._save()

    def name(self) -> None:
        """Check the complete file, and give it its name; throw it away, and raise UserError, if it is bad.

        It is read once more, as it is on the disk.
        """
        request = self.request
        self._save()
        is_whole = request.first_bytes in (None, self.total)
        kind, _, expected = request.checksum.partition(":") if is_whole else ("", "", "")
        try:
            digests, found = record.file_digests(self._number, request.path.name, kind)
            if found != expected.lower():
                raise UserError(f"is damaged (its {kind} is {found} instead of {expected.lower()})")
            if request.finish is not None:
                try:
                    request.finish(request.partial)
                except UserError as error:
                    reason = str(error).replace(str(request.partial), str(request.path))
                    raise UserError(f"cannot be used: {reason}") from None
                digests[:1] = [record.segment_digest(self._number, 0, record.SEGMENT)] * bool(digests)
        except UserError:
            self._discard()
            raise
        os.fsync(self._number)
        record.write_record(request.path, request.url, os.fstat(self._number).st_size, digests)
        request.partial.replace(request.path)
        request.journal.unlink(missing_ok=True)
        sync_folder(request.path.parent)
        self._release()

    def close(self) -> None:
        """Give up the lock; what has arrived stays, if another run can go on from it."""
        with suppress(OSError):
            if self._file is None:
                return
            if self.position and self.validator:
                self._save()
                self._release()
            else:
                self._discard()

    def _discard(self) -> None:
        """Throw the partial file away, and give up the lock."""
        self.request.journal.unlink(missing_ok=True)
        self.request.partial.unlink(missing_ok=True)
        self._release()

    def _save(self) -> None:
        """List what has arrived in the journal."""
        if self.validator:
            os.fsync(self._number)
            self._synced = self.position
            version = {"validator": self.validator, "total": self.total}
            record.save_json(self.request.journal, version | {"arrived": self.position})

    def _release(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
