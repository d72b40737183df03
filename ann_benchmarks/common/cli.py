"""What the entry points share: argument types, and how a command ends."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from .errors import UserError

INTERRUPTED = 130  # what a shell reports for a command ended by Ctrl-C


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
    """Run an entry point and exit with its status: a user's mistake is one line on stderr and status 1."""
    try:
        status = main() or 0
        sys.stdout.flush()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        print(
            "interrupted; what is finished is kept, the same command goes on (--force starts over)",
            file=sys.stderr,
        )
        status = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; nothing is left to tell it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
