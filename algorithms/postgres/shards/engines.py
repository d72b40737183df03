"""What asks shards for the rows that are nearest to a query."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from ..citus import CITUS
from ..citus import TABLE as DISTRIBUTED_TABLE
from ..columns import Column
from ..errors import PostgresError, naming_shard
from ..extension import RequiredExtension
from ..forms import RowSource, query_sql
from ..routing import Router
from ..scattered import ScatteredStatement
from ..session import QuerySession
from ..statement import QueryStatement, changed
from .citus import OWN_SETTINGS, CitusCoordinator, CitusStatement
from .coordinator import TABLE, Coordinator
from .shard import Shard
from .sql import concurrent_sql, scattered_sql
from .statement import CoordinatorStatement, remote_scans

ROUTED = "routed"
_OF_CLIENTS = ("client", ROUTED)  # which wait for all connections by epoll
ENGINES = ("fdw", "fdw-naive", "client", CITUS, ROUTED)


class Engine:
    """The statements that clients send, and the coordinator that they are sent to, where there is one."""

    def __init__(self, name: str, extension: RequiredExtension, metric: str) -> None:
        """Take one of ENGINES; nothing is started yet."""
        if name not in ENGINES:
            raise PostgresError(f"there is no shard engine '{name}': use {', '.join(ENGINES)}")
        if name in _OF_CLIENTS and sys.platform != "linux":
            raise PostgresError(f"the shard engine '{name}' needs Linux: use --shard-engine fdw")
        self._metric, self._is_concurrent, self.is_citus = metric, name == "fdw", name == CITUS
        self.coordinator: Coordinator | CitusCoordinator | None = None
        if self.is_citus:
            self.coordinator = CitusCoordinator(extension)
        elif name not in _OF_CLIENTS:
            self.coordinator = Coordinator(extension, self._is_concurrent)
        self.router: Router | None = None  # None: all shards are asked
        self.facts: dict[str, Any] = {}  # of the shards, for the last statement of a coordinator
        self._explained: Any = None  # that statement and its settings

    def check(self, shards: Sequence[Shard]) -> None:
        """Raise PostgresError where the coordinator cannot ask servers that run already."""
        if isinstance(self.coordinator, CitusCoordinator) and not shards[0].found_server().is_ours:
            self.coordinator.check([shard.found_server() for shard in shards])

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
            parts = {"shards": tuple(scattered), "router": self.router}
            return changed(scattered[0], ScatteredStatement, **parts)
        if isinstance(self.coordinator, CitusCoordinator):
            self.coordinator.use(each[0].settings)
            statement: CoordinatorStatement = changed(
                each[0],
                CitusStatement,
                parameters=self.coordinator.server.connection_parameters(),
                sql=query_sql(RowSource(DISTRIBUTED_TABLE), form, *how),
                index=None,
                settings={**each[0].settings, **OWN_SETTINGS},
                shards=tuple(one.parameters for one in each),
                of_shards=each[0].settings,
            )
            return self._explained_once(shards, statement)
        if self._is_concurrent:
            sql = concurrent_sql(self.coordinator.parts, form, *how)
        else:
            sql = query_sql(RowSource(TABLE), form, *how)
        self.coordinator.use(each[0].settings, rerank or n)
        statement = changed(
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
        return self._explained_once(shards, statement)

    def _explained_once(
        self, shards: Sequence[Shard], statement: CoordinatorStatement
    ) -> CoordinatorStatement:
        """Check how each shard answers what it is sent, unless that was checked of the last statement."""
        if self._explained == (statement.sql, statement.settings):
            return statement
        session = QuerySession(statement)
        try:
            sent = self._sent(shards, json.loads(session.plan_text))
        finally:
            session.close()
        settings = dict(statement.settings_of_shards)
        plans = []
        for shard, query in zip(shards, sent, strict=True):
            with naming_shard(shard.number, shard.count):
                plans.append(shard.remote_plan(query, statement.example, settings, not self.is_citus))
        self.facts = {"shard_plans": json.dumps(plans), "shard_settings": json.dumps(settings)}
        self._explained = (statement.sql, statement.settings)
        return statement

    def _sent(self, shards: Sequence[Shard], plan: Any) -> list[str]:
        """Return what the plan of a coordinator sends to each shard."""
        if isinstance(self.coordinator, CitusCoordinator):
            return self.coordinator.sent(plan)
        assert self.coordinator is not None
        scans = {str(scan["Relation Name"]): str(scan["Remote SQL"]) for scan in remote_scans(plan)}
        return [scans[part.rpartition(".")[2]] for part in self.coordinator.parts]


def _name(shard: Shard) -> str:
    name = shard.names()[0]
    assert name is not None
    return name
