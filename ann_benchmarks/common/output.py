"""Lines for the terminal, on which no text of others moves the cursor or does worse."""

import sys

from .foreign import clean_text


def counted(number: int, noun: str) -> str:
    """Put a number before its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def say(text: str) -> None:
    """Print a line at once, also where the output is a pipe."""
    print(clean_lines(text), flush=True)


def warn(text: str) -> None:
    """Print a warning beside the results."""
    print(f"warning: {clean_text(text)}", file=sys.stderr, flush=True)


def clean_lines(text: str) -> str:
    """Return a text without control characters but for the ends of its lines."""
    return "\n".join(map(clean_text, text.split("\n")))
