"""The commands. Each composes the rooms below; `main` calls the one that `annpg NAME` names."""

import sys

from ann_benchmarks.common.beginning import begin

if sys.version_info < (3, 10):  # noqa: UP036  (said before imports that older ones cannot read)
    sys.exit(f"error: Python 3.10 or newer is needed, and {sys.executable} is {sys.version.split()[0]}")


def main() -> None:
    """Run the command that the first argument names."""
    begin()
    from ann_benchmarks.common.layout import COMMANDS, PROGRAM

    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if any(command.name == name for command in COMMANDS):
        sys.argv = [f"{PROGRAM} {name}", *sys.argv[2:]]
        _carry_out(name)
    from ann_benchmarks.common.cli import run_command

    run_command(lambda: _say(name))


def start(name: str) -> None:
    """Run the command of this name, whose script was called."""
    begin()
    _carry_out(name)


def _carry_out(name: str) -> None:
    from importlib import import_module

    from ann_benchmarks.common.layout import COMMANDS

    [module] = [command.module for command in COMMANDS if command.name == name]
    run = import_module(module).main  # takes seconds on a busy machine; signals end it without a word
    from ann_benchmarks.common.cli import run_command

    run_command(run)


def _say(word: str) -> None:
    """Print the version, or what there is; UserError where neither was asked for."""
    from ann_benchmarks.common import VERSION
    from ann_benchmarks.common.errors import UserError, closest
    from ann_benchmarks.common.layout import COMMANDS, PROGRAM, shared

    if word == "--version":
        print(f"{PROGRAM} {VERSION}")
    elif word in ("-h", "--help"):
        print(f"usage: {PROGRAM} COMMAND [options]     {PROGRAM} COMMAND --help lists the options\n")
        print(*(f"  {command.name:12}{command.purpose}" for command in COMMANDS), sep="\n")
        print(f"\nExperiments, prices, templates and documentation: {shared('')}")
    else:
        known = [command.name for command in COMMANDS]
        raise UserError(f"unknown command '{word}': {closest(word, known)}")
