"""Lines for the terminal."""

import sys


def counted(number: int, noun: str) -> str:
    """Put a number before its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def say(text: str) -> None:
    """Print a line at once, also where the output is a pipe."""
    print(text, flush=True)


def warn(text: str) -> None:
    """Print a warning beside the results."""
    print(f"warning: {text}", file=sys.stderr, flush=True)
