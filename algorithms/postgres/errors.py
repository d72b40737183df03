"""The exception for what the user can mend about a server or an index."""


class PostgresError(RuntimeError):
    """Its text is one line that says what is wrong with the server, the index or the data, and what to do."""
