"""What is held and by whom, and how it is given back by hand."""

import os
from datetime import timedelta
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.output import counted

from .ledger import SYSTEM_FOLDER, Hold, Ledger
from .locked_memory import page_size, resolve_change
from .memory import readable
from .release import release as give_back

_NOTHING = "nothing is held"


def status() -> list[str]:
    """Lines that say what is held, by this user or by root."""
    folders = dict.fromkeys((SYSTEM_FOLDER, Ledger().folder))
    found = [hold for folder in folders for hold in Ledger(folder).all()]
    return [_line(hold) for hold in found] or [_NOTHING]


def release(everything: bool) -> list[str]:
    """Give back what dead processes left, with `everything` also what living ones hold; lines say what."""
    ledger = Ledger()
    if not ledger.folder.exists():
        return [_NOTHING]
    lines, failures = [], []
    with ledger.lock():
        for hold in ledger.all():
            if hold.is_alive and not everything:
                lines.append(f"kept: {_line(hold)}")
                continue
            line = _line(hold)
            try:
                give_back(ledger, hold)
                lines.append(f"released: {line}")
            except (UserError, OSError) as error:
                failures.append(f"{hold.owner}: {error}")
    if failures:
        raise UserError("; ".join(failures))
    return lines or [_NOTHING]


def _line(hold: Hold) -> str:
    if not hold.is_of_this_boot:
        return f"{hold.owner}, of before the last restart: nothing"
    resolve_change(hold)
    parts = []
    if hold.pages:
        parts.append(f"{counted(hold.pages, 'huge page')} ({readable(hold.pages * page_size())})")
    parts += [f"control group {group.folder}" for group in hold.groups if Path(group.folder).exists()]
    return f"{hold.owner}, {_age(hold)}: {', '.join(parts) or 'nothing'}"


def _age(hold: Hold) -> str:
    if not hold.is_alive:
        return "which has ended"
    seconds = 0.0
    try:
        ticks = float(Path("/proc/uptime").read_text().split()[0])
        seconds = max(ticks - hold.start / os.sysconf("SC_CLK_TCK"), 0)
    except (OSError, ValueError):
        pass
    return f"running for {timedelta(seconds=int(seconds))}"
