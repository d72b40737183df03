"""Exact neighbours under filters, against a search without filters over the rows that pass alone.

    python -m benchmarks.filtered_truth [--rows 1000000] [--dimension 96] [--queries 1000] [--k 100]
        [--share 0.01] [--distinct 1 10 100 1000] [--rounds 3]

The other way has the rows that pass each filter in memory already, one array a filter, and searches each with
its queries; ours finds them first. Both take turns within one run, each with all cores. Rows are normally
distributed float32; filters are stretches of a random column, spread evenly.
"""

from functools import partial
from typing import Any

import numpy as np

from ann_benchmarks.data.filters import Filter, Predicate, RowAttribute, RowAttributes
from ann_benchmarks.data.filters.matching import Matcher
from ann_benchmarks.data.filters.truth import filtered_truth, grouped
from ann_benchmarks.data.ground_truth import SearchOptions, exact_neighbors
from benchmarks.harness import arguments, cost_of, in_turn, ratios, spread

_OURS, _ALONE = "under filters", "matching rows alone"


def main() -> None:
    args = arguments(
        __doc__,
        rows=1_000_000,
        dimension=96,
        queries=1000,
        k=100,
        share=0.01,
        distinct=[1, 10, 100, 1000],
        rounds=3,
    )
    rng = np.random.default_rng(1)
    train = rng.standard_normal((args.rows, args.dimension), dtype=np.float32)
    test = rng.standard_normal((args.queries, args.dimension), dtype=np.float32)
    values = RowAttribute("value", "integer", rng.permutation(args.rows))
    attributes = RowAttributes({"value": values}, args.rows, "")
    passing = max(1, round(args.share * args.rows))
    print(
        f"{args.rows:,} rows x {args.dimension} dimensions, {args.queries:,} queries, k = {args.k},"
        f" {passing:,} rows pass, {args.rounds} rounds"
    )
    for distinct in args.distinct:
        starts = np.linspace(0, args.rows - passing, distinct).astype(int)[np.arange(args.queries) % distinct]
        filters = [
            Filter((Predicate("value", ">=", start), Predicate("value", "<", start + passing)))
            for start in starts.tolist()
        ]
        compare(train, test, filters, attributes, args.k, args.rounds)


def compare(
    train: np.ndarray,
    test: np.ndarray,
    filters: list[Filter],
    attributes: RowAttributes,
    k: int,
    rounds: int,
) -> None:
    """Let both ways find the same neighbours in turns."""
    groups, matcher = grouped(filters), Matcher(attributes)
    rows = [matcher.rows(group.filter, range(len(train))) for group in groups]
    alone = [(train[chosen], test[group.queries]) for chosen, group in zip(rows, groups, strict=True)]
    answers: dict[str, Any] = {}

    def ours() -> None:
        problem, options = ("euclidean", test, k), SearchOptions(progress=False)
        answers[_OURS] = filtered_truth(problem, train, groups, attributes, options)[1]

    def each_alone() -> None:
        found = np.full((len(test), k), np.inf)
        for group, (some, queries) in zip(groups, alone, strict=True):
            count = min(k, len(some))
            found[group.queries, :count] = exact_neighbors("euclidean", some, queries, count, False)[1]
        answers[_ALONE] = found

    ways = {_ALONE: each_alone, _OURS: ours}

    def timed(way: str, number: int) -> float:
        return cost_of(ways[way]).wall

    seconds = in_turn({way: partial(timed, way) for way in ways}, rounds)
    same = np.array_equal(answers[_OURS], answers[_ALONE])
    shares = spread(ratios(seconds[_OURS], seconds[_ALONE]))
    print(
        f"  {len(groups):5,} distinct filters: {shares} x the time of the {_ALONE};"
        f" {'the same distances' if same else 'OTHER DISTANCES'}",
        flush=True,
    )


if __name__ == "__main__":
    main()
