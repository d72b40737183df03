"""Attributes and filters of one's own: columns of a Parquet file, and a YAML file that names filter sets.

cheap:                                          # the name of a set
  - {column: price, operator: "<", value: 100}  # the same for all queries
in_language:
  - {column: language, operator: "=", values: [en, de, en]}         # one a query
  - {column: tags, operator: contains, values: wanted.parquet:tags}
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import closest, shown
from ann_benchmarks.common.yaml_file import YamlFile

from .filter import OPERATORS, RANGES, Filter, RowAttribute, make_filters
from .named import KINDS_WITH_NUMBERS

# Texts have no order that all servers share.
KIND_OPERATORS = {
    "integer": (*RANGES, "in"),
    "timestamp": (*RANGES, "in"),
    "text": ("=", "in"),
    "labels": ("contains", "in"),
}
_LIMITS = {"integer": 2**63, "timestamp": 2**63, "labels": 2**31}


@dataclass(frozen=True)
class OwnFilters:
    """The columns that filter sets are about, of all rows, and by name the filters of each set."""

    attributes: Mapping[str, RowAttribute]
    sets: Mapping[str, Sequence[Filter]]


def read_own_filters(attributes: Path, filters: Path, rows: int, queries: int) -> OwnFilters:
    """Read both files; UserError for what does not fit `rows` vectors and `queries`, with its file and place.

    Only the columns that filters are about are read.
    """
    from .columns import attribute_names, read_columns  # the Parquet library is slow to import

    file = YamlFile(filters, "names of filter sets, each with a list of predicates")
    file.mapping((), file.content, "filter sets")
    if not file.content:
        file.fail((), "it names no filter sets: add one")
    known = attribute_names(attributes)
    columns: list[str] = []
    for name, predicates in file.content.items():
        _check_set(file, name, predicates)
        for number, predicate in enumerate(predicates):
            column = predicate["column"]
            if column not in known:
                where = (name, number, "column")
                file.fail(where, f"{attributes} has no column '{shown(column)}'; {closest(column, known)}")
            columns.append(column)
    found = read_columns(attributes, list(dict.fromkeys(columns)), rows)
    sets = {name: _set(file, name, predicates, found, queries) for name, predicates in file.content.items()}
    return OwnFilters(found, sets)


def _check_set(file: YamlFile, name: Any, predicates: Any) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        file.fail((name,), f"'{shown(name)}' cannot be the name of filters; use letters, digits and '-_.'")
    if name.partition("-")[0] in KINDS_WITH_NUMBERS:
        file.fail((name,), f"'{shown(name)}' is too much like {name.partition('-')[0]}:...; choose another")
    file.checked((name,), predicates, list)
    if not predicates:
        file.fail((name,), f"'{name}' has no predicates, so that all rows pass; run without a filter instead")
    for number, predicate in enumerate(predicates):
        where = (name, number)
        keys = ("column", "operator", "value", "values")
        file.mapping(where, predicate, "a predicate", keys, ("column", "operator"))
        file.checked((*where, "column"), predicate["column"], str)
        file.member((*where, "operator"), predicate["operator"], "operator", OPERATORS)
        if ("value" in predicate) == ("values" in predicate):
            file.fail(where, "a predicate has either 'value', for all queries, or 'values', one a query")


def _set(
    file: YamlFile, name: str, predicates: Sequence[Any], columns: Mapping[str, RowAttribute], queries: int
) -> list[Filter]:
    """Make the filter of each query; equal ones are one object."""
    values: list[Iterable[Any]] = []
    for number, predicate in enumerate(predicates):
        where = (name, number)
        kind = columns[predicate["column"]].kind
        if predicate["operator"] not in KIND_OPERATORS[kind]:
            allowed = ", ".join(KIND_OPERATORS[kind])
            file.fail(
                (*where, "operator"),
                f"'{predicate['column']}' is of kind {kind}, for which the operators are {allowed}",
            )
        if "value" in predicate:
            one = _value(file, (*where, "value"), predicate["value"], kind, predicate["operator"])
            values.append(repeat(one, queries))
            continue
        listed = predicate["values"]
        if isinstance(listed, str):
            from .columns import value_list

            listed = value_list(file.path.parent / listed)
        else:
            file.checked((*where, "values"), listed, list)
        if len(listed) != queries:
            file.fail((*where, "values"), f"{len(listed):,} values, where there are {queries:,} queries")
        values.append(
            [_value(file, (*where, "values"), value, kind, predicate["operator"]) for value in listed]
        )
    shape = [(predicate["column"], predicate["operator"]) for predicate in predicates]
    return make_filters(shape, [*zip(*values, strict=True)])


def _value(file: YamlFile, where: tuple[str | int, ...], value: Any, kind: str, operator: str) -> Any:
    """Return a value as filters have it; refuse one that does not fit."""
    if operator not in ("in", "contains"):
        return _single(file, where, value, kind)
    several = value if isinstance(value, list | tuple | np.ndarray) else [value]
    if not len(several):
        file.fail(where, f"'{operator}' needs at least one value")
    return tuple(sorted({_single(file, where, each, kind) for each in several}))


def _single(file: YamlFile, where: tuple[str | int, ...], value: Any, kind: str) -> Any:
    if kind == "text":
        if isinstance(value, str) and "\0" not in value:
            return value
        file.fail(where, f"expected a text, found {value!r:.40}")
    if kind == "timestamp":
        value = _microseconds(value)
    limit = _LIMITS[kind]
    if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit:
        return value
    expected = "a date or a time, such as 2024-05-31T12:00" if kind == "timestamp" else "a whole number"
    file.fail(where, f"expected {expected}, found {value!r:.40}")


def _microseconds(value: Any) -> Any:
    """Turn a time into microseconds since 1970 UTC; without a zone it is UTC. Else return what it was.

    A number does not count: nothing says what unit it would have.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return value
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if isinstance(value, np.datetime64):  # in microseconds, as value_list has it
        return str(value) if np.isnat(value) else int(value.astype(np.int64))
    return str(value) if isinstance(value, int) else value
