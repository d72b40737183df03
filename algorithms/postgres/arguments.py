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


def one_of(name: str, value: Any, known: Iterable[str]) -> str:
    """Return a value that is one of the known; YAML's off, which is false, is "off"."""
    known = list(known)
    value = {False: "off", True: "on"}.get(value, value) if isinstance(value, bool) else value
    if value not in known:
        *first, last = known
        raise PostgresError(f"{name} is {value!r}: use {', '.join(first)} or {last}")
    return str(value)


def named(arguments: Mapping[str, Any]) -> str:
    """Write the arguments that are given, as a point's name has them."""
    return ", ".join(f"{name}={value}" for name, value in arguments.items() if value is not None)


def number(name: str, value: Any, least: float, most: float) -> float:
    """Return a value that is a number within bounds; PostgresError names the argument that is not."""
    if type(value) not in (int, float) or not least <= value <= most:
        raise PostgresError(f"{name} is {value!r}: give a number from {least:,} to {most:,}")
    checked: float = value
    return checked
