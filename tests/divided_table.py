"""A table of which several indexes of vectors are built, and what its queries find."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.data.filters import Filter, FilteredVector

from .filtered_rows import QUERIES, TEXTS, TRAIN, K, attributes, one, passes, truth

TABLE = attributes()
WORD, SEEN = 'the "word"', "Seen at"
SMALL = {"M": 8, "efConstruction": 32}


def queries_of(filters: Sequence[Filter]) -> list[FilteredVector]:
    """Return the queries with the filters, which take turns."""
    return [FilteredVector(query, filters[i % len(filters)]) for i, query in enumerate(QUERIES)]


@contextmanager
def divided(
    queries: Sequence[FilteredVector], *point: Any, **arguments: Any
) -> Iterator[tuple[PGVectorHNSW, dict[str, Any]]]:
    """Build for these queries; give the plug-in and what it stores."""
    algorithm = PGVectorHNSW("euclidean", {**SMALL, **arguments})
    algorithm.set_row_attributes(TABLE)
    algorithm.set_query_filters({each.filter: int(passes(each.filter, TABLE).sum()) for each in queries})
    try:
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(*(point or (400,)))
        yield algorithm, algorithm.get_additional()
    finally:
        algorithm.use_settings({})  # which are those of the process
        algorithm.done()


def recall(algorithm: PGVectorHNSW, queries: Sequence[FilteredVector]) -> float:
    """Recall over min(k, matches); fails where a row does not pass its filter."""
    shares = []
    for query, found in zip(queries, algorithm.time_queries(queries, K)[1], strict=True):
        true = truth(query, TABLE)
        assert passes(query.filter, TABLE)[found].all() and len(set(found)) == len(found)
        shares.append(len(set(found) & set(true)) / len(true) if true else 1.0)
    return float(np.mean(shares))


def plans_of(algorithm: PGVectorHNSW) -> set[str]:
    return set(json.loads(algorithm.get_additional()["plans"]))


ORDERED = [each for each in TABLE.values() if each.kind != "labels"]
EQUAL = [one(WORD, "=", text) for text in TEXTS]
EQUAL_SQL = f'"{WORD.replace(chr(34), chr(34) * 2)}" = $1'
