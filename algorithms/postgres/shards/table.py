"""A table whose rows several servers hold: what IndexedTable is for one server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg

from ..building import IndexHooks
from ..columns import Column, is_sparse
from ..errors import PostgresError, naming_shard
from ..extension import RequiredExtension
from ..servers import Server
from ..session import SessionFacts
from ..statement import QueryStatement
from ..table_indexes import BuildOptions
from ..tables import fingerprint
from ..watching import ServerWatch
from ..writing import WritableTable
from .at_once import by_host, make_at_once
from .coordinator import TABLE
from .dealing import CellDealer, Dealt, dealt_by_id
from .engines import ROUTED, Engine
from .rows import ShardRows
from .shard import Shard
from .watch import ShardsWatch

# Facts that all shards have a part of.
_SUMMED = (
    "build_time", "load_time", "index_build_time", "index_size", "table_size", "estimated_index_size",
    "clustering_time", "graph_overflow_rows",
)  # fmt: skip
_OF_ALL = ("index_reused", "caches_dropped")  # facts that hold where they hold of every shard
_BUILT = ("load", "build")  # phases that say something


class ShardedTable:
    """The shards with their indexes, made one after the other on each host, and the engine that asks all.

    While a shard is made, its server and connection are those of the table: a plug-in knows no shards.
    """

    def __init__(
        self,
        extension: RequiredExtension,
        metric: str,
        hooks: IndexHooks,
        count: int,
        engine: str,
        most: int = 0,
        probes: int | None = None,
    ) -> None:
        """Take what the plug-in describes; nothing is started yet. `most`, `probes`: as in its set_shards."""
        self._engine = Engine(engine, extension, metric)
        self._dealer = CellDealer(metric, count, probes) if engine == ROUTED else None
        self._facts: dict[str, Any] = {}  # of how the rows are dealt
        self._enter: Callable[[str], object] = lambda phase: None
        share = max(count, most)
        self._shards = [
            Shard(number, count, extension, metric, hooks, share) for number in range(1, count + 1)
        ]
        for shard in self._shards:
            shard.has_citus = self._engine.is_citus
        self._current = self._shards[0]

    def make(self, X: Any, column: Column, options: BuildOptions) -> None:
        """Load the vectors and build the indexes, unless they are there from an earlier run."""
        if options.attributes is not None or options.payload or is_sparse(X):
            raise PostgresError("shards have no attributes, payloads or sparse vectors: leave --shards out")
        count, rows = len(self._shards), X.shape[0]
        if rows < count:
            raise PostgresError(f"{rows:,} rows for {count} shards: use fewer shards")
        self._engine.forget()
        self._check_hosts()
        dealt = self._deal(X, column)
        self._engine.router, self._facts = dealt.router, dealt.facts
        rows_of = dict(zip(self._shards, dealt.rows, strict=True))
        are_reused: dict[int, bool] = {}
        hosts = by_host(self._shards)
        if len(hosts) > 1 and not options.only_serves:
            are_reused = self._make_at_once(hosts, rows_of, column, options)
            options = replace(options, rebuilds=False)
        for shard, own in rows_of.items():
            with self._at(shard):
                shard.make(own, column, options)
                shard.is_reused = are_reused.get(shard.number)
        self._current = self._shards[0]
        self._check_versions()
        self._open()

    def make_writable(self, *arguments: Any) -> WritableTable:
        """Raise PostgresError: there is none yet."""
        raise PostgresError("a table that is written to has no shards: leave --shards out")

    def statement(self, q: Any, n: int, settings: Mapping[str, str], rerank: int | None) -> QueryStatement:
        """Return the query for the n nearest rows, in sessions with these settings; `q` is one of many."""
        each = [shard.statement(q, n, settings, rerank) for shard in self._shards]
        return self._engine.statement(self._shards, each, n, rerank)

    # What a plug-in sees of the shard that is being made, or of the first one

    @property
    def server(self) -> Server:
        """The server of the shard."""
        return self._current.server

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection that its index is built or warmed over."""
        return self._current.connection

    @property
    def column(self) -> Column:
        """The column of its table."""
        return self._current.column

    @property
    def versions(self) -> dict[str, str]:
        """The versions that its index depends on."""
        return self._current.versions

    @property
    def training_set(self) -> Any:
        """The rows that its index is built from; None after the build."""
        return self._current.training_set

    def names(self) -> tuple[str | None, str | None]:
        """The names of its table and of its index, None before they are there."""
        return self._current.names()

    # All shards

    @property
    def session_settings(self) -> Mapping[str, str]:
        """What the user has set for the sessions."""
        return self._shards[0].session_settings

    @property
    def index_kib(self) -> float:
        """Size of all indexes in KiB."""
        return sum(shard.index_kib for shard in self._shards)

    @property
    def enter_phase(self) -> Callable[[str], object]:
        """What is called with each phase's name, again for every shard."""
        return self._shards[0].enter_phase

    @enter_phase.setter
    def enter_phase(self, enter: Callable[[str], object]) -> None:
        self._enter = enter
        for shard in self._shards:
            shard.enter_phase = _announcing(shard, enter)

    def check_clients(self, settings: Mapping[str, str], clients: int) -> None:
        """Nothing: there is one index a shard."""

    def check_sessions(self, sessions: Sequence[SessionFacts]) -> None:
        """Nothing: each has checked what all shards run with."""

    def watch(self, flush: Callable[[], None]) -> ShardsWatch:
        """Return what observes all servers in runs; `flush` has sessions flush their statistics after one."""
        watches = [shard.watch(flush) for shard in self._shards]
        coordinator = None
        if self._engine.coordinator is not None:
            coordinator = ServerWatch(self._engine.coordinator.server, TABLE, None, flush)
        return ShardsWatch(coordinator, watches)

    def facts(self) -> dict[str, Any]:
        """Return what is stored: sums of what all shards have, what holds of all, and facts of the first."""
        each = [shard.facts() for shard in self._shards]
        sums = {
            name: sum(facts[name] for facts in each if name in facts)
            for name in _SUMMED
            if any(name in facts for facts in each)
        }
        times = [facts["build_time"] for facts in each]
        common: dict[str, Any] = {
            name: all(facts.get(name) for facts in each)
            for name in _OF_ALL
            if any(name in facts for facts in each)
        }
        notices = [
            f"shard {shard.number}: {text}"
            for shard, facts in zip(self._shards, each, strict=True)
            for text in facts.get("build_notices", ())
        ]
        common |= {"build_notices": notices} if notices else {}
        if all("server_address" in facts for facts in each):
            common["server_address"] = ",".join(facts["server_address"] for facts in each)
        return each[0] | sums | common | {"shard_build_times": times} | self._facts | self._engine.facts

    def cool(self) -> None:
        """Stop the shards and drop their files from the system's cache; a coordinator has no rows."""
        for shard in self._shards:
            with self._at(shard):
                shard.cool()

    def resume(self) -> bool:
        """Have queries use these indexes; return whether others may have pushed one out of the caches."""
        are_pushed_out = False
        for shard in self._shards:
            with self._at(shard):
                are_pushed_out |= shard.resume()
        self._open()
        return are_pushed_out

    def recover(self) -> None:
        """Have all servers answer, reserve the tables again, and warm what the servers have lost."""
        for shard in self._shards:
            with self._at(shard):
                shard.recover()
        if self._engine.coordinator is not None:
            self._engine.coordinator.server.revive()
        self._open()

    def release(self) -> None:
        """Let other runs use the tables; the servers run on."""
        if self._engine.coordinator is not None:
            self._engine.coordinator.close()
        for shard in self._shards:
            shard.release()

    def _make_at_once(
        self,
        hosts: Sequence[Sequence[Shard]],
        rows_of: Mapping[Shard, ShardRows],
        column: Column,
        options: BuildOptions,
    ) -> dict[int, bool]:
        """Make the shards of several hosts at the same time; return whether each index was there before."""
        cold = replace(options, prewarms=False)  # which our own process sees to

        def make(shard: Shard) -> bool:
            self._current = shard
            shard.make(rows_of[shard], column, cold)
            return bool(shard.facts().get("index_reused"))

        return make_at_once(hosts, make, self._enter)

    def _deal(self, X: Any, column: Column) -> Dealt:
        mark, first = fingerprint(X), self._shards[0]
        if self._dealer is None:
            return dealt_by_id(X, mark, len(self._shards))
        with self._at(first):
            server = first.started()
        return self._dealer.deal(X, mark, column, server, lambda: first.enter_phase("cells"))

    def _open(self) -> None:
        self._current = self._shards[0]
        self._engine.open(self._shards, self.column)

    @contextmanager
    def _at(self, shard: Shard) -> Iterator[None]:
        """Have this shard be what the plug-in sees."""
        self._current = shard
        with naming_shard(shard.number, shard.count):
            yield

    def _check_hosts(self) -> None:
        """Have all servers that are not ours answer, with the same versions, before the first has rows."""
        found = []
        for shard in self._shards:
            with naming_shard(shard.number, shard.count):
                found.append(shard.versions_offered())
        self._check_same([versions for versions in found if versions])
        self._engine.check(self._shards)

    def _check_versions(self) -> None:
        self._check_same([shard.versions for shard in self._shards])

    def _check_same(self, versions: Sequence[Mapping[str, str]]) -> None:
        for number, of_shard in enumerate(versions, 1):
            if of_shard != versions[0]:
                one, other = (
                    ", ".join(f"{name} {version}" for name, version in each.items())
                    for each in (versions[0], of_shard)
                )
                raise PostgresError(
                    f"shard 1 has {one}, and shard {number} has {other}: use the same versions"
                )


def _announcing(shard: Shard, enter: Callable[[str], object]) -> Callable[[str], object]:
    """Return what says which shard is made, before anything is said of it."""
    announced: list[str] = []

    def entered(phase: str) -> None:
        if phase in _BUILT and not announced:
            announced.append(phase)
            print(f"shard {shard.number} of {shard.count}:", flush=True)
        enter(phase)

    return entered
