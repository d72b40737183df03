"""One point under load: warmed up, its recall determined, its runs measured."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load.clients import open_clients
from ann_benchmarks.load.request import Load, Queue
from ann_benchmarks.load.samples import one_each
from ann_benchmarks.load.search import CLOSE_ENOUGH, highest_rate
from ann_benchmarks.load.spans import Measured, closed_loop, open_loop
from ann_benchmarks.load.warmup import WARMUP_RUN, Caches, Warmup, send_in_pieces, warm_up
from ann_benchmarks.plugin import Answers, Clients, client_facts

from .answers import completed
from .timed import Subject

PATIENCE_SHARE = 0.1  # of an open loop's time, for which queries that were due go on being sent after it
LEAST_PATIENCE = 1.0  # s
MOST_STEPS_DOWN = 30  # of 5%, from the highest rate that was found, until all runs keep the objective
MOST_REPEATED_TRIALS = 5  # of the search for it, where others took CPU
CLOSED_LOOP_SECONDS = 1.0  # enough to see what can be served; longer for the least number of queries
LEAST_ROUNDS = 5  # expected if runs are measured in rounds, one at a time
CLOSED_LOOP_QUERIES, MOST_CLOSED_LOOP_SECONDS = 4000, 10.0


class LoadedPoint:
    """The clients of one point, and what they have to do."""

    def __init__(self, subject: Subject, load: Load) -> None:
        """Nothing is started yet."""
        self.subject, self.load = subject, load
        self.monitor, self.queries = subject.monitor, subject.queries
        self._watch: Any = None  # of the server, as long as clients are there
        self._capacity: float | None = None  # queries a second of a closed loop; None: caches are to be cold
        self._runs_planned = 1
        self._caches, self._completes = Caches.UNKNOWN, True
        self._draws = 0  # of samples, each with a seed of its own
        self._started = math.nan  # s since 1970, of the last run

    def measure(
        self,
        warmup: Warmup,
        runs: Sequence[int],
        caches: Caches = Caches.UNKNOWN,
        completes: bool = True,
    ) -> list[Measured]:
        """Warm up and measure the runs of these numbers; each has an answer to every query that it has sent.

        Without a warm-up each run begins with cold caches. The number of a run draws its order of queries.
        `caches` is what the warm-up finds. With `completes`, what a run has not sent is answered afterwards;
        else it has no answer.
        """
        self._caches, self._completes = caches, completes
        if warmup.is_off:
            return self._completed(self._each(runs, self._cold_run), {"warmup": str(warmup)})
        with self._opened() as clients:
            facts = self._warm_up(clients, warmup)
            self._learn_capacity(clients)
            return self._completed(self._runs(clients, runs), facts, clients)

    @property
    def _is_turn(self) -> bool:
        """Whether other runs are measured in other turns."""
        return self._caches is not Caches.UNKNOWN

    def answers(self) -> np.ndarray:
        """Have all queries answered once, and return the ids, (queries, at least count)."""
        with self._opened() as clients:
            answers = self._answers_of(clients, np.arange(len(self.queries)))
        self._remember(answers)
        return answers

    def _cold_run(self, run: int) -> Measured:
        with self.monitor.phase("cool"):
            self.subject.plugin.cool()
        with self._opened() as clients, self.monitor.phase("measure"):
            return self._run(clients, run)

    def _runs(self, clients: Clients, runs: Sequence[int]) -> list[Measured]:
        self._runs_planned = max(len(runs), LEAST_ROUNDS if self._is_turn else 1)
        with self.monitor.phase("measure"):
            if self.load.objective is not None:
                return self._runs_within(clients, runs)
            return self._each(runs, partial(self._run, clients))

    def _runs_within(self, clients: Clients, runs: Sequence[int]) -> list[Measured]:
        """Measure at the highest rate at which the runs, taken together, keep the objective."""
        objective, closed = self.load.objective, self._capacity
        assert objective is not None and closed is not None

        def is_kept(*done: Measured) -> bool:
            answered = not any(run.facts["queries_unanswered"] for run in done)
            return answered and objective.is_kept(np.concatenate([run.times for run in done]))

        trial, repeats = 0, self.subject.repeats(MOST_REPEATED_TRIALS)

        def is_kept_at(rate: float) -> bool:
            nonlocal trial
            trial += 1
            bar.update()
            return is_kept(repeats.least_disturbed(partial(self._open, clients, rate, WARMUP_RUN + trial)))

        with tqdm(desc=f"rates for {objective}", unit="rate", leave=False, disable=self.subject.quiet) as bar:
            rate, trials = highest_rate(is_kept_at, closed)
        for step in range(MOST_STEPS_DOWN if rate is not None else 0):
            assert rate is not None
            below = rate / CLOSE_ENOUGH**step
            measured = self._each(runs, partial(self._open, clients, below))
            if is_kept(*measured):
                for run in measured:
                    run.facts.update(objective=str(objective), objective_trials=trials + step)
                return measured
        raise UserError(
            f"{objective} is not kept at any rate: a query by itself takes longer, or nearly so;"
            " allow more time"
        )

    def _learn_capacity(self, clients: Clients) -> None:
        """Measure what a closed loop gives, which tells how long an open one needs to begin."""
        if not self.load.is_open:
            return
        known, key = self.subject.capacities, f"{self.subject.plugin} {self.load.clients} {self.load.order}"
        if self._is_turn and key in known:
            self._capacity = known[key]
            return
        with self.monitor.phase("warm-up"):
            rate = self._closed_loop_rate(clients, CLOSED_LOOP_SECONDS)
            more = min(CLOSED_LOOP_QUERIES / rate, MOST_CLOSED_LOOP_SECONDS)
            rate = self._closed_loop_rate(clients, more) if more > CLOSED_LOOP_SECONDS else rate
        self._capacity = known[key] = rate

    def _closed_loop_rate(self, clients: Clients, seconds: float) -> float:
        order = replace(self.load, seconds=seconds).orders(len(self.queries), WARMUP_RUN)
        return 1 / self._closed(clients, order, seconds).seconds_per_query

    def _run(self, clients: Clients, run: int) -> Measured:
        if self.load.rate is not None:
            return self._open(clients, self.load.rate, run)
        return self._closed(clients, self.load.orders(len(self.queries), run), self.load.seconds)

    def _closed(self, clients: Clients, orders: list[np.ndarray], seconds: float | None) -> Measured:
        clients.prepare(orders, seconds)
        answers, facts = self._watched_run(clients)
        return self._answered(closed_loop(answers, facts), answers)

    def _open(self, clients: Clients, rate: float, run: int) -> Measured:
        queue = None if self._capacity is None else Queue(rate, self._capacity, self.load.clients)
        lead_in = least = 0.0
        if queue and self.load.objective is not None:  # an objective is not kept if a queue forgets slowly
            lead_in = min(queue.lead_in_seconds, self.load.run_seconds(len(self.queries), rate))
        elif queue:
            lead_in, least = queue.lead_in_seconds, queue.run_seconds(self._runs_planned)
        due, numbers = self.load.arrivals(len(self.queries), rate, run, lead_in, least)
        patience = max(PATIENCE_SHARE * (float(due[-1]) - lead_in), LEAST_PATIENCE)
        clients.prepare_arrivals(due, numbers, patience)
        answers, facts = self._watched_run(clients)
        facts |= {"rate": rate, **(queue.facts if queue else {})}
        return self._answered(open_loop(answers, due, patience, facts, lead_in), answers)

    def _watched_run(self, clients: Clients) -> tuple[Sequence[Answers], dict[str, Any]]:
        self._started = time.time()
        with self._watch.running():
            clients.run()
        answers = clients.answers()
        facts: dict[str, Any] = self._watch.facts(sum(len(given.numbers) for given in answers))
        return answers, facts | client_facts(clients)

    def _warm_up(self, clients: Clients, warmup: Warmup) -> dict[str, Any]:
        piece = 0

        def send_for(seconds: float) -> int:
            nonlocal piece
            piece += 1
            clients.prepare(self.load.orders(len(self.queries), WARMUP_RUN + piece), seconds, keeps_ids=False)
            clients.run()
            return sum(len(given.numbers) for given in clients.answers())

        def send_orders(orders: Sequence[np.ndarray]) -> None:
            clients.prepare(orders, None, keeps_ids=False)
            clients.run()
            clients.answers()

        def send(number: int) -> None:
            dealt = np.array_split(np.arange(number), self.load.clients)
            send_orders(
                [
                    self.load.numbers(len(self.queries), len(part), [WARMUP_RUN, client])
                    for client, part in enumerate(dealt)
                ]
            )

        def send_each() -> tuple[int, int]:
            number = self.load.clients
            queries = np.random.default_rng(WARMUP_RUN).permutation(self.load.sent(len(self.queries)))
            return send_in_pieces(queries, number, lambda part: send_orders(np.array_split(part, number)))

        with self.monitor.phase("warm-up"):
            run_seconds = partial(self.load.run_seconds, len(self.queries))
            return warm_up(warmup, send_for, send, run_seconds, self._caches, send_each)

    def _answers_of(self, clients: Clients, numbers: np.ndarray) -> np.ndarray:
        """Have these queries answered once, (numbers,); return all neighbours, -1 for the other queries."""
        with self.monitor.phase("answers"):
            clients.prepare(np.array_split(numbers, self.load.clients))
            clients.run()
        return self._neighbors_of(clients.answers())[0]

    def _neighbors_of(self, answers: Sequence[Answers]) -> tuple[np.ndarray, np.ndarray]:
        """Return an answer to each query, (queries, at least count), and whether there is one, (queries,)."""
        self._draws += 1
        ids, answered = one_each(answers, len(self.queries), self._draws)
        return self.subject.checked(ids), answered

    def _answered(self, run: Measured, answers: Sequence[Answers]) -> Measured:
        neighbors, answered = self._neighbors_of(answers)
        return replace(run, neighbors=neighbors, answered=answered, started=self._started)

    def _completed(
        self, runs: list[Measured], facts: dict[str, Any], clients: Clients | None = None
    ) -> list[Measured]:
        """Have the queries answered that a run has not sent, by `clients` if they are still there."""
        if self._completes:
            missing = np.flatnonzero(~np.array([run.answered for run in runs]).all(axis=0))
            others = self._known if len(missing) else None
            if len(missing) and others is None:
                with nullcontext(clients) if clients is not None else self._opened() as answering:
                    others = self._answers_of(answering, missing)
            runs = [completed(run, others) for run in runs]
            self._remember(runs[0].neighbors)
        return [replace(run, facts={**facts, **self.load.facts, **run.facts}) for run in runs]

    @property
    def _known(self) -> np.ndarray | None:
        """The answers to all queries that the same index gave under these query arguments, if it has."""
        return (self.subject.known_answers or {}).get(str(self.subject.plugin.query_arguments))

    def _remember(self, answers: np.ndarray) -> None:
        if self.subject.known_answers is not None:
            self.subject.known_answers[str(self.subject.plugin.query_arguments)] = answers

    def _each(self, runs: Sequence[int], measure: Callable[[int], Measured]) -> list[Measured]:
        repeats = self.subject.repeats(len(runs))
        quiet = self.subject.quiet
        numbers = tqdm(runs, desc=f"{self.subject.plugin}", unit="run", leave=False, disable=quiet)
        return [repeats.least_disturbed(partial(measure, number)) for number in numbers]

    @contextmanager
    def _opened(self) -> Iterator[Clients]:
        with self.monitor.phase("clients"):
            subject = self.subject
            opened = open_clients(subject.plugin, subject.queries, subject.count, self.load)
        with closing(opened) as clients, self.subject.watched() as self._watch:
            yield clients
