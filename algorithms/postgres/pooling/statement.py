"""A query that goes through a pooler, and the settings that it has to run with there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from ..errors import PostgresError
from ..servers.libpq import connect
from ..statement import QueryStatement
from .program import LOCAL, NAME, SESSION

ADMIN = NAME  # the database that is the console of the pooler itself


@dataclass(frozen=True)
class PooledStatement(QueryStatement):
    """A statement whose parameters lead to a pooler."""

    mode: str = SESSION
    expected: Mapping[str, str] = field(default_factory=dict)  # all settings, as the server writes them
    own: Mapping[str, str] = field(default_factory=dict)  # those of the point, which the plug-in has set

    @property
    def local(self) -> Mapping[str, str]:
        """The settings that each query sets for itself."""
        return self.own if self.mode == LOCAL else {}

    @property
    def reading(self) -> str:
        """SQL that returns the backend's process id, and the value of each setting, in their order."""
        values = [sql.SQL("current_setting({}, true)").format(name).as_string() for name in self.expected]
        return f"SELECT {', '.join(['pg_backend_pid()', *values])}"

    def check_values(self, values: Sequence[str | None]) -> None:
        """Raise PostgresError where a query has read other values than are expected."""
        for (name, expected), found in zip(self.expected.items(), values, strict=True):
            if found != expected:
                has = "no value" if found is None else found
                raise PostgresError(
                    f"queries run with {name} = {has} on a connection of the pooler, where {expected} is"
                    " requested: it was not set there, or another client has changed it"
                )

    def attributed(self, error: PostgresError) -> PostgresError:
        """Return the error, which names the pooler where that does not answer."""
        try:
            connect({**self.parameters, "dbname": ADMIN}).close()
        except PostgresError:
            return PostgresError(f"{NAME} does not answer: {error}")
        return error
