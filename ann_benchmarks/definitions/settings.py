"""Settings of a server that a run gives; one that has several values makes a contender of each of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.names import LONGEST_NAME, too_long

from .definition import Definition

_NAME = re.compile(r"[a-z_][a-z0-9_$]*(\.[a-z_][a-z0-9_$]*)*")
_ROOM = 80  # bytes of a folder's name for what else is in it
Values = tuple[str, Sequence[str]]  # a name, and each value that it is to have


def read_setting(text: str) -> Values:
    """Read NAME=VALUE or NAME=VALUE,VALUE..., each value once; UserError says what is allowed."""
    name, equals, rest = text.partition("=")
    name = name.strip().lower()
    values = list(dict.fromkeys(value.strip() for value in rest.split(",")))
    if not equals or not _NAME.fullmatch(name) or not all(values) or not rest.isprintable():
        raise UserError(f"'{shown(text)}' is no setting: give NAME=VALUE, or NAME=VALUE,VALUE to compare")
    return name, values


def with_settings(definitions: Sequence[Definition], settings: Sequence[Values]) -> list[Definition]:
    """Return each definition with every combination of the values."""
    names = [name for name, _ in settings]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise UserError(f"--setting names {repeated[0]} twice: write {repeated[0]}=VALUE,VALUE")
    varied = tuple(name for name, values in settings if len(values) > 1)
    found = [
        replace(definition, settings=dict(zip(names, values, strict=True)), varied=varied)
        for definition in definitions
        for values in product(*(values for _, values in settings))
    ]
    for definition in found if varied else ():
        if problem := too_long(definition.family, LONGEST_NAME - _ROOM):
            raise UserError(f"--setting: the name of a curve, {definition.family}, {problem}: vary fewer")
    _refuse_one_name(found)
    return found


def _refuse_one_name(definitions: Sequence[Definition]) -> None:
    """Refuse values that would be one curve: the second would replace the first one's results."""
    called: dict[str, Mapping[str, str]] = {}
    for definition in definitions:
        # Names are compared as file systems compare them that ignore the case.
        first = called.setdefault(definition.family.casefold(), definition.settings)
        if first != definition.settings:
            name = next(name for name, value in first.items() if value != definition.settings[name])
            one, other = shown(first[name]), shown(definition.settings[name])
            raise UserError(
                f"--setting {name}: '{one}' and '{other}' would have one curve, {definition.family}:"
                " leave one of them out"
            )
