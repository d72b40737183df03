"""Digests of the segments of a downloaded file, which lie next to it, so that it can be verified."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ann_benchmarks.common.files import atomic_path

SEGMENT = 64 * 2**20  # bytes of one digest
BLOCK = 2**20  # bytes read at once


def byte_bar(total: int | None, title: str, **options: Any) -> "tqdm[Any]":
    """Return a progress bar of bytes, on a terminal alone and after a second."""
    return tqdm(None, title, total, unit="B", unit_scale=True, delay=1, disable=None, **options)


def segment_digest(file: int, start: int, size: int, whole: Any = None) -> str:
    """Hash a segment of an open file, or what there is of it, into `whole` as well.

    BLAKE2b of 16 bytes is against accidents and not attackers.
    """
    digest, stop = hashlib.blake2b(digest_size=16), start + size
    while start < stop and (data := os.pread(file, min(BLOCK, stop - start), start)):
        digest.update(data)
        if whole is not None:
            whole.update(data)
        start += len(data)
    return digest.hexdigest()


def file_digests(file: int, name: str, kind: str) -> tuple[list[str], str]:
    """Return the digests of an open file's segments, and that of all by the algorithm `kind`, if given."""
    size, whole, digests = os.fstat(file).st_size, hashlib.new(kind) if kind else None, []
    with byte_bar(size, f"checking {name}", leave=False) as bar:
        for start in range(0, size, SEGMENT):
            digests.append(segment_digest(file, start, SEGMENT, whole))
            bar.update(min(SEGMENT, size - start))
    return digests, whole.hexdigest() if whole else ""


def write_record(path: Path, url: str, size: int, digests: list[str]) -> None:
    """Store what a file is like that is about to get its name."""
    save_json(_record_path(path), {"url": url, "size": size, "segment": SEGMENT, "digests": digests})


def has_record(path: Path) -> bool:
    """Whether `verify` has something to compare this file with."""
    return bool(_load_record(path))


def verify(path: Path) -> list[str]:
    """Read a downloaded file again and compare it with the digests of its segments.

    Returns what is wrong, in a line; nothing, also, where no digests were kept (see `has_record`).
    """
    record = _load_record(path)
    if not record:
        return []
    segment = record["segment"]
    try:
        with path.open("rb") as file, byte_bar(record["size"], f"verifying {path.name}") as bar:
            size = os.fstat(file.fileno()).st_size
            if size != record["size"]:
                return [f"{path} has {size:,} bytes, and had {record['size']:,} when it was downloaded"]
            for start, expected in zip(range(0, size, segment), record["digests"], strict=True):
                if segment_digest(file.fileno(), start, segment) != expected:
                    stop = min(start + segment, size)
                    text = f"{path} has changed since it was downloaded"
                    return [f"{text}, from bytes {start:,} to {stop:,} on"]
                bar.update(segment)
    except OSError as error:
        return [f"cannot read {path}: {error.strerror}"]
    return []


def _record_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.segments.json")


def _load_record(path: Path) -> dict[str, Any]:
    record = load_json(_record_path(path))
    with suppress(TypeError, KeyError):
        if record["segment"] > 0 and len(record["digests"]) == -(-record["size"] // record["segment"]):
            return record
    return {}


def load_json(path: Path) -> dict[str, Any]:
    """Read a file of JSON; empty if it is missing or unusable."""
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        return found if isinstance(found, dict) else {}
    return {}


def save_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file of JSON, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(content))
