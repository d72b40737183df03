"""The exception for what the user can mend about a server or an index."""

import psycopg


class PostgresError(RuntimeError):
    """Its text is one line that says what is wrong with the server, the index or the data, and what to do."""


class NotInstalledError(PostgresError):
    """What can be installed is not: it is left out where nobody has asked for it by name."""

    is_unavailable = True


def refusal(doing: str, error: psycopg.Error) -> PostgresError:
    """Put what the server said on one line: an extension's message may have several, and a stack trace."""
    said = " ".join((error.diag.message_primary or str(error)).split())
    return PostgresError(f"{doing}: {said}")
