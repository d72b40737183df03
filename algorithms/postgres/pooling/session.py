"""A client's connection to a pooler: what it sends, and how it is known with which settings that runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import sql

from ..errors import PostgresError
from ..session import STATEMENT, QuerySession, SessionFacts
from ..statement import set_and_check
from .program import LOCAL, SESSION
from .statement import PooledStatement
from .transactions import TransactionConnection, statements_around

_READING = b"ann_settings"
_NAME_THERE = "SELECT name FROM pg_prepared_statements WHERE statement = %s"


class PooledSession(QuerySession):
    """A session whose statements run on a server connection of its own, or on whichever is free."""

    def __init__(self, statement: PooledStatement) -> None:
        """Connect, prepare the statement, and check its plan and settings."""
        self._pooled = statement
        try:
            super().__init__(statement)
        except PostgresError as error:
            raise statement.attributed(error) from None
        try:
            self.prepare(_READING, statement.reading)
            if statement.mode == LOCAL:  # also where a point sets nothing itself
                before, after = statements_around(statement.local)
                for name, text in {**before, **after}.items():
                    self.prepare(name, text)
                self.libpq = TransactionConnection(self.libpq, before, after)
                self.execute = self.libpq.exec_prepared
            self.check_settings()
        except BaseException:
            self.close()
            raise

    def check_settings(self) -> None:
        """Raise PostgresError where a statement, sent as queries are, does not run with the settings."""
        self.read_settings()

    def read_settings(self) -> int:
        """Do the same; return the process id of the backend that has executed it."""
        result = self.execute(_READING, None)
        self.check(result)
        backend, *values = (result.get_value(0, column) for column in range(result.nfields))
        self._pooled.check_values([None if value is None else value.decode() for value in values])
        assert backend is not None
        return int(backend)

    def facts(self) -> SessionFacts:
        """Describe it, with the settings that its queries have."""
        found = super().facts()
        settings = {**found.settings, **{name: self._pooled.expected[name] for name in self._pooled.local}}
        return SessionFacts(found.process, found.backend, dict(sorted(settings.items())), found.plan)

    def _set(self, settings: Mapping[str, str]) -> None:
        # Where clients share a connection, what one of them sets is set for the others, too.
        if self._pooled.mode == SESSION:
            set_and_check(self._connection, settings)

    def _explained(self, arguments: Sequence[str], *options: str) -> dict[str, Any]:
        if self._pooled.mode == SESSION:
            return super()._explained(arguments, *options)
        with self._connection.transaction():  # so that all of it is on one server connection
            for name, value in self._pooled.local.items():
                self._connection.execute("SELECT set_config(%s, %s, true)", [name, value])
            # The pooler prepares it there, by a name of its own, when it is described. Executed, it would
            # warm what a cold run has to read.
            self.check(self._connection.pgconn.describe_prepared(STATEMENT))
            row = self._connection.execute(_NAME_THERE, [self._pooled.sql]).fetchone()
            assert row is not None
            self._executed = sql.Identifier(row[0]).as_string()
            return super()._explained(arguments, *options)
