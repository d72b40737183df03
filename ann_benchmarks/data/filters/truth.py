"""Exact nearest neighbours under filters: rows that pass are searched alone, for all queries of a filter.

The answer is that of ground_truth among these rows: the k smallest float64 distances, equal ones by row
number. Rows are read span by span, so that files are read once whatever the number of filters. Within a span,
each filter that is distinct is a group: its queries search its rows. Large groups take all cores one after
the other; small ones take a core each.

Memory: that of ground_truth, 16 bytes for each value of a span in the columns that filters use, and where
the storage has no memory map, SPAN_BYTES of vectors.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import usable_cores

from ..ground_truth import SearchOptions
from ..ground_truth.exact import exact_distances, nearest
from ..ground_truth.span import Problem, SpanNeighbors, search_span
from ..ground_truth.truth import PartialTruth
from ..vectors.rows import ArrayRows, Rows
from .filter import Filter, RowAttributes
from .matching import Matcher

SPAN = 2**22  # rows that all groups search before the next
SPAN_BYTES = 2**28  # of a span of vectors that is read into memory
MANY_PAIRS = 2**23  # of rows and queries: such a group takes all cores
FEW_PAIRS = 2**12  # for fewer, float64 distances alone are quicker than bounds before them


class FilterGroup(NamedTuple):
    """A filter, and the numbers of the queries that have it, ascending int64."""

    filter: Filter
    queries: np.ndarray


class _Task(NamedTuple):
    """The search of a group's queries among the rows of a span that pass, ascending numbers in the span."""

    number: int
    queries: np.ndarray
    rows: np.ndarray


def grouped(filters: Sequence[Filter]) -> list[FilterGroup]:
    """Group queries by equal filters, in the order in which these first come."""
    members: dict[Filter, list[int]] = {}
    for number, filter in enumerate(filters):
        members.setdefault(filter, []).append(number)
    return [FilterGroup(filter, np.array(numbers, np.int64)) for filter, numbers in members.items()]


def count_matches(groups: Sequence[FilterGroup], attributes: RowAttributes, queries: int) -> np.ndarray:
    """Return how many rows pass the filter of each query, (queries,) int64."""
    counts = np.zeros(queries, np.int64)
    matcher = Matcher(attributes)
    for span in _spans(attributes.rows, SPAN):
        for group in groups:
            counts[group.queries] += len(matcher.rows(group.filter, span))
    return counts


def filtered_truth(
    problem: Problem,
    train: Any,
    groups: Sequence[FilterGroup],
    attributes: RowAttributes,
    options: SearchOptions,
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest rows that pass each query's filter: ids int64 (n, k) and distances float64 (n, k).

    `train` is an array of the rows, or Rows. Every query is in one group. Where fewer than k rows pass, the
    ids after them are -1 and the distances inf. With `options.state` an interrupted search goes on after the
    groups that it finished; `options.mark` must then tell the filters, too. Raises UserError for vectors that
    hold NaN or infinity.
    """
    problem = problem._replace(queries=np.ascontiguousarray(problem.queries))
    rows = train if isinstance(train, Rows) else ArrayRows(train, "training")
    mapped = rows.mapped()
    row_bytes = max(1, rows.shape[1] * rows.dtype.itemsize)
    span_rows = SPAN if mapped is not None else max(1, min(SPAN, SPAN_BYTES // row_bytes))
    spans = _spans(len(rows), span_rows)
    truth = PartialTruth(problem, rows, len(spans) * len(groups), options, span_rows)
    matcher = Matcher(attributes)
    bar = tqdm(
        None, "neighbours under filters", len(truth.done), initial=int(truth.done.sum()), delay=1,
        disable=None if options.progress else True,
    )  # fmt: skip
    with bar, threadpool_limits(1, user_api="blas"):
        for at, span in enumerate(spans):
            first = at * len(groups)
            numbers = [first + number for number in range(len(groups)) if not truth.done[first + number]]
            if not numbers:
                continue
            search = _SpanSearch(problem, rows, span, mapped)
            wanted = ((number, groups[number - first]) for number in numbers)
            tasks = (
                _Task(number, group.queries, matcher.rows(group.filter, span) - span.start)
                for number, group in wanted
            )
            for number, found in search.all(tasks, truth):
                truth.merge(number, found)
                bar.update(1)
    truth.ids[~np.isfinite(truth.distances)] = -1
    return truth.ids, truth.distances


class _SpanSearch:
    """The groups' searches in one span of the rows."""

    def __init__(self, problem: Problem, train: Rows, span: range, mapped: np.ndarray | None) -> None:
        self._problem, self._span = problem, span
        self._row_name: Callable[[int], str] = lambda row: train.row_name(span.start + row)
        self._rows = train[span.start : span.stop] if mapped is None else mapped[span.start : span.stop]

    def all(self, tasks: Iterator[_Task], truth: PartialTruth) -> Iterator[tuple[int, SpanNeighbors]]:
        """Give what each task finds, in any order."""
        cores = usable_cores()
        with ThreadPoolExecutor(cores) as pool:
            waiting: list[Any] = []
            try:
                for task in tasks:
                    farthest = truth.distances[task.queries, -1]
                    if len(task.rows) * len(task.queries) >= MANY_PAIRS:
                        yield task.number, self._one(task, farthest, cores)
                        continue
                    waiting.append((task.number, pool.submit(self._one, task, farthest, 1)))
                    if len(waiting) > 4 * cores:
                        number, found = waiting.pop(0)
                        yield number, found.result()
                for number, found in waiting:
                    yield number, found.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _one(self, task: _Task, farthest: np.ndarray, threads: int) -> SpanNeighbors:
        metric, queries, k = self._problem
        own = Problem(metric, queries[task.queries], k)
        chosen = _ChosenRows(self._rows, task.rows, self._row_name)
        if not len(task.rows):
            found = SpanNeighbors(np.zeros(len(task.queries), np.int64), np.empty(0, np.int64), np.empty(0))
        elif len(task.rows) * len(task.queries) <= FEW_PAIRS:
            found = _search_exactly(own, chosen)
        else:
            found = search_span(own, chosen, range(len(chosen)), farthest, threads)
        counts = np.zeros(len(queries), np.int64)
        counts[task.queries] = found.counts
        return SpanNeighbors(counts, self._span.start + task.rows[found.ids], found.distances)


class _ChosenRows(Rows):
    """Some rows of an array, by ascending numbers."""

    def __init__(self, array: np.ndarray, numbers: np.ndarray, where: Callable[[int], str]) -> None:
        self._array, self._numbers, self._row_name = array, numbers, where
        self.shape, self.dtype = (len(numbers), array.shape[1]), array.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        return self._array[self._numbers[start:stop]]

    def take(self, numbers: np.ndarray) -> np.ndarray:
        return self._array[self._numbers[numbers]]

    def row_name(self, row: int) -> str:
        return self._row_name(int(self._numbers[row]))


def _search_exactly(problem: Problem, rows: _ChosenRows) -> SpanNeighbors:
    """Compute all distances in float64."""
    query, row = (part.reshape(-1) for part in np.indices((len(problem.queries), len(rows))))
    with np.errstate(all="ignore"):
        distances = exact_distances(problem.metric, problem.queries, rows.take, query, row)
    bad = np.flatnonzero(~np.isfinite(distances))
    if len(bad):
        raise UserError(
            f"{rows.row_name(int(row[bad[0]]))}, or query {query[bad[0]]} (from 0) of its filter, holds NaN,"
            " infinity or values too large to square; finite numbers were expected: remove or correct it"
        )
    order = nearest(query, distances, row, problem.k)
    counts = np.bincount(query[order], minlength=len(problem.queries))
    return SpanNeighbors(counts, row[order], distances[order])


def _spans(rows: int, size: int) -> list[range]:
    return [range(at, min(at + size, rows)) for at in range(0, rows, size)]
