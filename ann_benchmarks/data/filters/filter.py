"""A filter: what it says of a row's attributes, as a value that plug-ins are given."""

from dataclasses import dataclass
from typing import Any

OPERATORS = ("=", "<", "<=", ">", ">=", "in", "contains")


@dataclass(frozen=True)
class Predicate:
    """One comparison: `column` is an attribute's name, `operator` one of OPERATORS.

    `value` is an int or a str as the attribute's kind has it (microseconds since 1970 UTC for timestamps). It
    is a tuple of such for "in", any of which a row has, and for "contains", labels that a row must all have.
    """

    column: str
    operator: str
    value: Any


@dataclass(frozen=True)
class Filter:
    """The predicates that all hold for a row that passes; hashable, so that equal filters can be grouped."""

    predicates: tuple[Predicate, ...]

    @property
    def shape(self) -> tuple[tuple[str, str], ...]:
        """Columns and operators, which all filters of a set share: one prepared statement serves them."""
        return tuple((predicate.column, predicate.operator) for predicate in self.predicates)

    @property
    def values(self) -> tuple[Any, ...]:
        """The value of each predicate, in the order of the shape."""
        return tuple(predicate.value for predicate in self.predicates)


@dataclass(frozen=True, eq=False)
class FilteredVector:
    """A query as a plug-in gets it that takes filters: `vector` is what it gets of a query without one."""

    vector: Any
    filter: Filter
