"""What the entry points share: argument types, and how a command ends."""

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from .command import report_end, signals_raise


class HelpWithDefaults(argparse.HelpFormatter):
    """Help that ends with the default of an option that has one and does not say it itself."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_silent = action.default in (None, False, argparse.SUPPRESS) or "default" in (action.help or "")
        return action.help if is_silent else f"{action.help} (default: %(default)s)"


def positive_int(text: str) -> int:
    """Read a whole number of at least 1 from a command line."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return number


def positive_ints(text: str) -> list[int]:
    """Read whole numbers of at least 1, separated by commas; each once, in their order."""
    return list(dict.fromkeys(positive_int(part) for part in text.split(",")))


def positive_float(text: str) -> float:
    """Read a number above 0 from a command line."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return number


def positive_floats(text: str) -> list[float]:
    """Read numbers above 0, separated by commas; each once, in their order."""
    return list(dict.fromkeys(positive_float(part) for part in text.split(",")))


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
