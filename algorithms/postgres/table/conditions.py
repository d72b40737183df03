"""The WHERE of a set of filters: its SQL, prepared once, and the values that each query sends with it.

Labels can also be in the index of vectors itself, which then filters by them as it searches.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import PostgresError
from . import ColumnKind, NamedAttributes, quoted

FIRST_VALUE = 2  # $1 is the vector


class SharedShape(Protocol):
    """A filter, as the framework gives it."""

    shape: tuple[tuple[str, str], ...]  # columns and operators
    values: tuple[Any, ...]


@dataclass(frozen=True)
class ColumnCondition:
    """One comparison of a column with the parameter of that number."""

    column: str
    operator: str
    kind: ColumnKind
    number: int

    @property
    def takes_several(self) -> bool:
        """Whether the parameter is an array."""
        return self.operator in ("in", "contains")

    @property
    def sql(self) -> str:
        """The comparison."""
        several = "[]" if self.takes_several else ""
        return self._written(f"${self.number}::{self.kind.element}{several}")

    def predicate(self, value: Any) -> str:
        """The comparison with a value, which the server can see to follow from that with a parameter."""
        return self._written(self.literal(value))

    def _written(self, value: str) -> str:
        column = quoted(self.column)
        if self.operator == "in" and not self.kind.has_several:
            return f"{column} = ANY ({value})"
        if self.operator == "contains":
            return self.kind.contains(column, value)
        return f"{column} {'&&' if self.operator == 'in' else self.operator} {value}"

    def encoder(self) -> Callable[[Any], bytes]:
        """Return what makes a value a binary parameter."""
        return self.kind.binary_array if self.takes_several else self.kind.binary

    def literal(self, value: Any) -> str:
        """Write a value in SQL."""
        return (self.kind.literal_array if self.takes_several else self.kind.literal)(value)


@dataclass(frozen=True)
class WhereClause:
    """All comparisons of the filters of one shape."""

    shape: tuple[tuple[str, str], ...]
    conditions: tuple[ColumnCondition, ...]

    @property
    def clause(self) -> str:
        """What a query has behind its table."""
        return " WHERE " + " AND ".join(each.sql for each in self.conditions) if self.conditions else ""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that are compared."""
        return [each.column for each in self.conditions]

    def encoder(self, encode: Callable[[Any], bytes | bytearray]) -> Callable[[Any], tuple[Any, ...]]:
        """Return what makes a query its parameters, its vector by `encode`, and its filter."""
        encoders = [each.encoder() for each in self.conditions]
        shape = self.shape

        def parameters(query: Any) -> tuple[Any, ...]:
            given = query.filter
            if given.shape != shape:
                raise PostgresError(
                    f"a query compares {_named(given.shape)}, the first one {_named(shape)}: a filter set has"
                    " the same columns and operators in all queries"
                )
            pairs = zip(encoders, given.values, strict=True)
            return (encode(query.vector), *[each(value) for each, value in pairs])

        return parameters

    def predicate(self, given: SharedShape) -> str:
        """Write a filter with its values, as a partial index has it."""
        pairs = zip(self.conditions, given.values, strict=True)
        return " AND ".join(each.predicate(value) for each, value in pairs)

    def literals(self, given: SharedShape) -> tuple[str, ...]:
        """Write a filter's values as SQL does."""
        pairs = zip(self.conditions, given.values, strict=True)
        return tuple(each.literal(value) for each, value in pairs)


def conditions_of(given: SharedShape, kinds: Mapping[str, ColumnKind]) -> WhereClause:
    """Return the conditions of a filter's shape; PostgresError for what the columns do not have."""
    conditions = []
    for number, (column, operator) in enumerate(given.shape, FIRST_VALUE):
        kind = kinds.get(column)
        if kind is None:
            known = ", ".join(kinds) or "none"
            raise PostgresError(f"the filter compares '{column}', which the table does not have: {known}")
        if operator not in kind.operators:
            known = ", ".join(kind.operators)
            raise PostgresError(
                f"the filter compares '{column}' by '{operator}', which a column of type {kind.type_name}"
                f" is not compared by: use {known}"
            )
        conditions.append(ColumnCondition(column, operator, kind, number))
    return WhereClause(given.shape, tuple(conditions))


def _named(shape: tuple[tuple[str, str], ...]) -> str:
    return " and ".join(f"{column} {operator}" for column, operator in shape) or "nothing"


def labels_column(attributes: NamedAttributes | None, filters: Iterable[SharedShape]) -> str:
    """Return the column, in SQL, that an index is to have beside the vectors.

    It is the one column of labels that all filters compare, once each: pgvectorscale takes one key.
    """
    if attributes is None:
        raise PostgresError("an index with labels is for queries that have a filter: add --filter")
    of_labels = {each.name for each in attributes.values() if each.kind == "labels"}
    found = {tuple(name for name, _ in each.shape if name in of_labels) for each in filters}
    if len(found) != 1 or len(columns := next(iter(found))) != 1:
        raise PostgresError(
            "an index with labels serves filters that all compare one column of labels, once: use filters"
            " such as labels:S and labels2:S, or another algorithm"
        )
    return quoted(columns[0])
