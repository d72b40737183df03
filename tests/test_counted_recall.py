"""The recall beside a throughput is that of the answers that were counted in it."""

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.clients.member import RawSample, own_places
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.load.request import Load, QueryOrder
from ann_benchmarks.load.samples import AnswerSample, ClientAnswers, one_each, padded, row_facts
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.measure.loaded_point import LoadedPoint
from ann_benchmarks.measure.timed import Subject
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.remarks import remarks

from .client_answers import made_answers
from .postgres_fixtures import clustered

pytestmark = pytest.mark.thorough

K = 5
OFF, FEW = Warmup("off"), Warmup("queries", 50)


def found_share(run: Measured) -> float:
    """The share of the neighbours that there were to find which a run's answers have."""
    return float(np.mean(run.neighbors[:, :K] >= 0))


class Failing(BaseANN):
    """Answers with the first rows, and with nothing after a number of queries."""

    def __init__(self, answers: int) -> None:
        self.left = answers

    def query(self, q: np.ndarray, n: int) -> list[int]:
        time.sleep(0.0002)
        self.left -= 1
        return list(range(n)) if self.left >= 0 else []


class Settable(Failing):
    """One that takes query arguments."""

    def set_query_arguments(self, depth: int) -> None:
        pass


def sampled(numbers: list[int], answers: dict[int, list[int]]) -> ClientAnswers:
    """A client that has sent queries of these numbers and kept these answers."""
    given = made_answers(numbers, np.arange(len(numbers)), np.arange(len(numbers)) + 0.5)
    weights = np.bincount(numbers)[[*answers]]
    return ClientAnswers(
        given.numbers, None, given.sent, given.answered, given.rows, np.array([*answers]),
        padded([*answers.values()]), weights, 0.0,
    )  # fmt: skip


def test_of_a_query_s_answers_each_is_kept_with_the_same_probability():
    kept = []
    for seed in range(4000):
        sample = AnswerSample(np.random.default_rng(seed).random)
        for answer in range(4):
            sample.note(7, [answer])
        numbers, ids, weights = sample.arrays()
        assert numbers.tolist() == [7] and weights.tolist() == [4]
        kept.append(int(ids[0, 0]))
    # Of 4,000 draws 1,000 are expected of each; 150 is more than five standard deviations.
    assert np.bincount(kept, minlength=4) == pytest.approx([1000] * 4, abs=150)


def test_a_client_that_has_sent_a_query_more_often_stands_for_more_answers():
    answers = [sampled([0, 0, 0, 1], {0: [10], 1: [11]}), sampled([0, 2], {0: [20], 2: [21, 22]})]
    draws = [one_each(answers, 4, seed) for seed in range(2000)]
    ids, answered = draws[0]
    assert answered.tolist() == [True, True, True, False]
    assert ids[1:].tolist() == [[11, -1], [21, 22], [-1, -1]]
    assert np.mean([ids[0, 0] == 10 for ids, _ in draws]) == pytest.approx(0.75, abs=0.05)


def test_the_rows_of_all_counted_answers_are_seen():
    first = made_answers([0, 1, 0], np.arange(3), np.arange(3), rows=[3, 2, 0])
    second = made_answers([1, 1], np.arange(2), np.arange(2), rows=[2, 1])
    facts = row_facts([first, second], [np.array([True, True, True]), np.array([True, False])])
    assert facts == {"candidates": 7 / 4, "answers_shortened": 1}


def test_the_clients_of_a_run_soon_have_sent_every_query_together():
    for load in (Load(8), Load(8, seconds=1.0)):
        orders = load.orders(1000, run=3)
        assert sorted(np.concatenate([order[:125] for order in orders])) == list(range(1000))
    assert all(sorted(order) == list(range(1000)) for order in orders)  # of a time: each client has them all


def test_a_plug_in_that_stops_answering_does_not_keep_its_recall():
    queries = np.zeros((100, 2), dtype=np.float32)
    subject = Subject(Plugin(Failing(110)), queries, K, rows=K)
    (run,) = LoadedPoint(subject, Load(2, seconds=0.5)).measure(OFF, range(1))
    assert run.facts["queries_answered_aside"] == 0
    assert found_share(run) < 0.5
    assert run.facts["candidates"] < 0.5 * K
    assert "had fewer rows than another one to the same query" in " ".join(remarks(run.facts))


def test_rows_that_go_while_a_run_is_measured_are_missing_in_its_recall(plugin_server: Server):
    train = clustered(2000, 8, seed=17)
    algorithm = PGVectorHNSW("euclidean", {"M": 4, "efConstruction": 16})
    algorithm.fit(train)
    algorithm.set_query_arguments(20)

    def empty() -> None:
        with plugin_server.connect() as connection:
            connection.execute(f"DELETE FROM {algorithm.table_name}")

    deleting = threading.Thread(target=empty)

    class Runs(list[int]):
        def __iter__(self) -> Iterator[int]:
            yield 0
            deleting.start()
            yield 1
            deleting.join()
            yield 2

    try:
        subject = Subject(Plugin(algorithm), train[:60], K, len(train))
        runs = LoadedPoint(subject, Load(2, seconds=1.0)).measure(FEW, Runs(range(3)))
        assert found_share(runs[0]) == 1.0
        assert found_share(runs[-1]) == 0.0
        assert runs[-1].facts["candidates"] == 0.0
        facts = runs[0].facts | {"run_recalls": [found_share(run) for run in runs]}
        assert "the recall was between 0 and 1 in its runs" in " ".join(remarks(facts))
    finally:
        with plugin_server.connect() as connection:
            connection.execute(f"DROP TABLE {algorithm.table_name}")
        algorithm.done()


def test_what_a_run_has_not_sent_is_answered_after_it():
    subject = Subject(Plugin(Failing(10**6)), np.zeros((100, 2), dtype=np.float32), K, rows=K)
    load = Load(1, max_queries=200, order=QueryOrder.parse("zipf:1.5"))
    for run in LoadedPoint(subject, load).measure(OFF, range(2)):
        assert 0 < run.facts["queries_answered_aside"] < 100
        assert found_share(run) == 1.0
        assert "were not given during the runs" in " ".join(remarks(run.facts))
    (run,) = LoadedPoint(subject, Load(3)).measure(OFF, range(1))
    assert run.facts["queries_answered_aside"] == 0
    assert "were not given during the runs" not in " ".join(remarks(run.facts))


def test_what_one_load_has_not_sent_is_known_from_another_at_the_same_query_arguments():
    algorithm, known = Settable(10**6), {}
    subject = Subject(Plugin(algorithm), np.zeros((100, 2), np.float32), K, rows=K, known_answers=known)
    few = Load(1, max_queries=10)

    def sent(load: Load, *arguments: int) -> int:
        subject.plugin.set_query_arguments(*arguments)
        before = algorithm.left
        (run,) = LoadedPoint(subject, load).measure(OFF, range(1))
        assert found_share(run) == 1.0
        assert run.facts["queries_answered_aside"] == 100 - min(before - algorithm.left, 10)
        return before - algorithm.left

    assert [sent(few, 1), sent(few, 1), sent(few, 2), sent(few, 2)] == [100, 10, 100, 10]
    LoadedPoint(subject, few).answers()  # as a search does, which asks in any case
    assert sent(few, 2) == 10 and [*known] == ["(1,)", "(2,)"]


def test_an_even_sample_has_all_answers_with_the_same_probability_and_own_ones_certainly():
    counts, handed_over, runs = np.zeros(200), 0, 1500
    for seed in range(runs):
        sample = RawSample(np.array([0, 3]), 10, seed)
        turn = sample.turn
        for place in range(200):
            if place == turn:
                turn = sample.keep(place, [place])
                handed_over += 1
        numbers, ids, weights = sample.arrays(200, int, list)
        even = numbers[2:].tolist()
        assert numbers.tolist() == ids[:, 0].tolist()
        assert numbers[:2].tolist() == [0, 3] and weights[:2].tolist() == [1.0] * 2
        assert weights[2:] == pytest.approx(200 / len(even))
        assert len(set(even)) == len(even) in (6, 7)  # of each 32, one
        counts[even] += 1
    # 47 are expected of each place; the standard deviation is 6.7.
    assert counts.mean() == pytest.approx(runs / 32, rel=0.02)
    assert counts.min() > runs / 32 - 36 and counts.max() < runs / 32 + 36
    assert handed_over / runs < 36


def test_the_first_of_all_clients_to_send_a_query_keeps_its_answer():
    places = own_places([np.array([4, 1, 2, 0]), np.array([1, 4, 3, 1]), np.array([], dtype=int)])
    assert [own.tolist() for own in places] == [[0, 2, 3], [0, 2], []]
    assert RawSample(np.array([], dtype=int), 0).turn == np.inf
