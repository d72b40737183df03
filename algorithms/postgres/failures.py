"""What a server that gives up is reported as."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from .errors import PostgresError
from .servers import Server

INSUFFICIENT_RESOURCES = "53"  # the class of SQLSTATE: disk full, out of memory


@contextmanager
def plainly(server: Server, doing: str, kept: str = "nothing of it was kept") -> Iterator[None]:
    """Say on one line why the server gave up, and what the transactions inside have left behind."""
    try:
        yield
    except psycopg.DatabaseError as error:
        # A connection that is lost is no OperationalError everywhere, but never has a state.
        is_lost = type(error) is psycopg.DatabaseError and error.sqlstate is None
        if not is_lost and not isinstance(error, psycopg.OperationalError):
            raise
        if (error.sqlstate or "").startswith(INSUFFICIENT_RESOURCES):
            reason = f"ran out of room while {doing}, {kept}: {error.diag.message_primary}"
        else:
            reason = f"broke off while {doing}: {server.last_words() or str(error).splitlines()[0]}"
        raise PostgresError(f"the server {reason}") from None
