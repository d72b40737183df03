"""A plug-in's build arguments, as a config.yml gives them."""

from collections.abc import Iterable, Mapping
from typing import Any

from .errors import PostgresError


def take_arguments(
    algorithm: str, given: Mapping[str, Any], needed: Iterable[str], optional: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all arguments by name, with the optional ones' defaults; PostgresError names what is wrong."""
    needed = list(needed)
    if not isinstance(given, Mapping):
        raise PostgresError(
            f"{algorithm} takes its build arguments by name, as arg_groups gives them: {given!r}"
        )
    unknown = [name for name in given if name not in needed and name not in optional]
    if unknown:
        known = ", ".join([*needed, *optional])
        raise PostgresError(f"{algorithm} has no build argument {', '.join(unknown)}: it has {known}")
    missing = [name for name in needed if name not in given]
    if missing:
        raise PostgresError(f"{algorithm} is built without {', '.join(missing)}: give it in config.yml")
    return {**optional, **given}


def whole_number(name: str, value: Any, least: int = 1, most: int = 2**31 - 1) -> int:
    """Return a value that is a whole number within bounds; PostgresError names the argument that is not."""
    if type(value) is not int or not least <= value <= most:
        raise PostgresError(f"{name} is {value!r}: give a whole number from {least:,} to {most:,}")
    return value
