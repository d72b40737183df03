"""What a whole file was when it was downloaded: digests of its segments, kept next to it."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ann_benchmarks.common.files import atomic_path

SEGMENT = 64 * 2**20  # bytes of one digest
BLOCK = 2**20  # bytes read at once


def byte_bar(total: int | None, title: str, **options: Any) -> "tqdm[Any]":
    """Return a progress bar of bytes, on a terminal alone and after a second."""
    return tqdm(None, title, total, unit="B", unit_scale=True, delay=1, disable=None, **options)


def digest_range(file: int, start: int, stop: int, other: Any = None) -> Any:
    """Hash the bytes `start` to `stop` of an open file, or fewer where it ends before, into `other` as well.

    BLAKE2b of 16 bytes is against accidents and not attackers.
    """
    digest = hashlib.blake2b(digest_size=16)
    while start < stop and (data := os.pread(file, min(BLOCK, stop - start), start)):
        digest.update(data)
        if other is not None:
            other.update(data)
        start += len(data)
    return digest


def file_digests(file: int, name: str, kind: str) -> tuple[list[str], str]:
    """Return the digests of an open file's segments, and that of all by the algorithm `kind`, if given."""
    size, whole, digests = os.fstat(file).st_size, hashlib.new(kind) if kind else None, []
    with byte_bar(size, f"checking {name}", leave=False) as bar:
        for start in range(0, size, SEGMENT):
            digests.append(digest_range(file, start, start + SEGMENT, whole).hexdigest())
            bar.update(min(SEGMENT, size - start))
    return digests, whole.hexdigest() if whole else ""


def load_json(path: Path) -> dict[str, Any]:
    """Read a file of JSON; empty where there is none that can be used."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        found = {}
    return found if isinstance(found, dict) else {}


def save_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a file."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(content))


def save_record(path: Path, url: str, size: int, digests: list[str]) -> None:
    """Keep the digests of a whole file next to it, for `verify`."""
    save_json(_record_path(path), {"url": url, "size": size, "segment": SEGMENT, "digests": digests})


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
    record = load_json(_record_path(path))
    try:
        whole = record["segment"] > 0 and len(record["digests"]) == -(-record["size"] // record["segment"])
        return record if whole else None
    except (TypeError, KeyError):
        return None
