"""What the entry points share: argument types, and how a command ends."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from .errors import UserError, one_line
from .names import checked_path, output_path, path_text
from .quantities import amount, byte_size, finite, seed_number, whole

INTERRUPTED = 130  # what a shell reports for a command ended by Ctrl-C


class HelpWithDefaults(argparse.HelpFormatter):
    """Help that ends with the default of an option that has one and does not say it itself."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_silent = action.default in (None, False, argparse.SUPPRESS) or "default" in (action.help or "")
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


positive_int = read_by(whole())
positive_ints = each_of(whole())
positive_float = read_by(amount)
positive_floats = each_of(amount)
limit = read_by(whole(-1))  # -1: none
seed = read_by(seed_number)
number = read_by(finite)
size = read_by(byte_size)
path = read_by(checked_path)
path_or_pattern = read_by(path_text)
file_to_write = read_by(output_path)


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
    except OSError as error:
        # What the system refuses is not ours to foresee everywhere: a name, a right, a disk.
        name = f"{error.filename}: " if error.filename is not None else ""
        print(f"error: {one_line(f'{name}{error.strerror or error}')}", file=sys.stderr)
        status = 1
    sys.exit(status)
