"""A table whose rows several servers hold: what IndexedTable is for one server."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import PostgresError
from ..index.building import BuildOptions, IndexHooks
from ..index.fitting import IndexedTable
from ..servers.extension import RequiredExtension
from ..session.statement import QueryStatement
from ..table import Column
from ..table.tables import fingerprint
from . import SeveralWatch, load
from .shard import Engine, Neighbors, Shard, ShardRows

# The module and the class of each engine, which is imported when it is chosen.
ENGINES = {
    "client": "scattered.ClientEngine",
    "citus": "citus.CitusEngine",
}
# Facts that all shards have a part of.
_SUMMED = (
    "build_time", "load_time", "index_build_time", "index_size", "table_size", "estimated_index_size",
    "clustering_time", "graph_overflow_rows",
)  # fmt: skip
_COMMON = ("index_reused", "caches_dropped")  # facts that hold where they hold of every shard
_BUILT = ("load", "build")  # phases that say something


class ShardedTable(IndexedTable):
    """The shards with their indexes, made one after the other, and the engine that asks all.

    While a shard is made, it is what the plug-in sees, which knows no shards.
    """

    def __init__(
        self,
        extension: RequiredExtension,
        metric: str,
        hooks: IndexHooks,
        count: int,
        engine: str,
        most: int = 0,
    ) -> None:
        """Take what the plug-in describes, and the arguments of its set_servers; nothing is started yet.

        Each server has the memory of one of `most`.
        """
        super().__init__(extension, metric, hooks)
        self._engine: Engine = load(ENGINES[engine])(extension)
        self._shards = [
            Shard(extension, metric, hooks, (number, count), max(count, most), self._engine.prepare)
            for number in range(1, count + 1)
        ]
        for shard in self._shards:
            shard.enter_phase = self._announcing(shard)
        self._current = self._shards[0]

    @property
    def current(self) -> IndexedTable:
        """The shard that is being made, or the first one."""
        return self._current

    def make(self, X: Any, column: Column, options: BuildOptions) -> None:
        count, rows = len(self._shards), X.shape[0]
        if rows < count:
            raise PostgresError(f"{rows:,} rows for {count} shards: use fewer shards")
        self._engine.forget()
        mark = fingerprint(X)
        own = [ShardRows(X, place, count, mark) for place in range(count)]
        self._facts = {"shard_rows": [len(part) for part in own]}
        for shard, part in zip(self._shards, own, strict=True):
            with self._enter_shard(shard):
                shard.make(part, column, options)
        self._open()

    def statement(self, q: Any, n: int, settings: Mapping[str, str], rerank: int | None) -> QueryStatement:
        each = [shard.statement(q, n, settings, rerank) for shard in self._shards]
        neighbors = Neighbors(n, self._shards[0].form, self._metric, each[0].column, rerank)
        return self._engine.statement(self._shards, each, neighbors)

    @property
    def session_settings(self) -> Mapping[str, str]:
        return self._shards[0].session_settings

    @property
    def index_kib(self) -> float:
        return sum(shard.index_kib for shard in self._shards)

    def watch(self, flush: Callable[[], None]) -> SeveralWatch:
        coordinator = self._engine.watch(flush)
        other = ("coordinator", coordinator) if coordinator else None
        return SeveralWatch([shard.watch(flush) for shard in self._shards], other, is_asked=True)

    def facts(self) -> dict[str, Any]:
        """Return what is stored: sums of what all shards have, what holds of all, and facts of the first."""
        each = [shard.facts() for shard in self._shards]
        known = {name for facts in each for name in facts}
        common: dict[str, Any] = {
            name: sum(facts[name] for facts in each if name in facts) for name in _SUMMED if name in known
        }
        common |= {name: all(facts.get(name) for facts in each) for name in _COMMON if name in known}
        notices = [
            f"shard {number}: {text}"
            for number, facts in enumerate(each, 1)
            for text in facts.get("build_notices", ())
        ]
        common |= {"build_notices": notices} if notices else {}
        common["shard_build_times"] = [facts["build_time"] for facts in each]
        return {**each[0], **common, **self._facts, **self._engine.facts}

    def cool(self) -> None:
        """Stop the shards and drop their files from the system's cache; a coordinator has no rows."""
        for shard in self._shards:
            with self._enter_shard(shard):
                shard.cool()

    def resume(self) -> bool:
        is_pushed_out = False
        for shard in self._shards:
            with self._enter_shard(shard):
                is_pushed_out |= shard.resume()
        self._open()
        return is_pushed_out

    def recover(self) -> None:
        for shard in self._shards:
            with self._enter_shard(shard):
                shard.recover()
        self._engine.revive()
        self._open()

    def release(self) -> None:
        self._engine.close()
        for shard in self._shards:
            shard.release()

    def _open(self) -> None:
        self._current = self._shards[0]
        self._engine.open(self._shards, self._current.column)

    @contextmanager
    def _enter_shard(self, shard: Shard) -> Iterator[None]:
        """Have this shard be what the plug-in sees, and what errors name."""
        self._current = shard
        with shard.naming():
            yield

    def _announcing(self, shard: Shard) -> Callable[[str], object]:
        """Return what says which shard is made, before anything is said of it."""
        announced: list[str] = []

        def entered(phase: str) -> None:
            if phase in _BUILT and not announced:
                announced.append(phase)
                print(f"{shard.title}:", flush=True)
            self.enter_phase(phase)

        return entered
