"""What the entry points share: argument types, and how a command ends."""

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from .command import report_end, signals_raise
from .errors import UserError, one_line, shown
from .layout import rename_commands
from .names import checked_path, path_text
from .numbers import amount, byte_size, finite, read_number, row_count, seed_number, whole

HINT = " (--help "  # and what follows is not of the error


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and whose program is called as one types it here."""

    def __init__(self, prog: str | None = None, **how: Any) -> None:
        """Take what argparse takes."""
        super().__init__(rename_commands(prog) if prog else None, **how)

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(2, f"{self.prog}: error: {one_line(message)}{HINT}lists the options)\n")


class HelpWithDefaults(argparse.HelpFormatter):
    """Help that ends with the default of an option that has one and does not say it itself."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_silent = action.default in (None, False, [], argparse.SUPPRESS) or "default" in (action.help or "")
        return action.help if is_silent else f"{action.help} (default: %(default)s)"


def read_by(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Make a type for argparse of a function that raises UserError."""

    def read(text: str) -> Any:
        try:
            return parse(text)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def each_of(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Make a type for argparse of values that are separated by commas; each once, in their order."""
    return read_by(lambda text: list(dict.fromkeys(parse(part) for part in text.split(","))))


def share(kind: str, with_zero: bool) -> Callable[[str], float]:
    """Make a type for argparse of a number from 0 to 1; `kind` is what an error calls it."""

    def parse(text: str) -> float:
        value = read_number(text)
        if value is None or not 0 <= value <= 1 or (value == 0 and not with_zero):
            least = "a number from 0 to 1" if with_zero else "a number above 0 and up to 1"
            raise UserError(f"'{shown(text)}' must be a {kind}: give {least}")
        return value

    return read_by(parse)


def option_name(attribute: str) -> str:
    """Return how an option is written, by the name that argparse gives to its value."""
    return f"--{attribute.replace('_', '-')}"


positive_int = read_by(whole())
positive_ints = each_of(whole())
positive_float = read_by(amount)
positive_floats = each_of(amount)
row_counts = each_of(row_count)
limit = read_by(whole(-1))  # -1: none
seed = read_by(seed_number)
number = read_by(finite)
size = read_by(byte_size)
path = read_by(checked_path)
path_or_pattern = read_by(path_text)


def run_command(main: Callable[[], int | None]) -> NoReturn:
    """Run an entry point and exit with its status: what a user can mend is one line and status 1."""
    try:
        with signals_raise():
            status: Any
            try:
                status = main() or 0
            except SystemExit as end:  # of argparse
                status = end.code
            sys.stdout.flush()
    except BaseException as error:
        status = report_end(error)
    sys.exit(status)
