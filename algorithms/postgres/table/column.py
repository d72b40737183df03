"""The type of a column: its SQL, its bytes, and its metrics; pgvector's `vector`, `halfvec` and `bit`.

A row of a binary COPY is an int16 count of columns, then for each an int32 length and its bytes. A query's
binary parameter is such bytes, without the length. A `vector` is int16 dimensions, int16 zero, then float4
values, a `halfvec` has float2 values, all big-endian (pgvector's vector_send, halfvec_send). A `bit`, which
pgvector compares by Hamming's and Jaccard's distance, is an int32 count of bits, then the bits, the first one
the most significant of its byte.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import PostgresError
from .kinds import FixedKind, NamedAttribute

_LONGEST_PLAIN_BYTES = 8008  # of a value with its header, that fits a page with the row's
_ELEMENTS: dict[str, np.dtype[Any]] = {"vector": np.dtype(np.float32), "halfvec": np.dtype(np.float16)}


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


@dataclass(frozen=True)
class VectorColumn(Column):
    """Values of 4 bytes, or of 2 as `halfvec`."""

    dimension: int
    type_name: str = "vector"
    most_dimensions: ClassVar[int] = 16_000
    metrics: ClassVar[tuple[str, ...]] = ("euclidean", "angular", "ip", "manhattan")

    @property
    def element(self) -> np.dtype[Any]:
        """The type of one value."""
        return _ELEMENTS[self.type_name]

    @property
    def layout(self) -> np.dtype[Any]:
        values = self.element.newbyteorder(">")
        return np.dtype([("dimension", ">i2"), ("unused", ">i2"), ("values", values, (self.dimension,))])

    def begin(self, out: np.ndarray[Any, Any]) -> None:
        out["dimension"] = self.dimension

    def checker(self, rows: int, where: Callable[[int], str]) -> Callable[[int, Any], np.ndarray[Any, Any]]:
        """Return what refuses infinity, NaN, and what is too large for the type."""
        native = np.empty((rows, self.dimension), self.element)  # in the machine's own order of bytes
        bits = native.view(f"u{self.element.itemsize}")
        # Shifted by the sign bit, all finite numbers are below infinity, and NaN is above it.
        infinity = (np.full(1, np.inf, self.element).view(bits.dtype) << 1)[0]

        def checked(first: int, block: Any) -> np.ndarray[Any, Any]:
            values = native[: len(block)]
            with np.errstate(over="ignore"):  # found below
                values[:] = block
            if np.max(bits[: len(block)] << 1, initial=0) >= infinity:
                row, column = np.argwhere(~np.isfinite(values))[0]
                raise self._refusal(block[row, column], where(first + int(row)))
            return values

        return checked

    def _refusal(self, value: Any, place: str) -> PostgresError:
        kind = self.type_name
        if np.isfinite(value):
            remedy = "scale the vectors" if kind == "vector" else "use vector, or scale the vectors"
            most = np.finfo(self.element).max
            return PostgresError(f"{place} has {value}, a {kind} holds up to {most:g}: {remedy}")
        name = "NaN" if np.isnan(value) else "infinity"
        return PostgresError(f"{place} has {name}, which a {kind} cannot hold: correct or remove the row")

    def parameter_encoder(self) -> Callable[[Any], bytearray]:
        """Return what encodes one vector after the other, in the same buffer."""
        element = self.element.newbyteorder(">")
        buffer = bytearray(struct.pack(">HH", self.dimension, 0) + bytes(element.itemsize * self.dimension))
        values = np.frombuffer(buffer, dtype=element, offset=4)

        def encode(vector: Any) -> bytearray:
            values[:] = vector
            return buffer

        return encode

    def literal(self, row: Any) -> str:
        """Write a vector, (dimension,), of any real type."""
        return "[" + ",".join(map(str, np.asarray(row, dtype=np.float32).tolist())) + "]"


@dataclass(frozen=True)
class BitColumn(Column):
    """Rows of bools, or of numbers that are 0 where a bit is."""

    dimension: int
    type_name: str = field(default="bit", init=False)
    most_dimensions: ClassVar[int] = 83_886_080
    metrics: ClassVar[tuple[str, ...]] = ("hamming", "jaccard")

    @property
    def parameter(self) -> str:
        """The query with its length: `bit` alone is one bit."""
        return f"$1::{self.declared}"

    @property
    def layout(self) -> np.dtype[Any]:
        return np.dtype([("bits", ">i4"), ("values", np.uint8, (-(-self.dimension // 8),))])

    def begin(self, out: np.ndarray[Any, Any]) -> None:
        out["bits"] = self.dimension

    def values_of(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return rows, (n, dimension), eight bits to a byte."""
        return np.packbits(np.asarray(block, dtype=bool), axis=1)

    def parameter_encoder(self) -> Callable[[Any], bytes]:
        head = self.dimension.to_bytes(4, "big")
        return lambda row: head + np.packbits(np.asarray(row, dtype=bool)).tobytes()

    def literal(self, row: Any) -> str:
        """Write a query as zeros and ones."""
        return "".join(np.where(np.asarray(row, dtype=bool), "1", "0"))
