"""The connections that send a plug-in's queries: one session, many clients or a batch, never two of them."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from . import machine
from .clients import ClientPool, ClientRun, RestingClients
from .errors import PostgresError
from .fitting import IndexedTable
from .session import QuerySession, SessionFacts
from .statement import QueryStatement


class Querying:
    """Queries on one table, with the settings of the point that is measured."""

    def __init__(self, indexed: IndexedTable) -> None:
        """Take the table with its index; nothing is connected yet."""
        self._indexed = indexed
        self.settings: Mapping[str, str] = {}
        self._rerank: int | None = None
        self._session: QuerySession | None = None
        self._count = 0  # neighbours that the session's statement returns
        self._clients: ClientPool | None = None
        self._resting = RestingClients()
        self._batch: list[ClientRun] = []
        self._facts: dict[str, Any] = {}

    def use(self, settings: Mapping[str, Any], rerank: int | None) -> None:
        """Apply settings to all queries from now on; with `rerank`, sort this number of candidates again."""
        self.settings = {name: str(value) for name, value in settings.items()}
        self._rerank = rerank
        self.close()

    def statement(self, dimension: int, n: int) -> QueryStatement:
        """Return the query for the n nearest rows."""
        if self._rerank is not None and self._rerank < n:
            raise PostgresError(
                f"re-ranking {self._rerank} candidates cannot give {n} neighbours: re-rank {n} or more"
            )
        return self._indexed.statement(dimension, int(n), self.settings, self._rerank)

    def session_for(self, q: np.ndarray[Any, Any], n: int) -> QuerySession:
        """Return the session for the n nearest rows; `q` is a vector to check the plan with."""
        if self._session is None or n != self._count:
            self.close()
            self._session = QuerySession(self.statement(len(q), n), q)
            self._count = n
        return self._session

    def open_clients(self, X: np.ndarray[Any, Any], n: int, clients: int, **how: Any) -> Any:
        """Start this number of clients, each a process with a connection, for queries of the rows of X."""
        self.close()
        statement = self.statement(X.shape[1], n)
        if how.get("driver") == "pgbench":
            from .clients.pgbench import (
                PgbenchClients,
                PgbenchProgram,
                find_pgbench,
            )  # which others do not need

            server = self._indexed.server
            program = PgbenchProgram(find_pgbench(server.programs), server.account)
            opened: Any = PgbenchClients(statement, X, clients, program, how.get("skew"))
        else:
            opened = self._resting.open(statement, X, clients)
        if opened.members:
            self._facts = _facts(opened.members[0])
        return opened

    def clients_opener(self, X: np.ndarray[Any, Any], n: int) -> Callable[[int], ClientPool]:
        """Return what starts a number of clients on another machine."""
        self.close()
        return partial(ClientPool, self.statement(X.shape[1], n), X)

    def prepare_batch(self, X: np.ndarray[Any, Any], n: int) -> None:
        """Start a client for each core, which are to share the rows of X out."""
        self.close()
        clients = min(machine.cores(), len(X))
        self._clients = self.open_clients(X, n, clients)
        self._clients.prepare([np.arange(i, len(X), clients) for i in range(clients)])

    def run_batch(self) -> None:
        """Run all queries, each client its own one after the other."""
        assert self._clients is not None
        self._batch = []
        self._clients.run()

    def batch(self) -> list[ClientRun]:
        """Return what each client measured in the last batch."""
        if not self._batch:
            assert self._clients is not None
            self._batch = self._clients.answers()
        return self._batch

    def facts(self) -> dict[str, Any]:
        """Return the settings and the plan of the last sessions, as JSON."""
        if self._session is not None:
            self._facts = _facts(self._session.facts())
        return self._facts

    def flush_statistics(self) -> None:
        """Have the server count what the session has done; clients do so themselves."""
        if self._session is not None:
            self._session.flush_statistics()

    def close(self) -> None:
        """End the sessions; the processes of clients rest."""
        if self._session is not None:
            self._session.close()
        if self._clients is not None:
            self._clients.close()
        self._session, self._clients = None, None

    def end(self) -> None:
        """End the sessions and the processes."""
        self.close()
        self._resting.end()


def _facts(session: SessionFacts) -> dict[str, Any]:
    return {"settings": json.dumps(session.settings), "plan": session.plan} if session.settings else {}
