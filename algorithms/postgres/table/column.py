"""What the rest asks of the type of a column: its SQL, its bytes, and its metrics.

A row of a binary COPY is an int16 count of columns, then for each an int32 length and its bytes. A query's
binary parameter is such bytes, without the length.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import PostgresError
from .kinds import FixedKind, NamedAttribute

_LONGEST_PLAIN_BYTES = 8008  # of a value with its header, that fits a page with the row's


class Metric(NamedTuple):
    """A distance of pgvector's: its operator, and how the names of its operator classes end."""

    operator: str
    suffix: str


METRICS: Mapping[str, Metric] = {
    "euclidean": Metric("<->", "l2_ops"),
    "angular": Metric("<=>", "cosine_ops"),
    "ip": Metric("<#>", "ip_ops"),
    "manhattan": Metric("<+>", "l1_ops"),
    "hamming": Metric("<~>", "hamming_ops"),
    "jaccard": Metric("<%>", "jaccard_ops"),
}


def row_of_an_array(row: int) -> str:
    """Name a row for an error."""
    return f"row {row} (from 0)"


class RowEncoder:
    """Encodes blocks of rows for a binary COPY of (id int4, embedding) and attributes, in one buffer."""

    def __init__(
        self,
        column: "Column",
        rows: int,
        where: Callable[[int], str],
        beside: Sequence[tuple[NamedAttribute, FixedKind]] = (),
        further: int = 0,
    ) -> None:
        """Make room for blocks of up to `rows` rows, which `where` names, by their ids, for an error.

        `beside` are attributes that stand behind the vector; `further` is the number of those that others
        put there.
        """
        self._where, self._beside, self._checked = where, beside, column.checker(rows, where)
        self.id_of: Callable[[Any], Any] = lambda rows: rows  # of rows by their numbers
        fields = [(f"{name}_{at}", kind) for at in range(len(beside))
                  for name, kind in (("length", ">i4"), ("attribute", ">i8"))]  # fmt: skip
        head = [("columns", ">i2"), ("id_length", ">i4"), ("id", ">i4"), ("length", ">i4")]
        self._rows = np.zeros(rows, [*head, ("value", column.layout), *fields])
        self._rows["columns"], self._rows["id_length"] = 2 + len(beside) + further, 4
        self._rows["length"] = column.layout.itemsize
        column.begin(self._rows["value"])
        self._values = self._rows["value"]["values"]

    def encode(self, first: int, block: np.ndarray[Any, Any]) -> memoryview:
        """Return the rows of `block`, (n, dimension), from this number on; valid until the next call.

        Raises PostgresError for a value that the column cannot hold, so that the server never sees it.
        """
        rows = self._rows[: len(block)]
        self._values[: len(block)] = self._checked(first, block)
        rows["id"] = self.id_of(np.arange(first, first + len(block)))
        for at, (attribute, kind) in enumerate(self._beside):
            values = attribute.block(first, first + len(block))
            rows[f"length_{at}"] = 8
            rows[f"attribute_{at}"] = kind.checked(values, lambda row: self._where(first + row))
        return rows.view(np.uint8).data


class Column(ABC):
    """A type with the dimension of its values; it is compared by value, and passed to other processes.

    All values have one layout: fields that are alike in all, then `values`. To add a type, subclass this, and
    have PostgresANN.column_of return it.
    """

    type_name: str  # in SQL
    dimension: int
    most_dimensions: ClassVar[int]  # of a value of the type
    metrics: ClassVar[tuple[str, ...]]  # keys of METRICS
    attribute_names: Sequence[str] = ()  # in SQL, of the columns that a table has beside id and embedding
    analyzed_names: Sequence[str] = ()  # of those that filters compare: the planner has to know them

    def check_dimension(self) -> None:
        """Raise PostgresError for a dimension that the type does not hold."""
        if self.dimension > self.most_dimensions:
            raise PostgresError(
                f"a column of type {self.type_name} holds up to {self.most_dimensions:,} dimensions, "
                f"these have {self.dimension:,}: use vectors of fewer"
            )

    @property
    def declared(self) -> str:
        """The type as a table declares it."""
        return f"{self.type_name}({self.dimension})"

    @property
    def table_definition(self) -> str:
        """The columns of a table, as CREATE TABLE has them behind its name."""
        return f"(id int4 NOT NULL, embedding {self.declared})"

    def partition_definitions(self, table: str) -> list[str]:
        """The statements that make the partitions of a table; none where it has none."""
        return []

    @property
    def parameter(self) -> str:
        """The query in SQL, where nothing else tells its type."""
        return f"$1::{self.type_name}"

    @property
    @abstractmethod
    def layout(self) -> np.dtype[Any]:
        """The bytes of a value in PostgreSQL's binary format, as a NumPy type."""

    @abstractmethod
    def begin(self, out: np.ndarray[Any, Any]) -> None:
        """Fill in the fields of `out`, (n,) of the layout, that all values have alike."""

    def values_of(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return rows, (n, dimension), as the layout's `values` take them."""
        return block

    def checker(self, rows: int, where: Callable[[int], str]) -> Callable[[int, Any], np.ndarray[Any, Any]]:
        """Return what makes blocks of up to `rows` rows values, and refuses what the column cannot hold."""
        return lambda first, block: self.values_of(block)

    @property
    def value_bytes(self) -> int:
        """Bytes of a value in a row: in its binary format it has all but the length."""
        return self.layout.itemsize + 4

    @property
    def row_bytes(self) -> int:
        """Bytes of a row on its way to the server; on average, where they differ."""
        return self.value_bytes + 10

    @property
    def is_plain(self) -> bool:
        """Whether every value fits a page: it is kept in the row itself, and fetched without a detour."""
        return self.value_bytes <= _LONGEST_PLAIN_BYTES

    def row_encoder(self, rows: int, where: Callable[[int], str] = row_of_an_array) -> RowEncoder:
        """Return what encodes blocks of up to `rows` rows; `where` names a row, by its id, for an error."""
        return RowEncoder(self, rows, where)

    @abstractmethod
    def parameter_encoder(self) -> Callable[[Any], bytes | bytearray]:
        """Return what encodes a query as a binary parameter, valid until the next call."""

    @abstractmethod
    def literal(self, row: Any) -> str:
        """Write a query as a literal of SQL, without the quotes."""
