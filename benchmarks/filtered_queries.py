"""Client CPU of a query with a filter, beside the same query without one.

    python -m benchmarks.filtered_queries [--rows 20000] [--clients 1 8] [--seconds 1] [--rounds 15]

HNSW at ef_search 10 on two tables of the same rows, one of them with attributes. All rows pass each filter,
so that answers have as many rows. The ways take turns within one run; the ratios are those of each round to
the query without a filter. CPU is the clients' own, for a query, in microseconds, over a connection each. On
a machine that others use, trust the ratio of the least CPU of all rounds.

    none         vector alone, on the table without attributes
    one value    uniform < $2
    two values   uniform >= $2 AND uniform < $3
    an array     labels @> $2, with two labels
"""

from contextlib import closing
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.data.filters import Filter, FilteredVector, Predicate, RowAttribute, RowAttributes
from benchmarks.harness import K, arguments, in_turn, random_vectors, ratios, spread, temporary_server

QUERIES = 1_000
EF_SEARCH = 10
# The same plan on both tables, as filters would have it at a selectivity of 1.
SETTINGS = {"enable_seqscan": "off", "plan_cache_mode": "force_generic_plan"}


def main() -> None:
    args = arguments(__doc__, rows=20_000, dimension=96, clients=[1, 8], seconds=1.0, rounds=15)
    vectors = random_vectors(args.rows + QUERIES, args.dimension)
    train, queries = vectors[: args.rows], vectors[args.rows :]
    filters = {
        "one value": Filter((Predicate("uniform", "<", args.rows),)),
        "two values": Filter((Predicate("uniform", ">=", 0), Predicate("uniform", "<", args.rows))),
        "an array": Filter((Predicate("labels", "contains", (1, 2)),)),
    }
    with temporary_server():
        plain, filtered = fitted(train, None), fitted(train, made_attributes(args.rows))
        try:
            for clients in args.clients:
                ways = {"none": partial(microseconds, plain, queries, clients, args.seconds)}
                for name, given in filters.items():
                    asked = [FilteredVector(query, given) for query in queries]
                    ways[name] = partial(microseconds, filtered, asked, clients, args.seconds)
                taken = in_turn(ways, args.rounds)
                for way, cpu in taken.items():
                    compared = spread(ratios(cpu, taken["none"]))
                    least = f"{min(cpu) / min(taken['none']):.2f} of the least"
                    print(
                        f"{clients:3} clients  {way:11} {median(cpu):6.1f} us  {compared}; {least}",
                        flush=True,
                    )
        finally:
            plain.done()
            filtered.done()


def fitted(train: np.ndarray, attributes: RowAttributes | None) -> PGVectorHNSW:
    """Return an index of the rows, on a table with these attributes."""
    algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64})
    if attributes is not None:
        algorithm.set_row_attributes(attributes)
    algorithm.use_settings(SETTINGS)
    algorithm.fit(train)
    algorithm.set_query_arguments(EF_SEARCH)
    return algorithm


def made_attributes(rows: int) -> RowAttributes:
    """Return numbers of the rows, and the same two labels for each."""
    labels = np.tile(np.array([1, 2], np.int32), rows)
    made = [
        RowAttribute("uniform", "integer", np.arange(rows)),
        RowAttribute("labels", "labels", labels, 2 * np.arange(1, rows + 1)),
    ]
    return RowAttributes({each.name: each for each in made}, rows, "of a benchmark")


def microseconds(algorithm: Any, queries: Any, clients: int, seconds: float, run: int) -> float:
    """Client CPU of a query of closed loops."""
    rng = np.random.default_rng(run)
    with closing(algorithm.open_clients(queries, K, clients)) as opened:
        opened.prepare([rng.permutation(len(queries)) for _ in range(clients)], seconds, keeps_ids=False)
        opened.run()
        answers = opened.answers()
    sent = sum(len(given.numbers) for given in answers)
    assert all((given.rows == K).all() for given in answers)
    return 1e6 * sum(given.cpu_seconds for given in answers) / sent


if __name__ == "__main__":
    main()
