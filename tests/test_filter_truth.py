"""Exact neighbours under filters, against float64 distances of every row, sorted."""

from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.filters import Filter, Predicate, RowAttribute, RowAttributes
from ann_benchmarks.data.filters import truth as filter_truth
from ann_benchmarks.data.filters.matching import SORTED_AFTER, Matcher
from ann_benchmarks.data.filters.truth import count_matches, filtered_truth, grouped
from ann_benchmarks.data.ground_truth import SearchOptions, truth
from ann_benchmarks.data.ground_truth.span import Problem
from ann_benchmarks.data.vectors.rows import ArrayRows

ROWS, QUERIES, K = 20_000, 24, 10
QUIET = SearchOptions(progress=False)
METRICS = ("euclidean", "angular", "ip", "manhattan", "hamming", "jaccard")


def distances_of(metric: str, query: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Distances by their textbook definitions, in float64."""
    if metric in ("hamming", "jaccard"):
        differ, either = (query != rows).sum(axis=1), (query | rows).sum(axis=1)
        return differ / rows.shape[1] if metric == "hamming" else differ / np.maximum(either, 1)
    query, rows = query.astype(np.float64), rows.astype(np.float64)
    if metric == "euclidean":
        return np.sqrt(((rows - query) ** 2).sum(axis=1))
    if metric == "manhattan":
        return np.abs(rows - query).sum(axis=1)
    if metric == "ip":
        return -(rows @ query)
    return 1 - rows @ query / (np.linalg.norm(rows, axis=1) * np.linalg.norm(query))


def vectors_of(metric: str, rows: int, seed: int = 0) -> np.ndarray:
    """Whole numbers in few dimensions: exact in float64 whatever the order of sums, with very many ties."""
    rng = np.random.default_rng(seed)
    if metric in ("hamming", "jaccard"):
        return rng.random((rows, 24)) < 0.4
    vectors = rng.integers(-3, 4, (rows, 5)).astype(np.float32)
    vectors[:, 0] += 10  # so that none is zero
    return vectors


def column(values: np.ndarray, name: str = "c") -> RowAttributes:
    values = np.asarray(values, np.int64)
    return RowAttributes({name: RowAttribute(name, "integer", values)}, len(values), "mark")


def below(value: int) -> Filter:
    return Filter((Predicate("c", "<", value),))


def found_by(metric: str, train, queries, filters, attributes, options=QUIET, k=K):
    return filtered_truth(Problem(metric, queries, k), train, grouped(filters), attributes, options)


def assert_true(metric: str, train, queries, masks: np.ndarray, found, k=K) -> None:
    """`masks` (queries, rows): which rows pass. Ties go to the smaller row number."""
    ids, distances = found
    assert ids.dtype == np.int64 and distances.dtype == np.float64 and ids.shape == distances.shape
    for number, query in enumerate(queries):
        rows = np.flatnonzero(masks[number])
        every = distances_of(metric, query, train[rows])
        if metric == "angular":  # whose divisions round
            every = np.round(every, 12)
        order = np.lexsort((rows, every))[:k]
        expected = np.full(k, np.inf)
        expected[: len(order)] = every[order]
        np.testing.assert_allclose(distances[number], expected, rtol=1e-12, atol=1e-12)
        if metric != "angular":
            np.testing.assert_array_equal(ids[number, : len(order)], rows[order])
        assert (ids[number, len(order) :] == -1).all()
        assert np.isin(ids[number, : len(order)], rows).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("share", [1.0, 0.5, 0.01, 0.0005, 0.0001])
def test_equals_sorting_the_distances_of_the_rows_that_pass(metric: str, share: float) -> None:
    train, queries = vectors_of(metric, ROWS), vectors_of(metric, QUERIES, 1)
    values = np.random.default_rng(2).permutation(ROWS)
    limit = round(share * ROWS)
    found = found_by(metric, train, queries, [below(limit)] * QUERIES, column(values))
    assert_true(metric, train, queries, np.tile(values < limit, (QUERIES, 1)), found)


@pytest.mark.parametrize("spans", [1, 7])
@pytest.mark.parametrize("many_pairs", [0, 2**23])
@pytest.mark.parametrize("few_pairs", [0, 2**12])
def test_the_way_does_not_change_the_answer(monkeypatch, spans: int, many_pairs: int, few_pairs: int) -> None:
    monkeypatch.setattr(filter_truth, "SPAN", -(-ROWS // spans))
    monkeypatch.setattr(filter_truth, "MANY_PAIRS", many_pairs)
    monkeypatch.setattr(filter_truth, "FEW_PAIRS", few_pairs)
    train, queries = vectors_of("euclidean", ROWS), vectors_of("euclidean", QUERIES, 1)
    values = np.random.default_rng(3).permutation(ROWS)
    limits = [(0, 3, 10, 15_000, ROWS)[number % 5] for number in range(QUERIES)]
    found = found_by("euclidean", train, queries, [below(limit) for limit in limits], column(values))
    assert_true("euclidean", train, queries, values < np.array(limits)[:, None], found)


def test_equal_vectors_are_ordered_by_row() -> None:
    train = np.repeat(vectors_of("euclidean", 3), 2000, axis=0)
    values = np.random.default_rng(4).permutation(len(train))
    found = found_by("euclidean", train, train[:3], [below(3000)] * 3, column(values), k=200)
    assert_true("euclidean", train, train[:3], np.tile(values < 3000, (3, 1)), found, k=200)


def test_rows_that_have_no_memory_map_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unmapped(ArrayRows):
        read_rows = 0

        def mapped(self) -> None:
            return None

        def read(self, start: int, stop: int) -> np.ndarray:
            self.read_rows += stop - start
            return super().read(start, stop)

    train, queries = vectors_of("ip", 5000), vectors_of("ip", QUERIES, 1)
    monkeypatch.setattr(filter_truth, "SPAN_BYTES", 1024 * train.shape[1] * 4)
    values, rows = np.arange(5000), Unmapped(train)
    filters = [below(200 * number) for number in range(QUERIES)]
    found = found_by("ip", rows, queries, filters, column(values))
    assert_true("ip", train, queries, values < 200 * np.arange(QUERIES)[:, None], found)
    assert rows.read_rows == 5000


def test_goes_on_after_the_groups_that_are_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(truth, "SHARE_OF_SAVING", 1000)  # after each group
    train, queries = vectors_of("ip", ROWS), vectors_of("ip", QUERIES, 1)
    values, filters = np.random.default_rng(5).permutation(ROWS), [below(100 * n) for n in range(QUERIES)]
    options = SearchOptions(tmp_path / "state", "these", progress=False)
    one, done = filter_truth._SpanSearch._one, []

    def interrupted(self, task, farthest, threads):
        done.append(task.number)
        if len(done) == 20:
            raise KeyboardInterrupt
        return one(self, task, farthest, threads)

    monkeypatch.setattr(filter_truth._SpanSearch, "_one", interrupted)
    with pytest.raises(KeyboardInterrupt):
        found_by("ip", train, queries, filters, column(values), options)
    done.clear()
    done += [-1] * 20
    found = found_by("ip", train, queries, filters, column(values), options)
    assert 0 < len(done) - 20 < QUERIES
    assert_true("ip", train, queries, values < 100 * np.arange(QUERIES)[:, None], found)


@pytest.mark.parametrize("passing", [50, 10_000])
def test_a_row_without_distances_is_named_by_its_number(passing: int) -> None:
    train, queries = vectors_of("euclidean", ROWS), vectors_of("euclidean", 5, 1)
    train[17, 2] = np.nan
    with pytest.raises(UserError, match=r"row 17 \(from 0\)"):
        found_by("euclidean", train, queries, [below(passing)] * 5, column(np.arange(ROWS)))


# ---- which rows pass

LABELS = [[1, 5], [], [5], [1, 5, 9], [9], [1]]
TEXTS = ["de", "en", "", "en", "日本", "e"]


def all_kinds() -> RowAttributes:
    ends = np.cumsum([len(labels) for labels in LABELS])
    flat = np.concatenate(LABELS).astype(np.int32)
    columns = [
        RowAttribute("n", "integer", np.array([3, -1, 2**40, 3, 0, 7])),
        RowAttribute("t", "text", np.array(TEXTS, object)),
        RowAttribute("l", "labels", flat, ends),
    ]
    return RowAttributes({attribute.name: attribute for attribute in columns}, 6, "mark")


@pytest.mark.parametrize("lookups", [1, SORTED_AFTER + 2])
@pytest.mark.parametrize("span", [range(6), range(1, 5)])
@pytest.mark.parametrize(
    ("predicates", "expected"),
    [
        ([("n", "=", 3)], [0, 3]),
        ([("n", "<", 3)], [1, 4]),
        ([("n", "<=", 3)], [0, 1, 3, 4]),
        ([("n", ">", 3)], [2, 5]),
        ([("n", ">=", 3)], [0, 2, 3, 5]),
        ([("n", ">=", 0), ("n", "<", 7)], [0, 3, 4]),
        ([("n", ">", 3), ("n", "<", 3)], []),
        ([("n", "in", (0, 7, 9))], [4, 5]),
        ([("n", "in", (0, 3)), ("n", ">", 0)], [0, 3]),
        ([("t", "=", "en")], [1, 3]),
        ([("t", "=", "fr")], []),
        ([("t", "=", "")], [2]),
        ([("t", "in", ("日本", "e", "x"))], [4, 5]),
        ([("l", "contains", (5,))], [0, 2, 3]),
        ([("l", "contains", (1, 5))], [0, 3]),
        ([("l", "contains", (1, 2))], []),
        ([("l", "in", (9, 5))], [0, 2, 3, 4]),
        ([("l", "contains", (5,)), ("n", "=", 3), ("t", "=", "en")], [3]),
    ],
)
def test_who_passes(predicates: list, expected: list[int], span: range, lookups: int) -> None:
    matcher = Matcher(all_kinds())
    filter = Filter(tuple(Predicate(*predicate) for predicate in predicates))
    for _ in range(lookups):
        rows = matcher.rows(filter, span)
    assert rows.tolist() == [row for row in expected if row in span]


def test_no_number_is_beyond_the_largest() -> None:
    ends = [2**63 - 1, -(2**63), 0]
    matcher = Matcher(RowAttributes({"n": RowAttribute("n", "integer", np.array(ends))}, 3, "mark"))
    for _ in range(SORTED_AFTER + 2):
        assert not len(matcher.rows(Filter((Predicate("n", ">", ends[0]),)), range(3)))
        assert not len(matcher.rows(Filter((Predicate("n", "<", ends[1]),)), range(3)))
        assert matcher.rows(Filter((Predicate("n", ">=", ends[0]),)), range(3)).tolist() == [0]


def test_matches_are_counted_for_each_query() -> None:
    filters = [below(3), below(0), below(3), below(9)]
    assert count_matches(grouped(filters), column(np.arange(5)), 4).tolist() == [3, 0, 3, 5]
