"""Simulated servers from the command line: python -m tiers sweep | status | release."""

if __name__ == "__main__":  # before the imports, which take seconds on a busy machine
    from ann_benchmarks.common.beginning import begin

    begin()

import os
import sys
from datetime import timedelta
from pathlib import Path

from ann_benchmarks.common.cli import Parser, run_command
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import rename_commands
from ann_benchmarks.common.numbers import counted, size_text
from ann_benchmarks.common.text import say

from .ledger import SYSTEM_FOLDER, Hold, Ledger
from .locked_memory import page_size

USAGE = """usage: python -m tiers COMMAND

  sweep [options of run.py]   measure on simulated servers; --tiers is mini if it is not given
  status                      say what is held back from this machine, and by whom
  release [--all]             give back what ended runs have left, or all that is held"""
_NOTHING = "nothing is held"


def main() -> int:
    """Do what the first argument says."""
    command, arguments = (sys.argv[1] if len(sys.argv) > 1 else "--help"), sys.argv[2:]
    if command == "sweep":
        from ann_benchmarks.commands.run import main as run_main  # it is above this package

        return run_main(arguments, "python -m tiers sweep", "mini")
    if command in ("status", "release"):
        parser = Parser(prog=f"python -m tiers {command}")
        if command == "release":
            parser.add_argument("--all", action="store_true", help="also what running processes hold")
        args = parser.parse_args(arguments)
        for line in status() if command == "status" else release(args.all):
            say(line)
        return 0
    print(rename_commands(USAGE), file=sys.stdout if command in ("-h", "--help") else sys.stderr)
    return 0 if command in ("-h", "--help") else 2


def status() -> list[str]:
    """Lines that say what is held, by this user or by root."""
    folders = dict.fromkeys((SYSTEM_FOLDER, Ledger().folder))
    found = [hold for folder in folders for hold in Ledger(folder).all()]
    return [_describe(hold) for hold in found] or [_NOTHING]


def release(everything: bool) -> list[str]:
    """Give back what dead processes left, with `everything` also what living ones hold; lines say what."""
    ledger = Ledger()
    if not ledger.folder.exists():
        return [_NOTHING]
    lines, failures = [], []
    with ledger.lock():
        for hold in ledger.all():
            line = _describe(hold)
            if hold.is_alive and not everything:
                lines.append(f"kept: {line}")
                continue
            try:
                ledger.give_back(hold)
                lines.append(f"released: {line}")
            except (UserError, OSError) as error:
                failures.append(f"{hold.owner}: {error}")
    if failures:
        raise UserError("; ".join(failures))
    return lines or [_NOTHING]


def _describe(hold: Hold) -> str:
    if not hold.is_of_this_boot:
        return f"{hold.owner}, of before the last restart: nothing"
    hold.resolve_change()
    parts = []
    if hold.pages:
        parts.append(f"{counted(hold.pages, 'huge page')} ({size_text(hold.pages * page_size())})")
    parts += [f"control group {group.folder}" for group in hold.groups if Path(group.folder).exists()]
    age = "has ended"
    if hold.is_alive:
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        seconds = max(uptime - hold.start / os.sysconf("SC_CLK_TCK"), 0)
        age = f"running for {timedelta(seconds=int(seconds))}"
    return f"{hold.owner}, {age}: {', '.join(parts) or 'nothing'}"


if __name__ == "__main__":
    run_command(main)
