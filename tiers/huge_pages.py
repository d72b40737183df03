"""Memory locked away as huge pages, and only ever our own share of them.

The system has one number for all huge pages. What others reserved is kept, whatever happens between
two of the steps here: the record says before each change what it is about to be.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from ann_benchmarks.common.errors import UserError

from .caches import drop_caches
from .meminfo import meminfo, readable
from .records import Record, Records

_NUMBER = Path("/proc/sys/vm/nr_hugepages")
_COMPACT = Path("/proc/sys/vm/compact_memory")
_TRIES = 5


def require_rights() -> None:
    """Raise UserError where pages cannot be reserved."""
    if not _NUMBER.exists():
        raise UserError("this system has no huge pages: use --tier-method cgroup")
    if not os.access(_NUMBER, os.W_OK):
        raise UserError(
            f"{_NUMBER} cannot be written, which takes root (and in a container, --privileged): "
            "run as root, or use --tier-method cgroup"
        )


def page_size() -> int:
    """Bytes of a huge page."""
    return meminfo()["Hugepagesize"]


def total_pages() -> int:
    """All huge pages of the system, whoever reserved them."""
    return int(_NUMBER.read_text())


def used_by_others(record: Record) -> int:
    """How many of the record's pages some process uses as its memory, which none should."""
    info = meminfo()
    return max(record.pages - (info["HugePages_Free"] - info["HugePages_Rsvd"]), 0)


def change_pages(records: Records, record: Record, wanted: int) -> int:
    """Hold `wanted` pages, or as many of them as there are to be had; returns the number. Within lock()."""
    settle(record)
    record.others = max(total_pages() - record.pages, 0)
    record.reaching = wanted
    records.write(record)
    with suppress(OSError):  # none at all were found, as some kernels say it
        _NUMBER.write_text(str(record.others + wanted))
    settle(record)
    records.write(record)
    return record.pages


def settle(record: Record) -> None:
    """See how far a change of the number of pages came that was begun."""
    if record.reaching is not None:
        least, most = sorted((record.pages, record.reaching))
        record.pages = min(max(total_pages() - record.others, least), most)
        record.reaching = None


def reserve(records: Records, record: Record, wanted: int) -> None:
    """Hold `wanted` pages, with some effort to find them; UserError where they are not. Within lock()."""
    for attempt in range(_TRIES):
        if change_pages(records, record, wanted) >= wanted:
            return
        drop_caches()
        with suppress(OSError):
            _COMPACT.write_text("1")
        time.sleep(0.2 * attempt)
    size = page_size()
    raise UserError(
        f"only {record.pages:,} of {wanted:,} huge pages ({readable(record.pages * size)} of "
        f"{readable(wanted * size)}) could be reserved: the memory is fragmented or in use; "
        "end other programs, restart the machine, or use --tier-method cgroup"
    )
