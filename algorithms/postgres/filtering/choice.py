"""The build arguments by which a plug-in's table is divided among several indexes."""

from typing import Any

from ..arguments import one_of, whole_number
from ..errors import PostgresError
from .division import DivisionMaker
from .indexes import NONE
from .partial import PartialIndexes
from .partitions import ListPartitions

PARTIAL, LARGE, PARTITIONS = "partial", "partial_large", "partitions"
DIVISIONS = (NONE, PARTIAL, LARGE, PARTITIONS)
_LEAST_ROWS = {PARTIAL: 200, LARGE: 10_000}  # by default, of labels, or of every value
DIVISION_ARGUMENTS = {"division": NONE, "partial_rows": None}


def chosen_division(division: Any, partial_rows: Any) -> DivisionMaker | None:
    """Return what divides a table as the build arguments say, None where it has one index of vectors.

    partial: a partial index for each value, but for labels that fewer than `partial_rows` rows have;
    partial_large: one for each value that at least `partial_rows` rows have; partitions: an index on each of
    the partitions by a value.
    """
    chosen = one_of("division", NONE if division is None else division, DIVISIONS)
    if partial_rows is not None and chosen not in _LEAST_ROWS:
        raise PostgresError("partial_rows is for division: partial or partial_large: leave it out")
    if chosen not in _LEAST_ROWS:
        return ListPartitions if chosen == PARTITIONS else None
    least = whole_number("partial_rows", _LEAST_ROWS[chosen] if partial_rows is None else partial_rows)
    return lambda rows: PartialIndexes(rows, least if chosen == LARGE else 1, least)
