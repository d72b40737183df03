"""Simulated servers from the command line: python -m tiers sweep | status | release."""

if __name__ == "__main__":  # before the imports, which take seconds on a busy machine
    from ann_benchmarks.common.beginning import begin

    begin()

import argparse
import sys

from ann_benchmarks.common.cli import run_command
from ann_benchmarks.common.output import say

from .release import release, status

USAGE = """usage: python -m tiers COMMAND

  sweep [options of run.py]   measure on simulated servers; --tiers is mini if it is not given
  status                      say what is held back from this machine, and by whom
  release [--all]             give back what ended runs have left, or all that is held"""


def main() -> int:
    """Do what the first argument says."""
    command, arguments = (sys.argv[1] if len(sys.argv) > 1 else "--help"), sys.argv[2:]
    if command == "sweep":
        from run import main as run_main  # run.py, which is above this package

        return run_main(arguments, "python -m tiers sweep", "mini")
    if command in ("status", "release"):
        parser = argparse.ArgumentParser(prog=f"python -m tiers {command}")
        if command == "release":
            parser.add_argument("--all", action="store_true", help="also what running processes hold")
        args = parser.parse_args(arguments)
        for line in status() if command == "status" else release(args.all):
            say(line)
        return 0
    print(USAGE, file=sys.stdout if command in ("-h", "--help") else sys.stderr)
    return 0 if command in ("-h", "--help") else 2


if __name__ == "__main__":
    run_command(main)
