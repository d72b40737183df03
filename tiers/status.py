"""What is held and by whom, and how it is given back by hand."""

import os
from datetime import timedelta
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.output import counted

from .huge_pages import page_size, settle
from .meminfo import readable
from .records import SYSTEM_FOLDER, Record, Records
from .releasing import release as release_record

_NOTHING = "nothing is held"


def status() -> list[str]:
    """Lines that say what is held, by this user or by root."""
    folders = dict.fromkeys((SYSTEM_FOLDER, Records().folder))
    found = [record for folder in folders for record in Records(folder).all()]
    return [_line(record) for record in found] or [_NOTHING]


def release(everything: bool) -> list[str]:
    """Give back what dead processes left, with `everything` also what living ones hold; lines say what."""
    records = Records()
    if not records.folder.exists():
        return [_NOTHING]
    lines, failures = [], []
    with records.lock():
        for record in records.all():
            if record.is_alive and not everything:
                lines.append(f"kept: {_line(record)}")
                continue
            line = _line(record)
            try:
                release_record(records, record)
                lines.append(f"released: {line}")
            except (UserError, OSError) as error:
                failures.append(f"{record.owner}: {error}")
    if failures:
        raise UserError("; ".join(failures))
    return lines or [_NOTHING]


def _line(record: Record) -> str:
    if not record.is_of_this_boot:
        return f"{record.owner}, of before the last restart: nothing"
    settle(record)
    held = []
    if record.pages:
        held.append(f"{counted(record.pages, 'huge page')} ({readable(record.pages * page_size())})")
    held += [f"control group {group.folder}" for group in record.groups if Path(group.folder).exists()]
    return f"{record.owner}, {_age(record)}: {', '.join(held) or 'nothing'}"


def _age(record: Record) -> str:
    if not record.is_alive:
        return "which has ended"
    seconds = 0.0
    try:
        ticks = float(Path("/proc/uptime").read_text().split()[0])
        seconds = max(ticks - record.start / os.sysconf("SC_CLK_TCK"), 0)
    except (OSError, ValueError):
        pass
    return f"running for {timedelta(seconds=int(seconds))}"
