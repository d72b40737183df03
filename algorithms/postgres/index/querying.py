"""How a plug-in is queried: by one session, many clients or a batch, never two of them.

base/module.py describes what the methods are for.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...base.module import BaseANN
from ..clients.pool import ClientPool
from ..clients.work import ClientRun
from ..environment import use_settings
from ..errors import PostgresError
from ..servers import machine
from ..session.session import QuerySession, SessionFacts, open_session
from ..session.statement import QueryStatement, explained
from .fitting import IndexedTable


class QueriedTable(BaseANN):  # type: ignore[misc, unused-ignore]
    """Queries on one table, with the settings of the point that is measured."""

    def __init__(self, indexed: IndexedTable) -> None:
        self._indexed = indexed
        self._contender_settings: Mapping[str, str] = {}
        self._query_settings: Mapping[str, str] = {}
        self._rerank: int | None = None
        self._session: QuerySession | None = None
        self._session_count = 0  # neighbours that the session's statement returns
        self._session_facts: dict[str, Any] = {}
        self._clients: ClientPool | None = None
        self._pool: ClientPool | None = None  # perhaps at rest
        self._batch: list[ClientRun] = []
        self._filtered: dict[int, Any] = {}  # queries with a filter that were sent, each object once
        self._plans: dict[str, Any] = {}  # what is stored of their plans

    def use_settings(self, settings: Mapping[str, str]) -> None:
        """Have the server and all sessions of this index run with these settings, when it is its turn."""
        self._contender_settings = dict(settings)
        use_settings(self._contender_settings)

    def set_query_settings(self, settings: Mapping[str, Any], rerank: int | None = None) -> None:
        """Apply settings to all queries from now on; the plan is made and checked anew.

        With `rerank`, the index finds this number of candidates, which are sorted by their exact distances.
        """
        if name := next((name for name in settings if name in self._contender_settings), None):
            raise PostgresError(f"{name} is a query argument of this index: leave it out of --setting")
        self._query_settings = {name: str(value) for name, value in settings.items()}
        self._rerank = rerank
        self._forget_plans()
        self.end_sessions()

    @property
    def query_settings(self) -> Mapping[str, str]:
        """The settings of all queries now, written as PostgreSQL reads them."""
        return self._query_settings

    def statement(self, q: Any, n: int) -> QueryStatement:
        """Return the query for the n nearest rows; `q` is one of many."""
        if self._rerank is not None and self._rerank < n:
            raise PostgresError(
                f"re-ranking {self._rerank} candidates cannot give {n} neighbours: re-rank {n} or more"
            )
        return self._indexed.statement(q, int(n), self._query_settings, self._rerank)

    # One query after the other

    def prepare_query(self, q: Any, n: int) -> None:
        """Encode the query, which is the client's work and not the server's."""
        session = self._session_for(q, n)
        self._parameters = session.encode(q)
        self._run, self._decode = session.run, session.ids
        if session.has_filter:
            self._explain_later([q])

    def run_prepared_query(self) -> None:
        """Send it and wait for the answer: what is timed."""
        self._result = self._run(self._parameters)

    def get_prepared_query_results(self) -> list[int]:
        """Decode the answer."""
        return self._decode(self._result)

    def query(self, q: Any, n: int) -> list[int]:
        """Encode, run and decode one query."""
        self.prepare_query(q, n)
        self.run_prepared_query()
        return self.get_prepared_query_results()

    def time_queries(self, X: Sequence[Any], n: int) -> tuple[np.ndarray[Any, Any], list[list[int]]]:
        """Run all queries, one after the other; return the seconds and the ids of each."""
        session = self._session_for(X[0], n)
        measured = session.time_queries(X)
        if session.has_filter:
            self._explain_later(X)
        return measured

    # Many at the same time

    def open_clients(self, X: Sequence[Any], n: int, clients: int) -> ClientPool:
        """Start this number of clients, each with a connection, for the queries X."""
        statement, pool = self._statement_of_clients(X, n), self._pool
        # The processes of the last point's clients are used again.
        if pool is not None and not pool.members and len(pool) == clients and pool.queries is X:
            pool.connect(statement)
        else:
            self._end_pool()
            pool = self._pool = ClientPool(statement, X, clients, rests=True)
        if pool.members:
            self._indexed.check_sessions(pool.members)
            self._session_facts = _facts(pool.members[0])
        return pool

    def prepare_batch_query(self, X: Sequence[Any], n: int) -> None:
        """Start a client for each core, which are to share the rows of X out."""
        clients = min(machine.cores(), len(X))
        self._clients = self.open_clients(X, n, clients)
        self._clients.prepare([np.arange(i, len(X), clients) for i in range(clients)])

    def run_batch_query(self) -> None:
        """Run all queries, each client its own one after the other: what is timed."""
        assert self._clients is not None
        self._batch = []
        self._clients.run()

    def batch_query(self, X: Sequence[Any], n: int) -> None:
        """Prepare and run in one."""
        self.prepare_batch_query(X, n)
        self.run_batch_query()

    def get_batch_results(self) -> list[list[int]]:
        """Return the ids of each query of the last batch."""
        ids = {
            number: [row for row in found if row >= 0]
            for run in self._batch_runs()
            for number, found in zip(run.sampled.tolist(), run.ids.tolist(), strict=True)
        }
        return [ids[number] for number in range(len(ids))]

    def get_batch_latencies(self) -> np.ndarray[Any, Any]:
        """Return the seconds of each query of the last batch."""
        runs = self._batch_runs()
        latencies = np.empty(sum(len(run.numbers) for run in runs))
        for run in runs:
            latencies[run.numbers] = run.answered - run.sent
        return latencies

    # Afterwards

    def get_additional(self) -> dict[str, Any]:
        """Return what is stored with the measurements: facts of the table, settings and plan of a session."""
        if self._session is not None:
            self._session_facts = _facts(self._session.facts()) | self._session.payload.facts()
        return self._indexed.facts() | self._session_facts | self._plan_facts()

    def flush_statistics(self) -> None:
        """Have the server count what the session has done; clients do so themselves."""
        if self._session is not None:
            self._session.flush_statistics()

    def end_sessions(self) -> None:
        """End the sessions; the processes of clients rest."""
        if self._session is not None:
            self._session.close()
        if self._clients is not None:
            self._clients.close()
        self._session, self._clients = None, None

    def done(self) -> None:
        """End the sessions and the processes, and let other runs use the table; the server runs on."""
        self.end_sessions()
        self._end_pool()
        self._indexed.release()

    def _end_pool(self) -> None:
        if self._pool is not None:
            self._pool.end()
        self._pool = None

    def _statement_of_clients(self, X: Sequence[Any], n: int) -> QueryStatement:
        """Return what clients are to send, in place of the session."""
        self.end_sessions()
        statement = self.statement(X[0], n)
        self._forget_plans()
        if statement.has_filter:
            self._explain_later(X)
        self._session_count = n
        return statement

    def _explain_later(self, queries: Sequence[Any]) -> None:
        """Have get_additional report the plans of these queries, too; they come in pieces, and again."""
        known = len(self._filtered)
        self._filtered |= {id(query): query for query in queries}
        if len(self._filtered) > known:
            self._plans = {}

    def _forget_plans(self) -> None:
        """Begin anew: what is sent from now on has other settings, or is another set."""
        self._filtered, self._plans = {}, {}

    def _plan_facts(self) -> dict[str, Any]:
        """Return what is stored of the plans of the last queries, and whether these have default settings.

        That is found out once, in a session of its own.
        """
        queries = explained(list(self._filtered.values()))
        if queries and not self._plans:
            session = open_session(self.statement(queries[0], self._session_count))
            try:
                chosen = (*self._indexed.session_settings, *self._query_settings)
                has_defaults = self._rerank is None and session.has_defaults(chosen)
                self._plans = {**session.plan_facts(queries), "has_default_settings": has_defaults}
            finally:
                session.close()
        return self._plans if queries else {}

    def _session_for(self, q: Any, n: int) -> QuerySession:
        """Return the session for the n nearest rows; `q` is a query to prepare and plan by."""
        if self._session is None or n != self._session_count or not self._session.takes(q):
            self.end_sessions()
            self._forget_plans()
            statement = self.statement(q, n)
            self._session = open_session(statement)
            self._session_count = n
        return self._session

    def _batch_runs(self) -> list[ClientRun]:
        """Return what each client measured in the last batch."""
        if not self._batch:
            assert self._clients is not None
            self._batch = self._clients.answers()
            self._session_facts |= self._clients.facts()
        return self._batch


def _facts(session: SessionFacts) -> dict[str, Any]:
    return {"settings": json.dumps(session.settings), "plan": session.plan} if session.settings else {}
