"""What others wrote - texts, JSON, the errors of libraries - within bounds; and lines for the terminal.

No text of others moves the cursor or does worse.
"""

import csv
import json
import math
import struct
import sys
import tokenize
import unicodedata
import zipfile
import zlib
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from .errors import one_line
from .layout import rename_commands

# What numpy, h5py, pyarrow and zipfile raise, depending on which byte of a file is wrong.
DAMAGE = (
    OSError,
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    BufferError,
    EOFError,
    MemoryError,
    SyntaxError,
    csv.Error,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
LONGEST_REASON = 200  # characters of a library's text in a message
DEEPEST = 64  # levels of lists and objects; the plan of a query has a dozen
LARGEST_INTEGER = 2**64
LARGEST = 1e100  # no measurement is larger; its square and its inverse are still numbers
LONGEST_VALUE = 2000  # characters of a field of a series, or of the arguments of a point
Value = TypeVar("Value")


def clean_text(value: object) -> str:
    """Return one printable line: control characters and undecodable bytes become spaces and marks."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if text.isprintable():
        return text
    text = text.encode("utf-8", "replace").decode()
    return "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text)


def shortened(value: object, longest: int = LONGEST_REASON) -> str:
    """Return a value of any length and kind as one line of about so many characters."""
    return one_line(f"{value!s:.{4 * longest}}", longest)


def reason_of(error: BaseException) -> str:
    """Write what a library says of a failure as one line, which may be the name of the exception alone."""
    return shortened(getattr(error, "strerror", None) or error) or type(error).__name__


def from_json(text: object, otherwise: Value) -> Value:
    """Return what a text holds as JSON, made plain; `otherwise` where that is not of the same type."""
    try:
        value = plain(json.loads(text)) if isinstance(text, str | bytes) else otherwise
    except (ValueError, RecursionError):
        return otherwise
    return value if isinstance(value, type(otherwise)) else otherwise


def plain(value: Any, depth: int = DEEPEST) -> Any:
    """Return a JSON value whose numbers are finite and of 64 bits, and whose texts are printable lines.

    A number that is not finite is None: it is not known. Larger integers are texts. ValueError where lists
    and objects are nested too deeply.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < LARGEST_INTEGER else clean_text(value)
    if isinstance(value, list | tuple | dict):
        if depth == 0:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")
        if isinstance(value, dict):
            return {clean_text(name): plain(inner, depth - 1) for name, inner in value.items()}
        return [plain(inner, depth - 1) for inner in value]
    return clean_text(value)


def say(text: str) -> None:
    """Print a line at once, also where the output is a pipe."""
    print(clean_lines(rename_commands(text)), flush=True)


def warn(text: str) -> None:
    """Print a warning beside the results."""
    print(f"warning: {clean_text(rename_commands(text))}", file=sys.stderr, flush=True)


def clean_lines(text: str) -> str:
    """Return a text without control characters but for the ends of its lines."""
    return "\n".join(map(clean_text, text.split("\n")))


def is_number(value: Any) -> bool:
    """Whether a plain value is a number that can have been measured."""
    if not isinstance(value, int | float) or not -LARGEST < value < LARGEST:
        return False
    return value == 0 or not -1 / LARGEST < value < 1 / LARGEST


def fits_classes(value: Any, classes: Collection[type]) -> bool:
    """Whether a plain value is of one of these classes, and no longer or larger than one can be.

    A whole number is also a float, and a truth value is not a number.
    """
    if type(value) not in classes and not (type(value) is int and float in classes):
        return False
    if isinstance(value, str):
        return len(value) <= LONGEST_VALUE
    return is_number(value) if isinstance(value, int | float) else True


def finite(value: Any) -> Any:
    """Return a value with null in place of numbers that JSON does not have."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): finite(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    return value
