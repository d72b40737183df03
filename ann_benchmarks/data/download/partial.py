"""The part of a file that has arrived, how it becomes the file, and what the file was when it did.

Digests of the segments of a whole file stay next to it, so that it can be verified.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path, sync_folder, unfinished_file

if TYPE_CHECKING:
    from .server import Remote

SEGMENT = 64 * 2**20  # bytes of one digest
BLOCK = 2**20  # bytes read at once


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
        self.position = self._synced = 0
        self._file: BinaryIO | None = None
        self._version: dict[str, Any] = {}  # empty where the file comes in one piece

    @property
    def _number(self) -> int:
        assert self._file is not None
        return self._file.fileno()

    def acquire(self) -> bool:
        """Lock it, after any other run that has it; False if the file has its name by then."""
        path, name = self.request.path, self.request.partial
        while not path.exists():
            self._file = unfinished_file(name, f"downloading {path}")
            if self._file is not None and not path.exists():
                return True
            if self._file is not None:
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
        os.ftruncate(self._number, arrived)

    def restart(self) -> None:
        """Throw away what has arrived; from here on it comes in one piece."""
        self._version = {}
        self.position = self._synced = 0
        self._forget()
        os.ftruncate(self._number, 0)

    def write(self, data: bytes) -> None:
        """Put bytes at the end."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._number, view, self.position)
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
        try:
            digests, found = _file_digests(self._number, request.path.name, kind)
            if found != expected.lower():
                raise UserError(f"is damaged (its {kind} is {found} instead of {expected.lower()})")
            if request.finish is not None:
                try:
                    request.finish(request.partial)
                except UserError as error:
                    reason = str(error).replace(str(request.partial), str(request.path))
                    raise UserError(f"cannot be used: {reason}") from None
                digests[:1] = [_segment_digest(self._number, 0).hexdigest()] * bool(digests)
        except UserError:
            self._discard()
            raise
        os.fsync(self._number)
        size = os.fstat(self._number).st_size
        record = {"url": request.url, "size": size, "segment": SEGMENT, "digests": digests}
        _save_json(_record_path(request.path), record)
        request.partial.replace(request.path)
        self._forget()
        sync_folder(request.path.parent)
        self._release()

    def close(self) -> None:
        """Give up the lock; what has arrived stays, if another run can go on from it."""
        with suppress(OSError):
            if self._file is None:
                return
            if self.position and self._version:
                self._save()
            if (self.position and self._version) or self.kept():
                self._release()
            else:
                self._discard()

    def _discard(self) -> None:
        """Throw the partial file away, and give up the lock."""
        self._forget()
        self.request.partial.unlink(missing_ok=True)
        self._release()

    def _save(self) -> None:
        """List what has arrived in the journal."""
        if self._version:
            os.fsync(self._number)
            self._synced = self.position
            _save_json(self.request.journal, self._version | {"arrived": self.position})

    def _forget(self) -> None:
        if self.request.journal.exists():
            self.request.journal.unlink()
            sync_folder(self.request.journal.parent)  # before anything that it does not describe

    def _release(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None


def byte_bar(total: int | None, title: str, **options: Any) -> "tqdm[Any]":
    """Return a progress bar of bytes, on a terminal alone and after a second."""
    return tqdm(None, title, total, unit="B", unit_scale=True, delay=1, disable=None, **options)


def _segment_digest(file: int, start: int, size: int | None = None, whole: Any = None) -> Any:
    """Hash a segment of an open file, or what there is of it, into `whole` as well.

    BLAKE2b of 16 bytes is against accidents and not attackers.
    """
    digest, stop = hashlib.blake2b(digest_size=16), start + (SEGMENT if size is None else size)
    while start < stop and (data := os.pread(file, min(BLOCK, stop - start), start)):
        digest.update(data)
        if whole is not None:
            whole.update(data)
        start += len(data)
    return digest


def _file_digests(file: int, name: str, kind: str) -> tuple[list[str], str]:
    """Return the digests of an open file's segments, and that of all by the algorithm `kind`, if given."""
    size, whole, digests = os.fstat(file).st_size, hashlib.new(kind) if kind else None, []
    with byte_bar(size, f"checking {name}", leave=False) as bar:
        for start in range(0, size, SEGMENT):
            digests.append(_segment_digest(file, start, whole=whole).hexdigest())
            bar.update(min(SEGMENT, size - start))
    return digests, whole.hexdigest() if whole else ""


def load_json(path: Path) -> dict[str, Any]:
    """Read a file of JSON; empty if it is missing or unusable."""
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        return found if isinstance(found, dict) else {}
    return {}


def _save_json(path: Path, content: dict[str, Any]) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(content))


def has_record(path: Path) -> bool:
    """Whether `verify` has something to compare this file with."""
    return bool(_load_record(path))


def verify(path: Path) -> list[str]:
    """Read a downloaded file again and compare it with the digests of its segments.

    Returns the problems, one line each; none, also, where no digests were kept (see `has_record`).
    """
    record = _load_record(path)
    if not record:
        return []
    ranges: list[list[int]] = []  # of the bytes that have changed
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != record["size"]:
                return [f"{path} has {size:,} bytes, and had {record['size']:,} when it was downloaded"]
            with byte_bar(size, f"verifying {path.name}") as bar:
                for number, expected in enumerate(record["digests"]):
                    start = number * record["segment"]
                    stop = min(start + record["segment"], size)
                    if _segment_digest(file.fileno(), start, record["segment"]).hexdigest() != expected:
                        if ranges and ranges[-1][1] == start:  # neighbouring segments are one range
                            ranges[-1][1] = stop
                        else:
                            ranges.append([start, stop])
                    bar.update(stop - start)
    except OSError as error:
        return [f"cannot read {path}: {error.strerror}"]
    changed = [f"bytes {start:,} to {stop:,} of {path}" for start, stop in ranges]
    return [f"{text} have changed since it was downloaded" for text in changed]


def _record_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.segments.json")


def _load_record(path: Path) -> dict[str, Any]:
    record = load_json(_record_path(path))
    with suppress(TypeError, KeyError):
        if record["segment"] > 0 and len(record["digests"]) == -(-record["size"] // record["segment"]):
            return record
    return {}
