"""What is to be downloaded, what of it has arrived, and what a whole file was, by digests of its segments."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ann_benchmarks.common.files import atomic_path

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
                need not name the file, if it is not what it should be; may edit its first 64 MiB, in place
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
        """Which segments of the partial file are good."""
        return self.path.with_name(f".{self.path.name}.partial.json")


def byte_bar(total: int | None, title: str, **options: Any) -> "tqdm[Any]":
    """Return a progress bar of bytes, on a terminal alone and after a second."""
    return tqdm(None, title, total, unit="B", unit_scale=True, delay=1, disable=None, **options)


def new_digest() -> Any:
    """Give the hash object of a segment: BLAKE2b of 16 bytes, against accidents and not attackers."""
    return hashlib.blake2b(digest_size=16)


def digest_range(file: int, start: int, stop: int) -> Any:
    """Hash the bytes `start` to `stop` of an open file, or fewer where it ends before."""
    digest = new_digest()
    while start < stop and (data := os.pread(file, min(BLOCK, stop - start), start)):
        digest.update(data)
        start += len(data)
    return digest


@dataclass
class Journal:
    """What has arrived of one version of a file."""

    url: str
    validator: str  # the server's name for the version: ETag or date
    total: int  # bytes of the server's file
    length: int  # bytes of it that are downloaded
    segment: int = 0
    segments: dict[int, tuple[int, str]] = field(default_factory=dict)  # number: bytes from its start, digest

    def same_file(self, other: "Journal") -> bool:
        """Whether what this one lists can be part of the other's file."""
        ours = (self.validator, self.total, self.length, self.segment)
        return ours == (other.validator, other.total, other.length, other.segment)

    @property
    def arrived(self) -> int:
        """The number of bytes that are there."""
        return sum(size for size, _ in self.segments.values())

    def save(self, path: Path) -> None:
        """Replace the journal on disk."""
        _save(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> "Journal | None":
        """Read a journal; None if there is none that can be used."""
        try:
            raw = json.loads(path.read_text())
            raw["segments"] = {int(n): (int(size), str(h)) for n, (size, h) in raw["segments"].items()}
            return cls(**raw)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


def save_record(path: Path, url: str, size: int, segment: int, digests: list[str]) -> None:
    """Keep the digests of a whole file next to it, for `verify`."""
    _save(_record_path(path), {"url": url, "size": size, "segment": segment, "digests": digests})


def has_record(path: Path) -> bool:
    """Whether `verify` has something to compare this file with."""
    return _load_record(path) is not None


def verify(path: Path) -> list[str]:
    """Read a downloaded file again and compare it with the digests of its segments.

    Returns the problems, one line each; none, also, where no digests were kept (see `has_record`).
    """
    record = _load_record(path)
    if record is None:
        return []
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != record["size"]:
                return [f"{path} has {size:,} bytes, and had {record['size']:,} when it was downloaded"]
            return [
                f"bytes {start:,} to {stop:,} of {path} have changed since it was downloaded"
                for start, stop in _changed(file.fileno(), path.name, record)
            ]
    except OSError as error:
        return [f"cannot read {path}: {error.strerror}"]


def _changed(file: int, name: str, record: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Find the ranges that have changed; neighbouring segments are one."""
    size, segment = record["size"], record["segment"]
    begin = None
    with byte_bar(size, f"verifying {name}") as bar:
        for number, expected in enumerate(record["digests"]):
            start, stop = number * segment, min((number + 1) * segment, size)
            good = digest_range(file, start, stop).hexdigest() == expected
            if good and begin is not None:
                yield begin, start
                begin = None
            elif not good and begin is None:
                begin = start
            bar.update(stop - start)
    if begin is not None:
        yield begin, size


def _record_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.segments.json")


def _load_record(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(_record_path(path).read_text())
        whole = record["segment"] > 0 and len(record["digests"]) == -(-record["size"] // record["segment"])
        return record if whole else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _save(path: Path, content: dict[str, Any]) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(content))
