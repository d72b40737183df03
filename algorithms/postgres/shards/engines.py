"""What asks all shards for the rows that are nearest to a query."""

import json
from collections.abc import Sequence
from typing import Any

from ..columns import Column
from ..errors import PostgresError, naming_shard
from ..extension import RequiredExtension
from ..forms import RowSource, query_sql
from ..scattered import ScatteredStatement
from ..session import QuerySession
from ..statement import QueryStatement, changed
from .coordinator import TABLE, Coordinator
from .shard import Shard
from .sql import concurrent_sql, scattered_sql
from .statement import CoordinatorStatement, remote_scans

ENGINES = ("fdw", "fdw-naive", "client")


class Engine:
    """The statements that clients send, and the coordinator that they are sent to, where there is one."""

    def __init__(self, name: str, extension: RequiredExtension, metric: str) -> None:
        """Take one of ENGINES; nothing is started yet."""
        if name not in ENGINES:
            raise PostgresError(f"there is no shard engine '{name}': use {', '.join(ENGINES)}")
        self._metric, self._is_concurrent = metric, name == "fdw"
        self.coordinator = None if name == "client" else Coordinator(extension, self._is_concurrent)
        self.facts: dict[str, Any] = {}  # of the shards, for the last statement of a coordinator
        self._explained: Any = None  # that statement and its settings

    def open(self, shards: Sequence[Shard], column: Column) -> None:
        """Have the coordinator know the shards."""
        if self.coordinator is not None:
            for shard in shards:
                with naming_shard(shard.number, shard.count):
                    shard.make_views()
            self.coordinator.open(shards, column)

    def forget(self) -> None:
        """Begin anew, with other tables."""
        self.facts, self._explained = {}, None

    def statement(
        self, shards: Sequence[Shard], each: Sequence[QueryStatement], n: int, rerank: int | None
    ) -> QueryStatement:
        """Return the query for the n nearest rows; `each` is that of every shard."""
        form, how = shards[0].form, (n, self._metric, each[0].column, rerank)
        if self.coordinator is None:
            scattered = [
                changed(one, QueryStatement, sql=scattered_sql(_name(shard), form, *how))
                for shard, one in zip(shards, each, strict=True)
            ]
            return changed(scattered[0], ScatteredStatement, shards=tuple(scattered), count=n)
        if self._is_concurrent:
            sql = concurrent_sql(self.coordinator.parts, form, *how)
        else:
            sql = query_sql(RowSource(TABLE), form, *how)
        self.coordinator.use(each[0].settings, rerank or n)
        statement: CoordinatorStatement = changed(
            each[0],
            CoordinatorStatement,
            parameters=self.coordinator.server.connection_parameters(),
            sql=sql,
            index=None,
            views=tuple(self.coordinator.views),
            flushes=tuple(self.coordinator.flushes),
            shards=tuple(one.parameters for one in each),
            is_concurrent=self._is_concurrent,
        )
        if self._explained != (sql, statement.settings):
            self._explain(shards, self.coordinator.parts, statement)
        return statement

    def _explain(
        self, shards: Sequence[Shard], parts: Sequence[str], statement: CoordinatorStatement
    ) -> None:
        """Check how each shard answers what it is sent."""
        session = QuerySession(statement)
        try:
            scans = {
                str(scan["Relation Name"]): str(scan["Remote SQL"])
                for scan in remote_scans(json.loads(session.plan_text))
            }
        finally:
            session.close()
        plans = []
        for shard, part in zip(shards, parts, strict=True):
            with naming_shard(shard.number, shard.count):
                sent = scans[part.rpartition(".")[2]]
                plans.append(shard.remote_plan(sent, statement.example, statement.settings))
        self.facts = {
            "shard_plans": json.dumps(plans),
            "shard_settings": json.dumps(dict(statement.settings)),
        }
        self._explained = (statement.sql, statement.settings)


def _name(shard: Shard) -> str:
    name = shard.names()[0]
    assert name is not None
    return name
