"""Connections: to a server of ours by its parameters alone, to somebody else's also by libpq's environment.

libpq reads some forty variables, and files in a home folder. Parameters cannot take precedence over all of
them: a service that is named must exist, and TimeZone and DateStyle are not parameters. So whatever connects
to a server of ours does so without these variables. Its parameters carry the mark of that, because they also
reach clients in other processes, whose environments may differ.

A role or a database of somebody else's server may have any setting. So each session there is given those that
this project relies on; those that a role has in their place are stored with the results (whereabouts.py).
"""

import json
import os
from collections.abc import Mapping
from typing import Any

import psycopg

from ..environment import PREFIX
from ..errors import PostgresError, refusal

_PREFIX = "PG"  # of libpq's variables, the server's, and those of its programs
# No file has this name, so no password is read from the home folder; and the parameters are ours.
_NO_PASSWORDS = "/dev/null/none"
SESSION_SETTINGS = {
    # Loads and builds take hours, and connections wait for as long while others work.
    "statement_timeout": "0",
    "lock_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    # With serializable, queries keep locks.
    "default_transaction_isolation": "read committed",
    # How values, names and statements are written, and which messages are sent.
    "client_encoding": "UTF8",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "quote_all_identifiers": "off",
    "client_min_messages": "notice",
    # Citus would send what changes a schema on to all nodes of a cluster, or refuse it on a worker.
    "citus.enable_metadata_sync": "off",
}
# What PGOPTIONS and the like give stays. Citus hides its settings from pg_settings. The schemas of all
# extensions come behind those of the search_path.
_GIVE = """
    WITH given AS (
        SELECT key AS name, value FROM json_each_text(%s)
        UNION ALL
        SELECT 'search_path', concat_ws(', ', nullif(current_setting('search_path'), ''),
                                        string_agg(DISTINCT quote_ident(nspname), ', '))
        FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE nspname <> ALL (current_schemas(true)) HAVING count(*) > 0
    )
    SELECT set_config(name, value, false) FROM given LEFT JOIN pg_settings USING (name)
    WHERE name = 'search_path' OR source IS DISTINCT FROM 'client' AND current_setting(name, true) <> value"""
_OVERRIDDEN = (
    "SELECT name, reset_val FROM pg_settings"
    " WHERE name = ANY(%s) AND setting IS DISTINCT FROM reset_val ORDER BY name"
)
SHARED_BACKENDS = (
    "a pooler has several backends execute the statements of one session, which loses its settings: set"
    f" pool_mode = session for this database, or name the server itself in {PREFIX}HOST and _PORT"
)


def own_parameters(host: str, port: str, user: str, dbname: str) -> dict[str, Any]:
    """Keyword arguments of libpq for a server of ours."""
    place = {"host": host, "port": port, "user": user, "dbname": dbname}
    return place | {"passfile": _NO_PASSWORDS, "gssencmode": "disable", "options": ""}


def open_connection(parameters: Mapping[str, Any], seconds: int) -> psycopg.Connection[Any]:
    """Open a connection in autocommit mode; psycopg.OperationalError where that takes longer."""
    if _are_own(parameters):
        for name in [name for name in os.environ if name.startswith(_PREFIX)]:
            os.environ.pop(name, None)  # for good: threads that connect would not find it restored in time
    return psycopg.connect(**parameters, autocommit=True, connect_timeout=seconds)


def connect(parameters: Mapping[str, Any]) -> psycopg.Connection[Any]:
    """Open a connection in autocommit mode; `parameters` are libpq's, PostgresError names the place."""
    connection = unset_connection(parameters)
    if not _are_own(parameters):
        try:
            give_settings(connection)
        except psycopg.Error as error:
            connection.close()
            raise refusal("the server cannot be used", error) from None
    return connection


def give_settings(connection: psycopg.Connection[Any]) -> None:
    """Give a session of somebody else's server what it is to have."""
    connection.execute(_GIVE, [json.dumps(SESSION_SETTINGS)])


def overridden_settings(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Return the settings of the role or the database that a session has others in place of."""
    return dict(connection.execute(_OVERRIDDEN, [list(SESSION_SETTINGS)]).fetchall())


def backend_of(connection: psycopg.Connection[Any]) -> int:
    """Return the process id of the backend: what libpq knows may be a number that a pooler has made up."""
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def unset_connection(parameters: Mapping[str, Any]) -> psycopg.Connection[Any]:
    """Open a connection whose settings are those of the role; PostgresError names the place."""
    try:
        return open_connection(parameters, 10)
    except (psycopg.Error, UnicodeError) as error:  # the latter: a host's name that no network has
        place = f"{parameters.get('host', 'the default host')}, port {parameters.get('port', 'default')}"
        reason = " ".join(str(error).split())
        raise PostgresError(f"cannot connect to PostgreSQL at {place}: {reason}") from None


def _are_own(parameters: Mapping[str, Any]) -> bool:
    return parameters.get("passfile") == _NO_PASSWORDS
