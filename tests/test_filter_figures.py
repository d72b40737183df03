"""Figures of filtered queries by hand, and which rows pass: against Python's own comparison of each row."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ann_benchmarks.algorithms.bruteforce.module import ExactScan
from ann_benchmarks.data.filters import Filter, Predicate, RowAttribute, RowAttributes, passing
from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.comparable import Comparison, comparable, conditions, least_memory
from ann_benchmarks.results.measurement import Measurement
from ann_benchmarks.results.metrics import compute_all
from ann_benchmarks.results.truth import Truth
from ann_benchmarks.views.memory import needs

from .report_data import make_run

INF = math.inf
ATTRS = {"count": 3, "best_search_time": 0.001, "run_count": 1, "distance": "euclidean"}
# Of 3 requested rows, the queries have 3 or more, 2, 1 and no matches.
TRUE = np.array([[1, 2, 3, 4], [1, 2, INF, INF], [5, INF, INF, INF], [INF] * 4])


def figures(found, distance="euclidean", true=TRUE):
    m = Measurement(Truth(true, True), np.array(found), np.full(4, 1e-3), {**ATTRS, "distance": distance})
    return compute_all(m)


def test_recall_and_completeness_count_the_rows_that_there_are():
    every = [[1, 2, 3], [1, 2, INF], [5, INF, INF], [INF] * 3]
    exact = figures(every)
    assert [exact[name] for name in ("recall", "epsilon", "largeepsilon", "completeness")] == [1, 1, 1, 1]
    assert exact["short"] == 0 and exact["rel"] == pytest.approx((6 + 3 + 5) / (10 + 3 + 5))
    # 3 rows of which 2 are right; 1 of 2; none of 1; none of none.
    some = figures([[1, 2, 9], [1, INF, INF], [INF] * 3, [INF] * 3])
    assert some["recall"] == pytest.approx((2 / 3 + 1 / 2 + 0 + 1) / 4)
    assert some["completeness"] == pytest.approx((1 + 1 / 2 + 0 + 1) / 4)
    assert some["short"] == 2 / 4 and some["rel"] == INF


@pytest.mark.filterwarnings("error")
def test_inner_products_under_filters():
    true = np.sort(np.where(np.isfinite(TRUE), -TRUE, INF), axis=1)
    values = figures(np.where(np.isfinite(true[:, :3]), true[:, :3], INF), "ip", true)
    assert [values[name] for name in ("recall", "epsilon", "largeepsilon", "completeness")] == [1, 1, 1, 1]


def test_without_a_filter_an_infinite_distance_means_what_it_did():
    of = Measurement(Truth(TRUE[:1]), np.array([[1, 2, INF]]), np.array([1e-3]), ATTRS)
    values = compute_all(of)
    assert values["recall"] == 2 / 3 and math.isnan(values["completeness"]) and math.isnan(values["short"])


def test_strategies_are_compared_under_one_filter():
    plain = make_run("a")
    runs = [
        replace(plain, series=Series(name, filter=filter, post_filter=post))
        for name, filter, post in (("a", "x:1", None), ("a", "x:1", 3.0), ("a", "x:2", None))
    ]
    assert comparable([plain, *runs]) == [plain]
    assert comparable(runs) == runs
    assert conditions(runs[0]) == conditions(runs[1]) != conditions(runs[2])
    assert [run.series.family for run in runs] == ["a", "a-post3", "a"]


@pytest.mark.parametrize(
    ("field", "words"), [("filter", "under the filter"), ("payload", "with the payload")]
)
def test_memory_is_compared_under_one_filter_and_with_one_payload(field, words):
    def under(run, value):
        return replace(run, series=run.series.replaced(**{field: value}))

    few = [make_run(rates=(900.0, 901.0, 899.0)), make_run(rates=(100.0, 101.0, 99.0), ram=4)]
    many = [make_run(rates=(102.0, 101.0, 103.0)), make_run(rates=(100.0, 101.0, 99.0), ram=2)]
    runs = [*(under(run, "few") for run in few), *(under(run, "many") for run in many)]
    found = {need.algorithm: need for need in needs(runs, 0.9)}
    assert [*found] == [f"hnsw {words} few", f"hnsw {words} many"]
    assert found[f"hnsw {words} few"].perhaps is None  # a ninth of the speed is left
    assert found[f"hnsw {words} many"].perhaps == 2 << 30
    scarce = least_memory(runs, 0.9, Comparison(1, runs[:1], 0.9))
    assert scarce is not None and {getattr(run.series, field) for run in scarce.runs} == {"few"}


def attributes(rows=300, seed=5):
    random = np.random.default_rng(seed)
    sets = [np.unique(random.integers(0, 9, random.integers(0, 6))) for _ in range(rows)]
    texts = np.array([["", "rot", "grün", "it's"][i] for i in random.integers(0, 4, rows)], dtype=object)
    found = {
        "number": RowAttribute("number", "integer", random.integers(0, 10, rows)),
        "word": RowAttribute("word", "text", texts),
        "tags": RowAttribute(
            "tags", "labels", np.concatenate(sets).astype(np.int32), np.cumsum([*map(len, sets)])
        ),
    }
    plain = {"number": found["number"].values.tolist(), "word": texts.tolist(), "tags": [*map(set, sets)]}
    return RowAttributes(found, rows, "mark"), plain


def holds(predicate, value):
    """Whether a predicate holds for a value, in Python's words."""
    column, operator, given = predicate.column, predicate.operator, predicate.value
    if column == "tags":
        return bool(value & set(given)) if operator == "in" else set(given) <= value
    return {
        "=": lambda: value == given,
        "<": lambda: value < given,
        "<=": lambda: value <= given,
        ">": lambda: value > given,
        ">=": lambda: value >= given,
        "in": lambda: value in given,
    }[operator]()


SHAPES = {
    "stretch": lambda i: [Predicate("number", ">=", i % 7), Predicate("number", "<", i % 7 + 2)],
    "one of": lambda i: [Predicate("number", "in", (i % 10, 3))],
    "compared": lambda i: [Predicate("number", "<=", i % 10), Predicate("word", ">", "it's")],
    "word": lambda i: [Predicate("word", "=", ["", "rot", "grün", "it's", "blau"][i % 5])],
    "words": lambda i: [Predicate("word", "in", ("rot", ["", "it's"][i % 2]))],
    "labels": lambda i: [Predicate("tags", "contains", (i % 9,) if i % 2 else (i % 9, (i + 4) % 9))],
    "any label": lambda i: [Predicate("tags", "in", (i % 9, (i + 4) % 9, 20))],
    "both": lambda i: [Predicate("tags", "contains", (i % 9,)), Predicate("number", "=", i % 10)],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_pass_or_not(shape):
    columns, plain = attributes()
    filters = [Filter(tuple(SHAPES[shape](i))) for i in range(40)]
    rows = np.random.default_rng(2).integers(-1, 300, (40, 25))
    expected = [
        [row < 0 or all(holds(p, plain[p.column][row]) for p in one.predicates) for row in line]
        for one, line in zip(filters, rows, strict=True)
    ]
    assert passing(columns, filters, rows).tolist() == expected
    assert passing(columns, filters, rows[:, :0]).shape == (40, 0)


@pytest.mark.parametrize("metric", ["euclidean", "angular", "ip"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_exact_scan_answers_filtered_queries(metric, shape):
    columns, plain = attributes()
    random = np.random.default_rng(3)
    train, queries = random.normal(size=(300, 6)), random.normal(size=(12, 6))
    scan = ExactScan(metric)
    scan.set_row_attributes(columns)
    scan.fit(train)
    inner = queries @ train.T
    distances = {
        "euclidean": ((queries[:, None] - train[None]) ** 2).sum(2),
        "angular": -inner / np.linalg.norm(train, axis=1),
        "ip": -inner,
    }[metric]
    for number, vector in enumerate(queries.astype(np.float32)):
        one = Filter(tuple(SHAPES[shape](number)))
        rows = [i for i in range(300) if all(holds(p, plain[p.column][i]) for p in one.predicates)]
        expected = sorted(rows, key=lambda i: distances[number, i])[:10]
        assert scan.filtered_query(vector, one, 10).tolist() == expected
