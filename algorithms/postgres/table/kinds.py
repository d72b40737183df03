"""The kinds of attributes that rows have beside their vectors: each one's type in SQL, and its bytes.

Attributes and filters are the framework's; a plug-in is given them, and knows them by their members alone.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from ..errors import PostgresError

LONGEST_NAME = 63  # bytes of a column's name
_OTHER_COLUMNS = ("id", "embedding", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
_EPOCH = 946_684_800_000_000  # microseconds from 1970 to 2000, from which PostgreSQL counts
_FIRST_TIMESTAMP, _END_OF_TIMESTAMPS = -211_813_488_000_000_000, 9_223_371_331_200_000_000  # since 2000


class NamedAttribute(Protocol):
    """One attribute of all rows."""

    name: str
    kind: str  # a key of KINDS

    def block(self, start: int, stop: int) -> Any:
        """Return the values of rows start to stop: an array, or for labels a list of int32 arrays."""


class NamedAttributes(Protocol):
    """The attributes of a table's rows, by name."""

    rows: int
    mark: str  # of their names and values

    def values(self) -> Any:
        """Return all attributes."""

    def __len__(self) -> int: ...

    def __getitem__(self, name: str) -> NamedAttribute: ...


class ColumnKind(ABC):
    """A type of PostgreSQL that attributes of one kind have.

    A binary value is what COPY has behind its length, and what a parameter has. `oid` is that of the type of
    one element, which PostgreSQL never changes.
    """

    type_name: ClassVar[str]
    element: ClassVar[str]  # the type of what a predicate compares with
    oid: ClassVar[int]
    operator_class: ClassVar[str]
    method: ClassVar[str] = "btree"  # of the index that serves its predicates
    has_several: ClassVar[bool] = False  # elements a row
    operators: ClassVar[Sequence[str]] = ("=", "<", "<=", ">", ">=", "in")

    @abstractmethod
    def binary(self, value: Any) -> bytes:
        """Return one element's bytes."""

    @abstractmethod
    def literal(self, value: Any) -> str:
        """Write one element as an expression of SQL."""

    @abstractmethod
    def pieces(self, values: Any, place: Callable[[int], str]) -> list[Any]:
        """Return each value of a block as COPY takes it, with its length; `place` names one for an error."""

    def binary_array(self, values: Sequence[Any]) -> bytes:
        """Return elements as an array's bytes."""
        parts = [self.binary(value) for value in values]
        if not parts:
            return struct.pack(">iii", 0, 0, self.oid)
        head = struct.pack(">iiiii", 1, 0, self.oid, len(parts), 1)
        return head + b"".join(len(part).to_bytes(4, "big") + part for part in parts)

    def contains(self, column: str, value: str) -> str:
        """Write that an array has all elements of another one."""
        return f"{column} @> {value}"

    def literal_array(self, values: Sequence[Any]) -> str:
        """Write elements as an array in SQL."""
        return f"ARRAY[{', '.join(map(self.literal, values))}]::{self.element}[]"


class FixedKind(ColumnKind):
    """Values of eight bytes."""

    def pieces(self, values: Any, place: Callable[[int], str]) -> list[Any]:
        out = np.empty(len(values), [("length", ">i4"), ("value", ">i8")])
        out["length"], out["value"] = 8, self.checked(values, place)
        content = out.tobytes()
        return [content[start : start + 12] for start in range(0, len(content), 12)]

    def checked(self, values: Any, place: Callable[[int], str]) -> np.ndarray[Any, Any]:
        """Return a block as the server counts, int64; PostgresError for a value that it does not have."""
        return np.asarray(values, np.int64)


class IntegerKind(FixedKind):
    """Whole numbers, as bigint."""

    type_name = element = "bigint"
    oid, operator_class = 20, "int8_ops"

    def binary(self, value: Any) -> bytes:
        return packed(">q", value, value, self.element)

    def literal(self, value: Any) -> str:
        self.binary(value)  # raises for a value of another kind
        return f"'{value}'::bigint"


class TimestampKind(FixedKind):
    """Microseconds since 1970 UTC, as timestamptz."""

    type_name = element = "timestamptz"
    oid, operator_class = 1184, "timestamptz_ops"

    def checked(self, values: Any, place: Callable[[int], str]) -> np.ndarray[Any, Any]:
        """Return microseconds since 2000; PostgresError for a time that PostgreSQL does not have."""
        given = np.asarray(values, np.int64)
        bad = (given < _FIRST_TIMESTAMP + _EPOCH) | (given >= _END_OF_TIMESTAMPS)
        if bad.any():
            row = int(np.argmax(bad))
            raise PostgresError(
                f"{place(row)} has the timestamp {given[row]} us, which is out of PostgreSQL's range (4713 BC"
                " to 294276 AD): correct or remove the row"
            )
        return given - _EPOCH

    def binary(self, value: Any) -> bytes:
        return packed(">q", value - _EPOCH, value, self.element)

    def literal(self, value: Any) -> str:
        """Write it as a constant, as predicates of indexes have to be."""
        self.binary(value)  # raises for a value of another kind
        seconds, microseconds = divmod(int(value), 1_000_000)
        moment = np.datetime64(seconds, "s")
        year = int(moment.astype("datetime64[Y]").astype(int)) + 1970
        rest = str(moment)[-len("-01-01T00:00:00") :]
        written, era = (year, "") if year > 0 else (1 - year, " BC")
        return f"'{written:04d}{rest}.{microseconds:06d}+00{era}'::timestamptz"


class TextKind(ColumnKind):
    """Text that compares by its code points, whatever the language of the database."""

    type_name, element = 'text COLLATE "C"', "text"
    oid, operator_class = 25, "text_ops"

    def binary(self, value: Any) -> bytes:
        """Return its bytes in UTF-8; PostgresError for what no text of PostgreSQL can be."""
        try:
            content = str(value).encode()
        except UnicodeEncodeError:
            raise PostgresError("there is text that is not Unicode: correct it") from None
        if b"\0" in content:
            raise PostgresError("there is text with a NUL, which PostgreSQL refuses: correct it")
        return content

    def literal(self, value: Any) -> str:
        text = self.binary(value).decode().replace("\\", "\\\\").replace("'", "\\'")
        return f"E'{text}'::text"

    def pieces(self, values: Any, place: Callable[[int], str]) -> list[Any]:
        """Return lengths and texts; PostgresError for one that no text of PostgreSQL can hold."""
        pieces = []
        for row, text in enumerate(values):
            try:
                content = self.binary(text)
            except PostgresError as error:
                raise PostgresError(f"{place(row)}: {error}") from None
            pieces.append(len(content).to_bytes(4, "big") + content)
        return pieces


class LabelsKind(ColumnKind):
    """A set of labels a row, as int4[]."""

    type_name, element = "int4[]", "int4"
    oid, operator_class, method = 23, "array_ops", "gin"
    has_several = True
    operators = ("contains", "in")

    def binary(self, value: Any) -> bytes:
        return packed(">i", value, value, self.element)

    def literal(self, value: Any) -> str:
        self.binary(value)  # raises for a value of another kind
        return str(value)

    def pieces(self, values: Any, place: Callable[[int], str]) -> list[Any]:
        """Return lengths and arrays: without a dimension where the row has no label, else with one.

        All words of a row have four bytes: its length, dimensions, has nulls, type, and with labels their
        number, the first place, and for each its length and value.
        """
        counts = np.array([len(labels) for labels in values], np.int64)
        words = np.where(counts > 0, 6 + 2 * counts, 4)
        ends = np.cumsum(words)
        starts = ends - words
        out = np.zeros(int(ends[-1]) if len(ends) else 0, ">i4")
        out[starts], out[starts + 3] = 4 * (words - 1), self.oid
        labelled = starts[counts > 0]
        out[labelled + 1], out[labelled + 5] = 1, 1
        out[labelled + 4] = counts[counts > 0]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(starts + 6, counts) + 2 * within
        out[places] = 4
        if len(places):
            out[places + 1] = np.concatenate(list(values))
        content = out.tobytes()
        return [content[4 * a : 4 * b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]


KINDS: Mapping[str, ColumnKind] = {
    "integer": IntegerKind(),
    "text": TextKind(),
    "timestamp": TimestampKind(),
    "labels": LabelsKind(),
}


def kind_of(attribute: NamedAttribute, kinds: Mapping[str, ColumnKind] = KINDS) -> ColumnKind:
    """Return what an attribute's kind is in PostgreSQL; PostgresError for one that no column can be."""
    name = attribute.name
    if attribute.kind not in kinds:
        raise PostgresError(f"attribute '{name}' is of kind '{attribute.kind}': use {', '.join(kinds)}")
    if name in _OTHER_COLUMNS:
        raise PostgresError(f"an attribute named '{name}' would have the name of another column: rename it")
    if not name or "\0" in name or len(name.encode()) > LONGEST_NAME:
        raise PostgresError(
            f"attribute '{name}' cannot be a column's name: use 1 to {LONGEST_NAME} bytes, none of them NUL"
        )
    return kinds[attribute.kind]


def packed(layout: str, number: Any, value: Any, type_name: str) -> bytes:
    """Return a number's bytes; PostgresError names the value that it was made of."""
    try:
        return struct.pack(layout, number)
    except struct.error:
        size = struct.calcsize(layout)
        raise PostgresError(
            f"a filter compares a {type_name} with {value!r}: give a whole number of up to {size} bytes"
        ) from None


def quoted(name: str) -> str:
    """Write a column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


class SmallLabelsKind(LabelsKind):
    """A set of labels a row, as smallint[]: those of two bytes, which pgvectorscale has in its index."""

    type_name, element = "smallint[]", "int2"
    oid = 21

    def binary(self, value: Any) -> bytes:
        return packed(">h", value, value, self.element)

    def pieces(self, values: Any, place: Callable[[int], str]) -> list[Any]:
        """Return lengths and arrays; PostgresError for a label of more than two bytes."""
        pieces = []
        for row, labels in enumerate(values):
            given = np.asarray(labels)
            elements = np.empty(len(given), [("length", ">i4"), ("value", ">i2")])
            elements["length"], elements["value"] = 2, given
            if (elements["value"] != given).any():
                raise PostgresError(
                    f"{place(row)} has the label {given[elements['value'] != given][0]}, and pgvectorscale"
                    " takes labels up to 32767: number them from 0 on, or leave the build argument labels out"
                )
            head = (1, 0, self.oid, len(given), 1) if len(given) else (0, 0, self.oid)
            content = struct.pack(f">{len(head)}i", *head) + elements.tobytes()
            pieces.append(len(content).to_bytes(4, "big") + content)
        return pieces

    def binary_array(self, values: Sequence[Any]) -> bytes:
        """Return labels as an array's bytes; PostgresError without a label to search the index for."""
        if not values:
            raise PostgresError("a filter has no label, which an index with labels has no rows for: give one")
        return super().binary_array(values)

    def contains(self, column: str, value: str) -> str:
        """The index finds rows that have any of the labels; those that have all are among them."""
        return f"{column} && {value} AND {column} @> {value}"
