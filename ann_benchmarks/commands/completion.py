"""Print a script with which a shell completes commands, options and names."""

import sys
from argparse import ArgumentParser
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from unittest.mock import patch

from ann_benchmarks.common.cli import Parser, path, path_or_pattern
from ann_benchmarks.common.layout import COMMANDS, DEFINITIONS_FOLDER, PROGRAM, definition_folders
from ann_benchmarks.data.datasets.catalog import dataset_names
from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.definitions.definition import supported_data

from .choose import run_parser


def main() -> None:
    """Read the command line and print the script."""
    parser = Parser(description=__doc__)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    shell = parser.parse_args().shell
    import shtab

    configs, _ = read_configs(*definition_folders(DEFINITIONS_FOLDER))
    names = {"algorithm": list(supported_data(configs)), "dataset": dataset_names()}
    whole = ArgumentParser(PROGRAM)
    commands = whole.add_subparsers()
    for command in COMMANDS:
        completed = commands.add_parser(
            command.name, help=command.purpose, add_help=False, conflict_handler="resolve"
        )
        sources = [*([run_parser()] if command.name == "choose" else []), *parsers_of(command.module)]
        for action in (action for source in sources for action in source._actions):
            completed._add_action(action)
            action.choices = action.choices or names.get(action.dest)
            if action.type in (path, path_or_pattern):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(whole, shell))


def parsers_of(module: str) -> list[ArgumentParser]:
    """Return the parser that a command calls first, or none if it calls none."""
    found: list[ArgumentParser] = []

    def keep(parser: ArgumentParser, *_: object) -> None:
        found.append(parser)
        sys.exit()

    # `tiers sweep` has options; the other commands read no word before they have a parser.
    patches = patch.object(ArgumentParser, "parse_known_args", keep), patch.object(sys, "argv", ["", "sweep"])
    with patches[0], patches[1], redirect_stdout(StringIO()), suppress(SystemExit):
        import_module(module).main()
    return found
