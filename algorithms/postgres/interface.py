"""What ann-benchmarks and this project's framework call, each carried out by the part that it concerns.

base/module.py describes what the methods are for.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.module import BaseANN
from .chunks import LoadOptions
from .clients import ClientPool
from .fitting import BuildOptions, IndexedTable
from .querying import Querying
from .session import QuerySession
from .watching import PostgresStatistics, ServerWatch
from .writing import WritableTable


class PostgresInterface(BaseANN):  # type: ignore[misc, unused-ignore]
    """A table with its index, and the connections that query it, as a plug-in."""

    column_type: str  # of the table
    streams_training_set = True
    drivers = ("pgbench",)  # other programs that can make the load

    def __init__(self, indexed: IndexedTable) -> None:
        """Take the table, which is not there before fit."""
        self._indexed = indexed
        self._querying = Querying(indexed)
        self._build_options = BuildOptions()
        self._statistics: PostgresStatistics | None = None

    # Methods that ann-benchmarks has

    def fit(self, X: Any) -> None:
        """Load the vectors and build the index, unless both are there from an earlier run."""
        self.done()
        self._indexed.make(X, self.column_type, self._build_options)

    def prepare_query(self, q: np.ndarray[Any, Any], n: int) -> None:
        """Encode the vector, which is the client's work and not the server's."""
        session = self._session_for(q, n)
        self._parameter = session.encode(q)
        self._run, self._decode = session.run, session.ids

    def run_prepared_query(self) -> None:
        """Send it and wait for the answer: what is timed."""
        self._result = self._run(self._parameter)

    def get_prepared_query_results(self) -> list[int]:
        """Decode the answer."""
        return self._decode(self._result)

    def query(self, q: np.ndarray[Any, Any], n: int) -> list[int]:
        """Encode, run and decode one query."""
        self.prepare_query(q, n)
        self.run_prepared_query()
        return self.get_prepared_query_results()

    def prepare_batch_query(self, X: np.ndarray[Any, Any], n: int) -> None:
        """Start a client for each core, each a process with a connection."""
        self._querying.prepare_batch(X, n)

    def run_batch_query(self) -> None:
        """Run all queries, which the clients share out: what is timed."""
        self._querying.run_batch()

    def batch_query(self, X: np.ndarray[Any, Any], n: int) -> None:
        """Prepare and run in one."""
        self.prepare_batch_query(X, n)
        self.run_batch_query()

    def get_batch_results(self) -> list[list[int]]:
        """Return the ids of each query of the last batch."""
        runs = self._querying.batch()
        ids = {
            number: [id for id in found if id >= 0]
            for run in runs
            for number, found in zip(run.sampled.tolist(), run.ids.tolist(), strict=True)
        }
        return [ids[number] for number in range(len(ids))]

    def get_batch_latencies(self) -> np.ndarray[Any, Any]:
        """Return the seconds of each query of the last batch."""
        runs = self._querying.batch()
        latencies = np.empty(sum(len(run.numbers) for run in runs))
        for run in runs:
            latencies[run.numbers] = run.answered - run.sent
        return latencies

    def get_memory_usage(self) -> float:
        """Size of the index in KiB, 0 before it is built."""
        return self._indexed.index_kib

    def get_additional(self) -> dict[str, Any]:
        """Return what is stored with the measurements: versions, settings, sizes, parts of the build time."""
        return self._indexed.facts() | self._querying.facts()

    def done(self) -> None:
        """Close the connections; the server runs on for the next definition."""
        self._querying.end()
        self._indexed.release()

    # Additions

    def set_load_options(self, threads: int | None = None, chunk_rows: int | None = None) -> None:
        """Load over `threads` connections, `chunk_rows` in a transaction; None: as in the environment."""
        self._build_options = replace(self._build_options, load=LoadOptions(threads, chunk_rows))

    def set_build_options(self, rebuild: bool, prewarm: bool = True) -> None:
        """Build the index anew although one is there, and leave it cold if its start is to be measured so."""
        self._build_options = replace(self._build_options, rebuilds=rebuild, prewarms=prewarm)

    def serve_only(self) -> None:
        """Find the index, however much memory it was built with, and build none."""
        self._build_options = replace(self._build_options, only_serves=True)

    def set_phase_listener(self, enter: Callable[[str], object]) -> None:
        """Have `enter` called with the name of each phase of fit."""
        self._indexed.enter_phase = enter

    def open_writable(
        self, X: Any, rows: int, has_key: bool = False, autovacuum: bool = False
    ) -> WritableTable:
        """In place of fit, make a table to write to, which is dropped when it is closed.

        The index is made for `rows`; X has the first of them, perhaps none. With `has_key`, rows can be
        found by their id.
        """
        self.done()
        options = self._build_options
        return self._indexed.make_writable(X, rows, self.column_type, has_key, autovacuum, options)

    def time_queries(self, X: np.ndarray[Any, Any], n: int) -> tuple[np.ndarray[Any, Any], list[list[int]]]:
        """Run all queries, one after the other; return the seconds and the ids of each."""
        return self._session_for(X[0], n).time_queries(X)

    def open_clients(self, X: np.ndarray[Any, Any], n: int, clients: int, **how: Any) -> Any:
        """Start this number of clients for queries of the rows of X; `how` may name another driver."""
        return self._querying.open_clients(X, n, clients, **how)

    def clients_opener(self, X: np.ndarray[Any, Any], n: int) -> Callable[[int], ClientPool]:
        """Return what starts a number of clients on another machine."""
        return self._querying.clients_opener(X, n)

    def watch_server(self) -> ServerWatch:
        """Return what observes the server during a run."""
        table, index = self._indexed.names()
        assert table is not None
        return ServerWatch(self._indexed.server, table, index, self._querying.flush_statistics)

    def open_monitor(self) -> PostgresStatistics:
        """Return what samples the server's statistics, once it is started."""
        self._statistics = PostgresStatistics(
            lambda: getattr(self._indexed, "server", None), self._indexed.names
        )
        return self._statistics

    def cool(self) -> None:
        """Have the next query find nothing in memory: a server of ours is restarted, its files uncached."""
        self.done()
        self._indexed.cool()
        self.recover()

    def recover(self) -> None:
        """Be ready for the next point after one has failed, for whatever reason."""
        self.done()
        self._indexed.server.revive()
        if self._statistics is not None:
            self._statistics.revived()
        self._indexed.recover()

    def _session_for(self, q: np.ndarray[Any, Any], n: int) -> QuerySession:
        return self._querying.session_for(q, n)
