"""Rows with attributes of every kind, filters on them, and the truth by NumPy."""

import numpy as np

from ann_benchmarks.data.filters import Filter, FilteredVector, Predicate, RowAttribute, RowAttributes

from .postgres_fixtures import clustered

ROWS, DIMENSION, K = 3000, 16, 10
TRAIN, QUERIES = clustered(ROWS, DIMENSION, seed=1), clustered(20, DIMENSION, seed=2)
# What SQL, COPY, and literals of SQL each take for something else.
TEXTS = np.array(
    ["plain", "it's", 'a "quote"', "back\\slash", "$1", "naïve ✓", "", "\t\n,", "Z", "a"], object
)

# Answers exactly, from a list of what it was given; takes filters in its own way.
OWN_WAY = """\
def set_row_attributes(self, attributes):
    self.values = attributes["uniform"].values
def fit(self, X):
    self.X = np.array(X)
def query(self, q, n):
    rows = np.flatnonzero(self.values < q.filter.predicates[0].value)
    return rows[np.argsort(((self.X[rows] - q.vector) ** 2).sum(1))[:n]]
"""


def attributes(seed: int = 3, rows: int = ROWS, only: tuple[str, ...] = ()) -> RowAttributes:
    """Return an attribute of each kind, named as nobody should name a column."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, rows)
    labels = [np.sort(rng.choice(8, count, replace=False)).astype(np.int32) for count in counts]
    made = [
        RowAttribute("uniform", "integer", rng.permutation(rows).astype(np.int64)),
        RowAttribute('the "word"', "text", TEXTS[rng.integers(len(TEXTS), size=rows)]),
        RowAttribute("Seen at", "timestamp", rng.integers(-(10**15), 10**16, rows)),
        RowAttribute("labels", "labels", np.concatenate(labels), np.cumsum(counts)),
    ]
    by_name = {each.name: each for each in made if not only or each.name in only}
    return RowAttributes(by_name, rows, f"seed {seed} {rows} {[*by_name]}")


def one(column: str, operator: str, value: object) -> Filter:
    """Return a filter of one predicate."""
    return Filter((Predicate(column, operator, value),))


def filtered(given: Filter, queries: np.ndarray = QUERIES) -> list[FilteredVector]:
    """Return the queries with the same filter each."""
    return [FilteredVector(query, given) for query in queries]


def passes(given: Filter, table: RowAttributes) -> np.ndarray:
    """Which rows pass, (rows,) bool, by NumPy and Python."""
    compare = {
        "=": lambda a, b: a == b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b, "in": lambda a, b: not {*np.ravel(a).tolist()}.isdisjoint(b),
        "contains": lambda a, b: set(b) <= set(a.tolist()),
    }  # fmt: skip
    mask = np.ones(table.rows, bool)
    for each in given.predicates:
        values = table[each.column].block(0, table.rows)
        mask &= np.array([compare[each.operator](value, each.value) for value in values], bool)
    return mask


def truth(query: FilteredVector, table: RowAttributes, count: int = K) -> list[int]:
    """Return the nearest rows that pass, by float64 distances."""
    rows = np.flatnonzero(passes(query.filter, table))
    distances = ((TRAIN[rows].astype(float) - query.vector.astype(float)) ** 2).sum(1)
    return rows[np.argsort(distances, kind="stable")[:count]].tolist()
