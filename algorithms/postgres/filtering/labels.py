"""Labels inside an index of vectors, which filters by them as it searches."""

from collections.abc import Iterable

from ..columns import NamedAttributes, quoted
from ..errors import PostgresError
from .conditions import SharedShape


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
