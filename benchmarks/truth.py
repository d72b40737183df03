"""Exact neighbours take no longer than faiss's; under filters, at most twice a search of what passes alone.

Rows are normally distributed float32. The matrix product of the same rows and queries, with all cores and
PIECE rows at once, says what the machine can do. Under filters, stretches of a random column, the other
way has the rows that pass in memory already, an array for each filter.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

try:
    import faiss
except ImportError:
    faiss = None

from ann_benchmarks.data.filters import Filter, Predicate, RowAttribute, RowAttributes
from ann_benchmarks.data.filters.matching import Matcher
from ann_benchmarks.data.filters.truth import filtered_truth, grouped
from ann_benchmarks.data.ground_truth import SearchOptions, exact_neighbors
from ann_benchmarks.data.ground_truth.span import Problem

from .harness import Case, Figures, Goal
from .serving import cost_of

GOAL = Goal("s", most=2.0)
OPTIONS = {
    "shapes": ["1000000x96", "200000x768"],
    "queries": 1000,
    "k": 100,
    "metric": {"default": "euclidean", "choices": ["euclidean", "ip", "angular"]},
    "distinct": {"default": [1, 10, 100, 1000], "help": "numbers of filters"},
    "share": {"default": 0.01, "help": "of the rows that pass a filter"},
    "rounds": 3,
}
PIECE = 2**16  # rows: a product of all may not fit into memory


def cases(args: argparse.Namespace) -> Iterator[Case]:
    for shape in args.shapes:
        rows, dimension = map(int, shape.split("x"))
        rng = np.random.default_rng(args.seed)
        train = rng.standard_normal((rows, dimension), dtype=np.float32)
        test = rng.standard_normal((args.queries, dimension), dtype=np.float32)
        title = f"{rows:,} rows x {dimension}, {args.queries:,} queries, k = {args.k}"
        searches = {"ours": partial(exact_neighbors, args.metric, train, test, args.k, progress=False)}
        if faiss is not None and args.metric != "angular":
            kind = faiss.METRIC_L2 if args.metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
            searches["faiss.knn"] = partial(faiss.knn, test, train, args.k, metric=kind)
        searches["matrix product"] = partial(multiply, train, test, np.ones((PIECE, len(test)), np.float32))
        base = next((name for name in searches if name != "ours"), "ours")
        yield Case(f"{title}, {args.metric}", timed(searches), base)
        for distinct in args.distinct:
            both = filtered_searches(train, test, args, distinct, rng)
            yield Case(f"{title}, {distinct:,} filters", timed(both), base="matching rows alone")
            ours, alone = (search() for search in both.values())
            if not np.array_equal(ours, alone):
                raise SystemExit(f"error: {distinct:,} filters: the two ways must find the same distances")


def multiply(train: np.ndarray, test: np.ndarray, out: np.ndarray) -> None:
    """Compute the products of all rows and queries, over one another in `out`."""
    for at in range(0, len(train), len(out)):
        rows = train[at : at + len(out)]
        np.matmul(rows, test.T, out=out[: len(rows)])


def timed(searches: dict[str, Callable[[], Any]]) -> dict[str, Callable[[int], Figures]]:
    """Time each search."""

    def time(search: Callable[[], Any], number: int) -> Figures:
        cost = cost_of(search)
        return {"s": cost.wall, "CPU s": cost.cpu}

    return {name: partial(time, search) for name, search in searches.items()}


def filtered_searches(
    train: np.ndarray, test: np.ndarray, args: argparse.Namespace, distinct: int, rng: np.random.Generator
) -> dict[str, Callable[[], Any]]:
    """Both ways to find the distances of neighbours under this number of filters."""
    passing = max(1, round(args.share * len(train)))
    column = RowAttribute("value", "integer", rng.permutation(len(train)))
    attributes = RowAttributes({"value": column}, len(train), "")
    starts = np.linspace(0, len(train) - passing, distinct).astype(int)[np.arange(len(test)) % distinct]
    filters = [
        Filter((Predicate("value", ">=", start), Predicate("value", "<", start + passing)))
        for start in starts.tolist()
    ]
    groups, matcher = grouped(filters), Matcher(attributes)
    alone = [(train[matcher.rows(group.filter, range(len(train)))], test[group.queries]) for group in groups]

    def search() -> np.ndarray:
        problem, options = Problem("euclidean", test, args.k), SearchOptions(progress=False)
        return np.asarray(filtered_truth(problem, train, groups, attributes, options)[1])

    def search_alone() -> np.ndarray:
        found = np.full((len(test), args.k), np.inf)
        for group, (some, queries) in zip(groups, alone, strict=True):
            count = min(args.k, len(some))
            found[group.queries, :count] = exact_neighbors("euclidean", some, queries, count, False)[1]
        return found

    return {"under filters": search, "matching rows alone": search_alone}
