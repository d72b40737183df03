"""What a record speaks of is given back."""

from contextlib import suppress
from pathlib import Path

from ann_benchmarks.common.errors import UserError

from .control_groups import remove_group
from .huge_pages import change_pages, settle
from .records import Record, Records

ENDING_SECONDS = 30  # that a server has to end by itself


def empty(records: Records, record: Record, patience: float = ENDING_SECONDS) -> None:
    """Give back all that is held, and keep the record. Within lock().

    Pages first: others wait for memory. UserError says what could not be given back; the rest was.
    """
    failures = []
    try:
        settle(record)
        if record.pages:
            change_pages(records, record, 0)
    except OSError as error:
        failures.append(f"{record.pages:,} huge pages: {error.strerror}")
    for group in list(record.groups):
        try:
            remove_group(Path(group.folder), Path(group.home), 0 if group.adopted else patience)
        except OSError as error:
            failures.append(f"{group.folder}: {error.strerror}")
        else:
            record.groups.remove(group)
    records.write(record)
    if failures:
        raise UserError(f"could not give back {'; '.join(failures)}: try `python -m tiers release` as root")


def release(records: Records, record: Record) -> None:
    """Give back all that is held, and forget the record. Within lock()."""
    if record.is_of_this_boot:  # a restart has given back the rest
        empty(records, record)
    records.delete(record)


def release_dead(records: Records) -> list[Record]:
    """Give back what dead processes left, and return their records as they were. Takes the lock."""
    released = []
    if not records.folder.exists():
        return []
    with records.lock():
        for record in records.all():
            if not record.is_alive:
                with suppress(OSError):
                    settle(record)
                held = Record(**{**vars(record), "groups": list(record.groups)})
                release(records, record)
                released.append(held)
    return released
