"""What the rest asks of the type of a column: its SQL, its bytes, and its metrics.

A row of a binary COPY is an int16 count of columns, then for each an int32 length and its bytes. A query's
binary parameter is such bytes, without the length.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ..errors import PostgresError

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


@dataclass(frozen=True)
class Beside:
    """What a row has behind its vector: a number of columns, some of them as `fields` of NumPy's.

    `fill` puts the values of the rows that begin with an id into these fields, where there are any.
    """

    columns: int = 0
    fields: tuple[tuple[str, str], ...] = ()
    fill: Callable[[np.ndarray[Any, Any], int], None] = lambda rows, first_id: None


ALONE = Beside()


class RowEncoder(Protocol):
    """Encodes blocks of rows for a binary COPY of (id int4, embedding), and what is beside it."""

    def encode(self, first_id: int, block: Any) -> memoryview:
        """Return the bytes of the rows, valid until the next call; their ids count up from `first_id`.

        Raises PostgresError for a value that the column cannot hold, so that the server never sees it.
        """

    def rows(self, first_id: int, block: Any) -> list[Any]:
        """Return the bytes of each row by itself, likewise."""


class Column(ABC):
    """A type with the dimension of its values; it is compared by value, and passed to other processes.

    To add a type, subclass this, or FixedColumn where all values take the same number of bytes, and have
    PostgresANN.column_of return it.
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
    def value_bytes(self) -> int:
        """Bytes of a value in a row, with its header; on average, where they differ."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row on its way to the server; on average, where they differ."""
        return self.value_bytes + 10

    @property
    def is_plain(self) -> bool:
        """Whether every value fits a page: it is kept in the row itself, and fetched without a detour."""
        return self.value_bytes <= _LONGEST_PLAIN_BYTES

    def rows(self, train: Any) -> Any:
        """Return a training set, or queries, as rows that have a shape and are read by range."""
        return train

    def source_bytes(self, train: Any) -> int:
        """Bytes of a row of the training set, where it is read from; on average, where they differ."""
        return int(train.shape[1] * np.dtype(train.dtype).itemsize)

    @abstractmethod
    def row_encoder(
        self, rows: int, where: Callable[[int], str] = row_of_an_array, beside: Beside = ALONE
    ) -> RowEncoder:
        """Return what encodes blocks of up to `rows` rows; `where` names a row, by its id, for an error."""

    @abstractmethod
    def parameter_encoder(self) -> Callable[[Any], bytes | bytearray]:
        """Return what encodes a query as a binary parameter, valid until the next call."""

    @abstractmethod
    def literal(self, row: Any) -> str:
        """Write a query as a literal of SQL, without the quotes."""
